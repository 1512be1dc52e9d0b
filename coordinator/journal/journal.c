#include "coordinator/journal/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "coordinator/journal/files.h"
#include "coordinator/journal/record.h"

struct journal {
    struct journal_files files;
    struct sched_config sc;
    uint64_t max_file_bytes;
    uint64_t full_at; /* bytes of this file after which the next begins */
    uint32_t sync_ms;
    uint64_t synced_us;
    int fd;               /* -1 = off */
    struct byte_writer w; /* the buffer */
    size_t begun;         /* where the open record begins in it */
    bool skipping;        /* the open record is not written: off, or no room */
    uint64_t chain;       /* the check of the last record; 0: no file has begun */
    uint64_t file_bytes;
    struct journal_stats stats;
};

/* ---- bytes ---- */

static void switch_off(struct journal *j, const char *why)
{
    log_line(LOG_WARN, "the journal is off from now on: %s", why);
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
    j->stats.on = false;
}

static void write_out(struct journal *j)
{
    size_t done = 0;
    while (j->fd >= 0 && done < j->w.n) {
        ssize_t n = write(j->fd, j->w.data + done, j->w.n - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            switch_off(j, strerror(errno));
    }
    j->file_bytes += done;
    j->stats.n_bytes += done;
    j->w.n = 0;
}

/* Begins a record of at most max_bytes. */
static struct byte_writer *begin(struct journal *j, size_t max_bytes)
{
    j->skipping = false;
    if (j->w.n + RECORD_HEAD + max_bytes > j->w.cap)
        write_out(j);
    if (j->fd < 0)
        j->skipping = true;
    else if (RECORD_HEAD + max_bytes > j->w.cap) {
        switch_off(j, "a record is larger than its buffer");
        j->skipping = true;
    }
    j->begun = j->w.n;
    if (j->skipping)
        j->w.n = j->w.cap; /* puts only count */
    else
        j->w.n += RECORD_HEAD;
    return &j->w;
}

/* g: the scheduler */
static void end(struct journal *j, uint32_t g, enum record_type kind)
{
    uint32_t type = record_type(kind, g);
    if (j->skipping) {
        j->w.n = j->begun;
        j->stats.n_lost++;
        return;
    }
    size_t n = j->w.n - j->begun - RECORD_HEAD;
    unsigned char *data = j->w.data + j->begun;
    struct byte_writer head = {.data = data, .cap = RECORD_HEAD};
    put_u32(&head, type);
    put_u32(&head, (uint32_t)n);
    put_u64(&head, record_seal(&j->chain, type, data + RECORD_HEAD, n));
    j->stats.n_records++;
}

/* ---- files ---- */

/* Scheduler i, or NULL. */
static const struct sched *sched_of(const struct journal_source *from, uint32_t i)
{
    if (from->fleet)
        return fleet_sched(from->fleet, i);
    return i == 0 ? from->sched : NULL;
}

static size_t request_bytes(const struct sched_req *r, uint32_t n_known)
{
    return 256 + MAX_LABEL + 4 * ((size_t)n_known + r->n_stop_ids) + 8 * (size_t)r->n_bias +
           (r->grammar ? r->n_grammar : 0);
}

/* The buffer holds any record but a state, for which it grows once. */
static enum status make_buffer(struct journal *j, const struct journal_source *from)
{
    size_t submit =
        512 + MAX_GRAMMAR_BYTES + 4 * ((size_t)j->sc.max_ctx + MAX_STOP_IDS) + 8 * MAX_LOGIT_BIAS;
    size_t commit = 512 + 16 * (size_t)j->sc.max_seqs;
    size_t state = 64 + 2 * sched_save(sched_of(from, 0), NULL, 0);
    size_t n = (size_t)1 << 20;
    n = n < submit ? submit : n;
    n = n < commit ? commit : n;
    n = n < state ? state : n;
    j->w = (struct byte_writer){.data = malloc(n), .cap = n};
    if (!j->w.data)
        FAIL(ST_NOMEM, "journal: no memory for a buffer of %zu bytes", n);
    return ST_OK;
}

static void put_header(struct journal *j, const struct journal_source *from, uint64_t before)
{
    uint32_t n_states = 0;
    for (uint32_t i = 0; i < FLEET_SCHEDS; i++)
        n_states += sched_of(from, i) != NULL;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct byte_writer *w = begin(j, 512);
    put_u32(w, JOURNAL_VERSION);
    put_u64(w, (uint64_t)now.tv_sec * 1000000U + (uint64_t)now.tv_nsec / 1000U);
    put_text(w, INGOT_VERSION, 63);
    put_config(w, &j->sc);
    put_u64(w, before);
    put_u32(w, n_states);
    end(j, 0, REC_HEADER);
}

/* The state of scheduler g. */
static bool put_state(struct journal *j, uint32_t g, const struct sched *s, bool open)
{
    const struct sched_req *r;
    uint32_t n = 0, at = 0, n_known;
    for (; (r = sched_live(s, &at, &n_known)); n++) {
        put_request(begin(j, request_bytes(r, n_known)), r, n_known);
        end(j, g, REC_LIVE);
    }
    size_t size = sched_save(s, NULL, 0);
    if (size + 64 > j->w.cap) {
        write_out(j);
        unsigned char *larger = realloc(j->w.data, size + 64);
        if (!larger)
            return false;
        j->w.data = larger;
        j->w.cap = size + 64;
    }
    struct byte_writer *w = begin(j, size + 8);
    put_u32(w, n);
    put_u32(w, open);
    if (!j->skipping)
        w->n += sched_save(s, w->data + w->n, w->cap - w->n);
    end(j, g, REC_STATE);
    return true;
}

static enum status begin_file(struct journal *j, const struct journal_source *from)
{
    TRY(journal_files_next(&j->files, &j->fd));
    uint64_t before = j->chain;
    j->chain = CHAIN_START;
    j->file_bytes = 0;
    j->stats.n_files++;
    put_bytes(&j->w, JOURNAL_MAGIC, 8);
    put_header(j, from, before);
    for (uint32_t i = 0; i < FLEET_SCHEDS; i++)
        if (sched_of(from, i) &&
            !put_state(j, i, sched_of(from, i), from->fleet && fleet_is_open(from->fleet, i)))
            FAIL(ST_NOMEM, "journal: no memory for a scheduler's state");
    write_out(j);
    j->full_at = 2 * j->file_bytes;
    if (j->full_at < j->max_file_bytes)
        j->full_at = j->max_file_bytes;
    return ST_OK;
}

enum status journal_open(struct journal **out, const struct journal_config *cfg,
                         const struct journal_source *from, const struct sched_config *sc)
{
    *out = NULL;
    if (!cfg->dir)
        return ST_OK;
    struct journal *j = calloc(1, sizeof *j);
    if (!j)
        FAIL(ST_NOMEM, "journal: no memory");
    j->fd = -1;
    j->sc = *sc;
    j->max_file_bytes = cfg->max_file_bytes;
    j->sync_ms = cfg->sync_ms;
    enum status st = journal_files_open(&j->files, cfg->dir, cfg->name, cfg->max_files);
    if (st == ST_OK)
        st = make_buffer(j, from);
    if (st == ST_OK) {
        j->stats.on = true;
        st = begin_file(j, from);
    }
    if (st == ST_OK && j->fd < 0)
        st = status_fail(ST_IO, __FILE__, __LINE__, "journal: cannot write into %s", cfg->dir);
    if (st != ST_OK) {
        journal_close(j);
        return st;
    }
    *out = j;
    return ST_OK;
}

void journal_close(struct journal *j)
{
    if (!j)
        return;
    if (j->fd >= 0) {
        begin(j, 0);
        end(j, 0, REC_END);
        write_out(j);
    }
    if (j->fd >= 0)
        close(j->fd);
    free(j->w.data);
    free(j);
}

/* ---- records ---- */

static void put_effects(struct byte_writer *w, const struct sched_effect *fx, size_t n_fx)
{
    put_u32(w, (uint32_t)n_fx);
    put_u64(w, fx_digest(fx, n_fx));
}

void journal_submit(struct journal *j, const struct sched_req *r)
{
    if (!j)
        return;
    put_request(begin(j, request_bytes(r, r->n_tokens)), r, r->n_tokens);
    end(j, 0, REC_SUBMIT);
}

void journal_cancel(struct journal *j, uint64_t seq_id, enum finish_reason why)
{
    if (!j)
        return;
    struct byte_writer *w = begin(j, 64);
    put_u64(w, seq_id);
    put_u32(w, why);
    end(j, 0, REC_CANCEL);
}

void journal_plan(struct journal *j, uint32_t g, uint64_t now_us, bool made,
                  const struct step_plan *p, const struct sched_effect *fx, size_t n_fx)
{
    if (!j || (!made && n_fx == 0)) /* nothing happened */
        return;
    struct byte_writer *w = begin(j, 128);
    put_u64(w, now_us);
    put_u32(w, made);
    if (made) {
        put_u64(w, p->step_id);
        put_u64(w, p->epoch);
        put_u32(w, p->n_seqs);
        put_u32(w, p->n_tokens);
        put_u64(w, plan_digest(p));
    }
    put_effects(w, fx, n_fx);
    end(j, g, REC_PLAN);
}

void journal_commit(struct journal *j, uint32_t g, const struct step_result *r,
                    const struct sched_effect *fx, size_t n_fx)
{
    if (!j)
        return;
    struct byte_writer *w = begin(j, 128 + 16 * (size_t)r->n);
    put_u64(w, r->step_id);
    put_u64(w, r->epoch);
    put_u64(w, r->compute_us);
    put_u64(w, r->comm_us);
    put_u32(w, r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        put_u64(w, r->tokens[i].seq_id);
        put_u32(w, (uint32_t)r->tokens[i].token);
        put_f32(w, r->tokens[i].logprob);
    }
    put_effects(w, fx, n_fx);
    end(j, g, REC_COMMIT);
}

void journal_reset(struct journal *j, uint32_t new_n_blocks, const struct sched_effect *fx,
                   size_t n_fx)
{
    if (!j)
        return;
    struct byte_writer *w = begin(j, 64);
    put_u32(w, new_n_blocks);
    put_effects(w, fx, n_fx);
    end(j, 0, REC_RESET);
}

void journal_open_group(struct journal *j, uint32_t g, uint32_t n_blocks,
                        const struct sched_effect *fx, size_t n_fx)
{
    if (!j)
        return;
    struct byte_writer *w = begin(j, 64);
    put_u32(w, n_blocks);
    put_effects(w, fx, n_fx);
    end(j, g, REC_OPEN);
}

void journal_close_group(struct journal *j, uint32_t g, const struct sched_effect *fx, size_t n_fx)
{
    if (!j)
        return;
    put_effects(begin(j, 64), fx, n_fx);
    end(j, g, REC_CLOSE);
}

void journal_moves(struct journal *j, const struct fleet_move *moves, size_t n)
{
    if (!j || n == 0)
        return;
    struct byte_writer *w = begin(j, 16 * n);
    for (size_t i = 0; i < n; i++) {
        put_u64(w, moves[i].seq_id);
        put_u32(w, moves[i].from);
        put_u32(w, moves[i].to);
    }
    end(j, 0, REC_MOVE);
}

static void next_file(struct journal *j, const struct journal_source *from)
{
    begin(j, 0);
    end(j, 0, REC_END);
    write_out(j);
    if (j->fd < 0)
        return;
    close(j->fd);
    j->fd = -1;
    if (begin_file(j, from) != ST_OK)
        switch_off(j, status_text());
}

void journal_flush(struct journal *j, const struct journal_source *from, uint64_t now_us)
{
    if (!j || j->fd < 0)
        return;
    write_out(j);
    if (j->fd >= 0 && j->file_bytes >= j->full_at)
        next_file(j, from);
    if (j->fd < 0 || j->sync_ms == 0 || now_us - j->synced_us < (uint64_t)j->sync_ms * 1000)
        return;
    j->synced_us = now_us;
    if (fsync(j->fd) != 0)
        switch_off(j, strerror(errno));
}

void journal_stats(const struct journal *j, struct journal_stats *out)
{
    *out = j ? j->stats : (struct journal_stats){0};
}
