#include "worker/quantize/quality.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/parent.h"
#include "common/program_path.h"
#include "worker/engine/engine.h"

enum { CHUNK = 64, BLOCK_LEN = 16, SEQ = 1 };

/* ---- tokens ---- */

struct tokens {
    int32_t *id;
    int32_t n, cap;
};

static _Noreturn void run_text(const struct quality_config *c, int out)
{
    char self[4096], path[4200];
    char *slash = program_path(self, sizeof self) ? strrchr(self, '/') : NULL;
    if (die_with_parent_across_exec() == ST_PEER || dup2(out, STDOUT_FILENO) < 0)
        _exit(127);
    if (slash) {
        snprintf(path, sizeof path, "%.*s/ingot-text", (int)(slash - self), self);
        execl(path, "ingot-text", "tokenize", c->source, "--text-file", c->text, (char *)NULL);
    }
    execlp("ingot-text", "ingot-text", "tokenize", c->source, "--text-file", c->text, (char *)NULL);
    _exit(127);
}

static enum status add_token(struct tokens *t, int id)
{
    if (t->n == t->cap) {
        int32_t cap = t->cap ? 2 * t->cap : 4096;
        int32_t *p = realloc(t->id, (size_t)cap * sizeof *p);
        if (!p)
            FAIL(ST_NOMEM, "no memory for %d tokens", cap);
        t->id = p;
        t->cap = cap;
    }
    t->id[t->n++] = id;
    return ST_OK;
}

/* All is read, so that the other program can end; max tokens are kept. */
static enum status read_tokens(struct tokens *t, FILE *f, int32_t max)
{
    int id;
    while (fscanf(f, "%d", &id) == 1)
        if (t->n < max)
            TRY(add_token(t, id));
    return ST_OK;
}

static enum status tokenize(struct tokens *t, const struct quality_config *c)
{
    int fd[2], status = 0;
    if (pipe(fd) != 0)
        FAIL(ST_IO, "cannot make a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        close(fd[0]);
        run_text(c, fd[1]);
    }
    close(fd[1]);
    FILE *f = pid > 0 ? fdopen(fd[0], "r") : NULL;
    if (!f)
        close(fd[0]);
    enum status st =
        f ? read_tokens(t, f, c->max_tokens)
          : status_fail(ST_IO, __FILE__, __LINE__, "cannot start ingot-text: %s", strerror(errno));
    if (f)
        fclose(f);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    TRY(st);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        FAIL(ST_IO, "ingot-text could not read the tokens of %s (its code: %d)", c->text,
             WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    if (t->n < 2)
        FAIL(ST_RANGE, "%s has %d tokens: at least 2 are needed", c->text, t->n);
    return ST_OK;
}

/* ---- models ---- */

struct model {
    struct backend *be;
    struct loader *ld;
    struct engine *e;
    int32_t vocab, max_ctx;
    float *logits; /* [CHUNK, vocab] */
};

static enum status open_model(struct model *m, const char *path, const struct quality_config *c)
{
    struct backend_config bc = {.threads = c->n_threads};
    TRY(backend_open(&m->be, "cpu", &bc));
    TRY(loader_open(&m->ld, path));
    const struct model_config *mc = loader_config(m->ld);
    m->vocab = mc->vocab;
    m->max_ctx = c->window < mc->max_ctx ? c->window : mc->max_ctx;
    struct decoder_config dc = {.world = 1,
                                .max_tokens = CHUNK,
                                .max_seqs = 1,
                                .max_out = CHUNK,
                                .n_blocks = (m->max_ctx + BLOCK_LEN - 1) / BLOCK_LEN,
                                .block_len = BLOCK_LEN,
                                .max_ctx = m->max_ctx,
                                .kv_dtype = DT_F32};
    m->logits = malloc(CHUNK * (size_t)m->vocab * sizeof *m->logits);
    if (!m->logits)
        FAIL(ST_NOMEM, "no memory for logits");
    return engine_create(&m->e, m->ld, m->be, NULL, &dc);
}

static void close_model(struct model *m)
{
    engine_destroy(m->e);
    loader_close(m->ld);
    if (m->be)
        backend_ops_of(m->be)->close(m->be);
    free(m->logits);
}

/* ---- comparison ---- */

struct sums {
    double kl, nll_source, nll;
    int32_t n, n_next, same;
    double *each; /* [n] divergences */
};

static double log_sum_exp(const float *x, int32_t n, int32_t *top)
{
    double sum = 0;
    *top = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[*top])
            *top = i;
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)x[*top]);
    return (double)x[*top] + log(sum);
}

/* next: the token that follows, or -1. */
static void compare_row(struct sums *s, const float *p, const float *q, int32_t n, int32_t next)
{
    int32_t top_p, top_q;
    double lp = log_sum_exp(p, n, &top_p), lq = log_sum_exp(q, n, &top_q), kl = 0;
    for (int32_t i = 0; i < n; i++) {
        double a = (double)p[i] - lp;
        kl += exp(a) * (a - ((double)q[i] - lq));
    }
    s->each[s->n++] = kl;
    s->kl += kl;
    s->same += top_p == top_q;
    if (next >= 0) {
        s->n_next++;
        s->nll_source += lp - (double)p[next];
        s->nll += lq - (double)q[next];
    }
}

/* One sequence of n tokens, in chunks, through both. */
static enum status compare_window(struct sums *s, struct model *m, const int32_t *id, int32_t n,
                                  const struct quality_config *c)
{
    for (int k = 0; k < 2; k++) {
        engine_release(m[k].e, SEQ);
        TRY(engine_prepare(m[k].e, SEQ, n));
    }
    for (int32_t at = 0; at < n; at += CHUNK) {
        int32_t here = n - at < CHUNK ? n - at : CHUNK;
        if (*c->stop)
            FAIL(ST_CANCELED, "interrupted");
        for (int k = 0; k < 2; k++)
            TRY(engine_forward_verify(m[k].e, SEQ, id + at, here, m[k].logits));
        for (int32_t i = 0; i < here; i++) {
            size_t row = (size_t)i * (size_t)m->vocab;
            compare_row(s, m[0].logits + row, m[1].logits + row, m->vocab,
                        at + i + 1 < n ? id[at + i + 1] : -1);
        }
    }
    return ST_OK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void conclude(struct quality *out, struct sums *s)
{
    qsort(s->each, (size_t)s->n, sizeof *s->each, by_size);
    *out = (struct quality){.n_positions = s->n,
                            .mean_kl = s->kl / s->n,
                            .kl_99 = s->each[(int32_t)(0.99 * (s->n - 1))],
                            .same_top = (double)s->same / s->n,
                            .perplexity_source = exp(s->nll_source / s->n_next),
                            .perplexity = exp(s->nll / s->n_next)};
}

static enum status compare(struct quality *out, struct model *m, const struct tokens *t,
                           const struct quality_config *c)
{
    struct sums s = {.each = malloc((size_t)t->n * sizeof(double))};
    enum status st = ST_OK;
    if (!s.each)
        FAIL(ST_NOMEM, "no memory for %d positions", t->n);
    for (int32_t at = 0; at + 1 < t->n && st == ST_OK; at += m->max_ctx) {
        int32_t left = t->n - at, n = left < m->max_ctx ? left : m->max_ctx;
        st = compare_window(&s, m, t->id + at, n, c);
        c->report(c->ctx, at + n, t->n);
    }
    if (st == ST_OK)
        conclude(out, &s);
    free(s.each);
    return st;
}

enum status quality_measure(struct quality *out, const struct quality_config *c)
{
    struct model m[2] = {{0}, {0}};
    struct tokens t = {0};
    enum status st = tokenize(&t, c);
    if (st == ST_OK)
        st = open_model(&m[0], c->source, c);
    if (st == ST_OK)
        st = open_model(&m[1], c->quantised, c);
    for (int32_t i = 0; st == ST_OK && i < t.n; i++)
        if (t.id[i] < 0 || t.id[i] >= m->vocab)
            st = status_fail(ST_RANGE, __FILE__, __LINE__,
                             "token %d of %s is not in the model's %d", t.id[i], c->text, m->vocab);
    if (st == ST_OK)
        st = compare(out, m, &t, c);
    close_model(&m[0]);
    close_model(&m[1]);
    free(t.id);
    return st;
}
