#include "coordinator/journal/journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "coordinator/journal/blind.h"
#include "coordinator/journal/files.h"
#include "coordinator/journal/record.h"
#include "coordinator/journal/syncer.h"

struct journal {
    struct journal_files files;
    struct sched_config sc;
    uint64_t max_file_bytes;
    uint64_t full_at; /* bytes of this file after which the next begins */
    enum journal_sync sync;
    enum journal_content content;
    struct blind *blind; /* JOURNAL_NO_CONTENT, since it began */
    bool lost; /* the blind scheduler differs from the real one: nothing more is written */
    struct syncer *syncer; /* JOURNAL_BATCH */
    uint64_t synced_us, retry_us;
    int fd;               /* -1 = it has not begun, or cannot be written */
    struct byte_writer w; /* the buffer */
    size_t begun;         /* where the open record begins in it */
    bool skipping;        /* the open record is not written: off, or no room */
    uint64_t chain;       /* the check of the last record; 0: no file has begun */
    uint64_t file_bytes;
    uint64_t now_us;        /* of the last flush */
    uint64_t began_us;      /* now_us when the file began */
    bool admitted;          /* a request since the last flush */
    struct admission *open; /* the newest first */
    struct journal_served served;
    struct journal_stats stats;
};

struct admission {
    struct admission *next, **link; /* link: what points to it */
    size_t n;
    unsigned char body[]; /* [n] of its record */
};

enum { SYNC_US = 1000 * 1000, RETRY_US = 1000 * 1000 };

/* ---- bytes ---- */

static void give_up_file(struct journal *j, const char *why)
{
    if (j->stats.on || !*j->stats.why)
        log_line(LOG_WARN, "the journal cannot be written: %s%s", why,
                 j->sync == JOURNAL_NONE ? "; requests are taken without it"
                 : j->lost ? "; new requests are refused until the server is started again"
                           : "; new requests are refused until it can");
    if (j->fd >= 0)
        close(j->fd);
    j->fd = -1;
    j->w.n = 0;
    j->stats.on = false;
    j->retry_us = j->now_us + RETRY_US;
    snprintf(j->stats.why, sizeof j->stats.why, "%s", why);
}

static void write_out(struct journal *j)
{
    size_t done = 0;
    while (j->fd >= 0 && done < j->w.n) {
        ssize_t n = write(j->fd, j->w.data + done, j->w.n - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            give_up_file(j, strerror(errno));
    }
    j->file_bytes += done;
    j->stats.n_bytes += done;
    j->w.n = 0;
}

static bool make_room(struct journal *j, size_t n)
{
    if (j->w.n + n > j->w.cap)
        write_out(j);
    if (n <= j->w.cap)
        return true;
    unsigned char *larger = realloc(j->w.data, n);
    if (!larger)
        return false;
    j->w.data = larger;
    j->w.cap = n;
    return true;
}

/* Begins a record of at most max_bytes. */
static struct byte_writer *begin(struct journal *j, size_t max_bytes)
{
    if (j->fd >= 0 && !make_room(j, RECORD_HEAD + max_bytes))
        give_up_file(j, "no memory for a record");
    j->skipping = j->fd < 0;
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

/* ---- without content ---- */

/* Is there anything to be done? */
static bool is_off(const struct journal *j)
{
    return !j || j->lost;
}

/* st: of the blind scheduler.  false: it has failed, and its state cannot be known again. */
static bool is_hidden(struct journal *j, enum status st)
{
    if (st == ST_OK)
        return true;
    j->lost = true;
    j->stats.n_lost++;
    give_up_file(j, status_text());
    return false;
}

/* What files begin with. */
static struct journal_source source_of(const struct journal *j, const struct journal_source *real)
{
    if (!j->blind)
        return *real;
    return (struct journal_source){.sched = blind_sched(j->blind), .fleet = blind_fleet(j->blind)};
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

/* The buffer holds any record but a state and large admissions, for which it grows. */
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
    struct byte_writer *w = begin(j, 512);
    put_u32(w, JOURNAL_VERSION);
    put_u64(w, clock_wall_us());
    put_text(w, INGOT_VERSION, 63);
    put_config(w, &j->sc);
    put_u64(w, before);
    put_u64(w, j->now_us);
    put_u32(w, n_states);
    put_u32(w, j->content);
    end(j, 0, REC_HEADER);
}

/* The state of scheduler g. */
static void put_state(struct journal *j, uint32_t g, const struct sched *s, bool open)
{
    const struct sched_req *r;
    uint32_t n = 0, at = 0, n_known;
    for (; (r = sched_live(s, &at, &n_known)); n++) {
        put_request(begin(j, request_bytes(r, n_known)), r, n_known);
        end(j, g, REC_LIVE);
    }
    struct byte_writer *w = begin(j, sched_save(s, NULL, 0) + 8);
    put_u32(w, n);
    put_u32(w, open);
    if (!j->skipping)
        w->n += sched_save(s, w->data + w->n, w->cap - w->n);
    end(j, g, REC_STATE);
}

static void put_open(struct journal *j)
{
    for (const struct admission *a = j->open; a; a = a->next) {
        put_bytes(begin(j, a->n), a->body, a->n);
        end(j, 0, REC_ADMIT);
    }
    put_served(begin(j, 512), &j->served);
    end(j, 0, REC_SERVED);
}

/* before: the last check of the file that this one continues, 0: none. */
static void begin_file(struct journal *j, const struct journal_source *from, uint64_t before)
{
    if (journal_files_next(&j->files, &j->fd) != ST_OK) {
        give_up_file(j, status_text());
        return;
    }
    j->w.n = 0;
    j->chain = CHAIN_START;
    j->file_bytes = 0;
    put_bytes(&j->w, JOURNAL_MAGIC, 8);
    put_header(j, from, before);
    for (uint32_t i = 0; i < FLEET_SCHEDS; i++)
        if (sched_of(from, i))
            put_state(j, i, sched_of(from, i), from->fleet && fleet_is_open(from->fleet, i));
    put_open(j);
    write_out(j);
    if (j->fd >= 0 && j->sync != JOURNAL_NONE && fsync(j->fd) != 0)
        give_up_file(j, strerror(errno));
    if (j->fd >= 0 && journal_files_keep(&j->files, j->max_file_bytes) != ST_OK)
        give_up_file(j, status_text());
    if (j->fd < 0) {
        journal_files_drop(&j->files);
        return;
    }
    if (*j->stats.why)
        log_line(LOG_INFO, "the journal is written again");
    j->stats.why[0] = '\0';
    j->stats.on = true;
    j->stats.n_files++;
    j->began_us = j->now_us;
    j->full_at = 2 * j->file_bytes;
    if (j->full_at < j->max_file_bytes)
        j->full_at = j->max_file_bytes;
}

enum status journal_open(struct journal **out, const struct journal_config *cfg)
{
    *out = NULL;
    if (!cfg->dir)
        return ST_OK;
    struct journal *j = calloc(1, sizeof *j);
    if (!j)
        FAIL(ST_NOMEM, "journal: no memory");
    j->fd = j->files.lock = -1;
    j->max_file_bytes = cfg->max_file_bytes;
    j->sync = cfg->sync;
    j->content = cfg->content;
    enum status st = journal_files_open(&j->files, cfg->dir, cfg->name, &cfg->bounds);
    if (st == ST_OK && j->sync == JOURNAL_BATCH)
        st = syncer_start(&j->syncer);
    if (st != ST_OK) {
        journal_close(j);
        return st;
    }
    *out = j;
    return ST_OK;
}

enum status journal_recover(struct journal *j, struct recovered **out)
{
    *out = NULL;
    return j && j->content == JOURNAL_ALL_CONTENT ? recover_read(out, &j->files) : ST_OK;
}

enum status journal_begin(struct journal *j, const struct journal_source *from,
                          const struct sched_config *sc, uint64_t now_us)
{
    if (!j)
        return ST_OK;
    j->sc = *sc;
    j->now_us = now_us;
    if (j->content == JOURNAL_NO_CONTENT)
        TRY(blind_create(&j->blind, sc, from->fleet != NULL));
    const struct journal_source source = source_of(j, from);
    enum status st = make_buffer(j, &source);
    if (st != ST_OK) {
        blind_destroy(j->blind);
        j->blind = NULL;
        return st;
    }
    begin_file(j, &source, 0);
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
    if (j->fd >= 0 && j->sync != JOURNAL_NONE && fsync(j->fd) != 0)
        log_line(LOG_WARN, "the journal's end did not reach the disk: %s", strerror(errno));
    if (j->fd >= 0)
        close(j->fd);
    while (j->open)
        journal_ended(j, j->open);
    syncer_stop(j->syncer);
    blind_destroy(j->blind);
    journal_files_close(&j->files);
    free(j->w.data);
    free(j);
}

/* ---- admissions ---- */

bool journal_may_admit(const struct journal *j)
{
    return !j || j->sync == JOURNAL_NONE || j->stats.on;
}

enum status journal_carry(struct journal *j, const struct journal_admission *a,
                          struct admission **out)
{
    *out = NULL;
    if (!j || j->content == JOURNAL_NO_CONTENT)
        return ST_OK;
    size_t n = admission_bytes(a);
    struct admission *x = malloc(sizeof *x + n);
    if (!x)
        FAIL(ST_NOMEM, "journal: no memory for a request of %zu bytes", n);
    struct byte_writer w = {.data = x->body, .cap = n};
    put_admission(&w, a);
    x->n = n;
    x->next = j->open;
    x->link = &j->open;
    if (x->next)
        x->next->link = &x->next;
    j->open = x;
    *out = x;
    return ST_OK;
}

enum status journal_admit(struct journal *j, const struct journal_admission *a,
                          struct admission **out)
{
    TRY(journal_carry(j, a, out));
    if (!j)
        return ST_OK;
    j->admitted = true;
    if (!*out) /* its content is not kept */
        return ST_OK;
    put_bytes(begin(j, (*out)->n), (*out)->body, (*out)->n);
    end(j, 0, REC_ADMIT);
    return ST_OK;
}

void journal_ended(struct journal *j, struct admission *a)
{
    if (!j || !a)
        return;
    *a->link = a->next;
    if (a->next)
        a->next->link = a->link;
    free(a);
}

void journal_served(struct journal *j, const struct journal_served *s)
{
    if (!j)
        return;
    j->served = *s;
    put_served(begin(j, 512), s);
    end(j, 0, REC_SERVED);
}

/* ---- records ---- */

static void put_effects(struct byte_writer *w, const struct blind_effects *fx)
{
    put_u32(w, (uint32_t)fx->n);
    put_u64(w, fx_digest(fx->fx, fx->n));
}

void journal_submit(struct journal *j, const struct sched_req *r)
{
    if (is_off(j) || (j->blind && !is_hidden(j, blind_submit(j->blind, r, &r))))
        return;
    put_request(begin(j, request_bytes(r, r->n_tokens)), r, r->n_tokens);
    end(j, 0, REC_SUBMIT);
}

void journal_cancel(struct journal *j, uint64_t seq_id, enum finish_reason why)
{
    if (is_off(j))
        return;
    if (j->blind)
        blind_cancel(j->blind, seq_id);
    struct byte_writer *w = begin(j, 64);
    put_u64(w, seq_id);
    put_u32(w, why);
    end(j, 0, REC_CANCEL);
}

void journal_plan(struct journal *j, uint32_t g, uint64_t now_us, bool made,
                  const struct step_plan *p, const struct sched_effect *fx, size_t n_fx)
{
    struct blind_effects written = {fx, n_fx};
    struct step_plan hidden;
    if (is_off(j) || (!made && n_fx == 0)) /* nothing happened */
        return;
    if (j->blind) {
        if (!is_hidden(j, blind_plan(j->blind, g, now_us, made, p, n_fx, &hidden, &written)))
            return;
        p = &hidden;
    }
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
    put_effects(w, &written);
    end(j, g, REC_PLAN);
}

void journal_commit(struct journal *j, uint32_t g, const struct step_result *r,
                    const struct sched_effect *fx, size_t n_fx)
{
    struct blind_effects written = {fx, n_fx};
    if (is_off(j) ||
        (j->blind && !is_hidden(j, blind_commit(j->blind, g, r, fx, n_fx, &r, &written))))
        return;
    struct byte_writer *w = begin(j, 128 + 16 * ((size_t)r->n + r->n_embeddings));
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
    put_u32(w, r->n_embeddings);
    for (uint32_t i = 0; i < r->n_embeddings; i++) {
        put_u64(w, r->embeddings[i].seq_id);
        put_u64(w, r->embeddings[i].digest);
    }
    put_effects(w, &written);
    end(j, g, REC_COMMIT);
}

void journal_reset(struct journal *j, uint32_t new_n_blocks, const struct sched_effect *fx,
                   size_t n_fx)
{
    struct blind_effects written = {fx, n_fx};
    if (is_off(j) ||
        (j->blind && !is_hidden(j, blind_reset(j->blind, new_n_blocks, n_fx, &written))))
        return;
    struct byte_writer *w = begin(j, 64);
    put_u32(w, new_n_blocks);
    put_effects(w, &written);
    end(j, 0, REC_RESET);
}

void journal_open_group(struct journal *j, uint32_t g, uint32_t n_blocks,
                        const struct sched_effect *fx, size_t n_fx)
{
    struct blind_effects written = {fx, n_fx};
    if (is_off(j) || (j->blind && !is_hidden(j, blind_open(j->blind, g, n_blocks, n_fx, &written))))
        return;
    struct byte_writer *w = begin(j, 64);
    put_u32(w, n_blocks);
    put_effects(w, &written);
    end(j, g, REC_OPEN);
}

void journal_close_group(struct journal *j, uint32_t g, const struct sched_effect *fx, size_t n_fx)
{
    struct blind_effects written = {fx, n_fx};
    if (is_off(j) || (j->blind && !is_hidden(j, blind_close(j->blind, g, n_fx, &written))))
        return;
    put_effects(begin(j, 64), &written);
    end(j, g, REC_CLOSE);
}

void journal_moves(struct journal *j, const struct fleet_move *moves, size_t n)
{
    if (is_off(j) || n == 0 || (j->blind && !is_hidden(j, blind_moves(j->blind, moves, n))))
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
    if (j->sync != JOURNAL_NONE && fsync(j->fd) != 0) {
        give_up_file(j, strerror(errno));
        return;
    }
    close(j->fd);
    j->fd = -1;
    begin_file(j, from, j->chain);
}

/* The disk: at once where a request waits for it, else now and then. */
static void sync_file(struct journal *j)
{
    int error = j->syncer ? syncer_error(j->syncer) : 0;
    if (j->sync == JOURNAL_EACH && j->admitted && fsync(j->fd) != 0)
        error = errno;
    if (j->syncer && j->now_us - j->synced_us > SYNC_US && syncer_ask(j->syncer, j->fd))
        j->synced_us = j->now_us;
    if (error)
        give_up_file(j, strerror(error));
}

static bool is_old(const struct journal *j)
{
    uint64_t age_us = j->files.bounds.max_age_s * 1000000 / 4;
    return age_us && j->now_us - j->began_us > age_us;
}

bool journal_flush(struct journal *j, const struct journal_source *from, uint64_t now_us)
{
    if (!j || !j->w.data) /* it has not begun */
        return true;
    j->now_us = now_us;
    write_out(j);
    if (j->fd >= 0)
        sync_file(j);
    bool durable = j->fd >= 0 || !j->admitted || j->sync == JOURNAL_NONE;
    j->admitted = false;
    const struct journal_source source = source_of(j, from);
    if (j->fd >= 0 && (j->file_bytes >= j->full_at || is_old(j)))
        next_file(j, &source);
    else if (j->fd < 0 && !j->lost && now_us >= j->retry_us)
        begin_file(j, &source, 0);
    return durable;
}

void journal_stats(const struct journal *j, struct journal_stats *out)
{
    *out = j ? j->stats : (struct journal_stats){0};
}

const char *journal_text(const struct journal *j, char *out, size_t size)
{
    if (!j)
        snprintf(out, size, "not durable: there is no journal");
    else if (*j->stats.why)
        snprintf(out, size, "not durable: the journal cannot be written: %s", j->stats.why);
    else if (j->sync == JOURNAL_NONE)
        snprintf(out, size, "not durable: --journal-sync none");
    else if (j->content == JOURNAL_NO_CONTENT)
        snprintf(out, size, "not durable: --journal-content none");
    else
        snprintf(out, size, "%s", j->sync == JOURNAL_EACH ? "each" : "batch");
    return out;
}
