/* The scheduler's whole state as bytes.  Order of the parts: counters; known blocks; the lists of
 * cached and free blocks; sequences, waiting first; steps in flight; closes; when steps are planned
 * by time, the cost model; snapshots of states.  Version 4 had no forced tokens.  Version 3 had no snapshots.  Version 2 had no scores.  Version 1 had no such steps: its state has a
 * deadline among the counters, which is not used, and ends before the cost model. */
#include <string.h>

#include "common/bytes.h"
#include "coordinator/sched/internal.h"

enum { STATE_VERSION = 5, UNPLACED = -2 };

/* ---- save ---- */

#define COUNTERS(X)                                                                                \
    X(epoch)                                                                                       \
    X(last_step_id)                                                                                \
    X(last_arrival)                                                                                \
    X(last_turn)                                                                                   \
    X(n_preemptions)                                                                               \
    X(n_steps)                                                                                     \
    X(tokens_computed)                                                                             \
    X(tokens_cached)                                                                               \
    X(pool.last_prefix_id)
#define PUT(field) put_u64(&w, s->field);
#define GET(field)                                                                                 \
    saved.field = get_u64(r);                                                                      \
    if (version == 1 && &saved.field == &saved.last_turn)                                          \
        get_u64(r); /* a deadline */
#define SET(field) s->field = saved.field;

static void save_block_list(const struct block_pool *p, int32_t head, uint32_t n,
                            struct byte_writer *w)
{
    put_u32(w, n);
    for (int32_t b = head; b >= 0; b = p->blocks[b].next)
        put_u32(w, (uint32_t)b);
}

static void save_pool(const struct block_pool *p, struct byte_writer *w)
{
    uint32_t n_known = 0;
    for (uint32_t b = 0; b < p->n_blocks; b++)
        n_known += p->blocks[b].prefix_id != 0;
    put_u32(w, p->n_blocks);
    put_u32(w, n_known);
    for (uint32_t b = 0; b < p->n_blocks; b++) {
        const struct block *k = &p->blocks[b];
        if (!k->prefix_id)
            continue;
        put_u32(w, b);
        put_u64(w, k->prefix_id);
        put_u64(w, k->key.salt);
        put_u64(w, k->key.group);
        put_u64(w, k->key.parent);
        put_i32s(w, p->tokens + (size_t)b * p->block_len, p->block_len);
    }
    save_block_list(p, p->lru_head, p->n_cached, w);
    save_block_list(p, p->free_head, p->n_free, w);
}

static void save_seq(const struct sched *s, const struct seq *q, struct byte_writer *w)
{
    put_u64(w, q->arrival);
    put_u64(w, q->last_step);
    put_u64(w, q->last_turn);
    put_u64(w, q->chain);
    put_u32(w, q->n_known);
    put_u32(w, q->ahead);
    put_u32(w, q->pos);
    put_u32(w, q->done);
    put_u32(w, q->n_hashed);
    put_u32(w, (uint32_t)q->front | (uint32_t)q->admitted << 1);
    put_u64(w, q->flow < 0 ? 0 : s->flows[q->flow].next_round);
    put_u64(w, q->ticket);
    put_u64(w, q->round);
    put_u32(w, q->n_rounds);
    put_u32(w, q->turn_known);
    put_u32(w, q->turn_pos);
    put_u32(w, q->scored);
    put_u32(w, q->n_table);
    put_i32s(w, q->table, q->n_table);
    put_u32(w, q->keep_branch);
    put_u32(w, q->keep_prompt);
    put_u32(w, q->rolling);
}

static void save_snapshots(const struct snapshot_pool *p, struct byte_writer *w)
{
    put_u32(w, p->n_known);
    for (int32_t i = p->known_head; i >= 0; i = p->rows[i].next) {
        put_u32(w, (uint32_t)i);
        put_u32(w, (uint32_t)p->rows[i].block);
        put_u64(w, p->rows[i].seq_id);
    }
    put_u32(w, p->n_free);
    for (int32_t i = p->free_head; i >= 0; i = p->rows[i].next)
        put_u32(w, (uint32_t)i);
}

static void put_f64(struct byte_writer *w, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_u64(w, bits);
}

static void save_load(const struct cost_load *l, struct byte_writer *w)
{
    put_u32(w, l->n_decodes);
    put_u32(w, l->n_prompt);
    put_u64(w, l->read);
    put_u64(w, l->prompt_ctx);
}

/* What only a scheduler that plans by time has. */
static void save_timed(const struct sched *s, struct byte_writer *w)
{
    put_u64(w, s->round);
    put_u64(w, s->n_pauses);
    put_u64(w, s->cost.n);
    put_f64(w, s->cost.error);
    for (int i = 0; i < COST_TERMS; i++)
        put_f64(w, s->cost.c[i]);
    for (int i = 0; i < COST_TERMS; i++)
        for (int k = 0; k <= i; k++)
            put_f64(w, s->cost.p[i][k]);
}

size_t sched_save(const struct sched *s, void *buf, size_t cap)
{
    struct byte_writer w = {.data = buf, .cap = cap};
    put_u32(&w, STATE_VERSION);
    COUNTERS(PUT)
    save_pool(&s->pool, &w);
    put_u32(&w, s->waiting.n);
    put_u32(&w, s->running.n);
    for (int32_t i = tree_first(s, &s->waiting); i >= 0; i = tree_next(s, &s->waiting, i))
        save_seq(s, &s->seqs[i], &w);
    for (int32_t i = s->running.head; i >= 0; i = s->seqs[i].next)
        save_seq(s, &s->seqs[i], &w);
    put_u32(&w, s->n_flights);
    for (uint32_t f = 0; f < s->n_flights; f++) {
        put_u64(&w, s->flights[f].step_id);
        save_load(&s->flights[f].load, &w);
        put_u32(&w, s->flights[f].n);
        for (uint32_t k = 0; k < s->flights[f].n; k++) {
            const struct flight_seq *fs = &s->flights[f].seqs[k];
            put_u64(&w, fs->seq_id);
            put_u32(&w, fs->n_tokens);
            put_u32(&w, fs->n_score);
            put_u32(&w, (uint32_t)(fs->slot >= 0) | (uint32_t)fs->want << 1 |
                            (uint32_t)fs->kv_lost << 2 | (uint32_t)fs->embed << 3 |
                            (uint32_t)fs->rolling << 4 | (uint32_t)fs->known << 5);
            put_u32(&w, fs->keep);
        }
    }
    put_u32(&w, s->n_closes);
    for (uint32_t k = 0; k < s->n_closes; k++)
        put_u64(&w, s->closes[k]);
    save_timed(s, &w);
    save_snapshots(&s->pool.snapshots, &w);
    return w.n;
}

/* *at: the slot of the one before, and 1; the running ones begin after the last waiting one */
const struct sched_req *sched_live(const struct sched *s, uint32_t *at, uint32_t *n_known)
{
    int32_t i = (int32_t)*at - 1;
    if (i < 0)
        i = tree_first(s, &s->waiting);
    else if (s->seqs[i].state == SEQ_WAITING)
        i = tree_next(s, &s->waiting, i);
    else
        i = s->seqs[i].next < 0 ? INT32_MAX : s->seqs[i].next;
    if (i < 0)
        i = s->running.head;
    if (i < 0 || i == INT32_MAX)
        return NULL;
    *at = (uint32_t)i + 1;
    *n_known = s->seqs[i].n_known;
    return &s->seqs[i].req;
}

/* ---- restore: every index is checked here, what they mean together by sched_broken ---- */

static enum status restore_known(struct block_pool *p, struct byte_reader *r)
{
    uint32_t n = get_u32(r);
    if (n > p->n_blocks)
        FAIL(ST_FORMAT, "saved state: %u known blocks of %u", n, p->n_blocks);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t b = get_u32(r);
        uint64_t prefix_id = get_u64(r);
        struct prefix_key key = {.salt = get_u64(r), .group = get_u64(r), .parent = get_u64(r)};
        if (r->bad || b >= p->n_blocks || p->blocks[b].prefix_id || prefix_id == 0)
            FAIL(ST_FORMAT, "saved state: known block %u is out of range or listed twice", b);
        int32_t *tokens = p->tokens + (size_t)b * p->block_len;
        get_i32s(r, tokens, p->block_len);
        if (!prefix_restore(p, (int32_t)b, &key, prefix_id))
            FAIL(ST_FORMAT, "saved state: block %u repeats another's prefix", b);
    }
    return ST_OK;
}

static enum status restore_list(struct block_pool *p, struct byte_reader *r, bool cached)
{
    uint32_t n = get_u32(r);
    if (n > p->n_blocks)
        FAIL(ST_FORMAT, "saved state: a list of %u blocks of %u", n, p->n_blocks);
    int32_t tail = -1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t b = get_u32(r);
        if (r->bad || b >= p->n_blocks || p->blocks[b].next != UNPLACED || p->blocks[b].n_refs ||
            (p->blocks[b].prefix_id != 0) != cached)
            FAIL(ST_FORMAT, "saved state: block %u cannot be %s", b, cached ? "cached" : "free");
        p->blocks[b].next = -1;
        p->blocks[b].prev = cached ? tail : -1;
        if (tail >= 0)
            p->blocks[tail].next = (int32_t)b;
        else
            *(cached ? &p->lru_head : &p->free_head) = (int32_t)b;
        tail = (int32_t)b;
    }
    if (cached)
        p->lru_tail = tail;
    *(cached ? &p->n_cached : &p->n_free) = n;
    return ST_OK;
}

static enum status restore_table(struct sched *s, struct seq *q, struct byte_reader *r)
{
    q->n_table = get_u32(r);
    if (q->n_table > s->max_table || (q->state == SEQ_WAITING && q->n_table))
        FAIL(ST_FORMAT, "saved state: a table of %u blocks", q->n_table);
    for (uint32_t k = 0; k < q->n_table; k++) {
        uint32_t b = get_u32(r);
        if (r->bad || b >= s->pool.n_blocks)
            FAIL(ST_FORMAT, "saved state: block %u in a table", b);
        q->table[k] = (int32_t)b;
        s->pool.n_held += s->pool.blocks[b].n_refs++ == 0;
        s->pool.blocks[b].next = -1;
    }
    return ST_OK;
}

static enum status restore_seq(struct sched *s, const struct sched_req *req, bool running,
                               uint32_t version, struct byte_reader *r)
{
    TRY(sched_check_req(s, req));
    if (s->free_slot < 0 || (running && s->n_free_rows == 0))
        FAIL(ST_FORMAT, "saved state: more sequences than fit");
    int32_t i = seq_new(s, req);
    struct seq *q = &s->seqs[i];
    uint64_t arrival = get_u64(r);
    q->last_step = get_u64(r);
    q->last_turn = get_u64(r);
    uint64_t chain = get_u64(r);
    q->n_known = get_u32(r);
    q->ahead = get_u32(r);
    uint32_t pos = get_u32(r), done = get_u32(r), n_hashed = get_u32(r), flags = get_u32(r);
    q->front = flags & 1;
    q->admitted = flags & 2;
    if (q->req.deadline_us) /* where equal deadlines are in order of arrival */
        tree_remove(s, &s->deadlines, i);
    q->arrival = q->ticket = arrival;
    if (q->req.deadline_us)
        tree_insert(s, &s->deadlines, i);
    if (version > 1) {
        uint64_t next_round = get_u64(r); /* the same for all of its flow */
        if (q->flow >= 0)
            s->flows[q->flow].next_round = next_round;
        q->ticket = get_u64(r);
        q->round = get_u64(r);
        q->n_rounds = get_u32(r);
        q->turn_known = get_u32(r);
        q->turn_pos = get_u32(r);
    }
    q->scored = version > 2 ? get_u32(r) : 0;
    q->rank = turns_rank(s, q, q->round);
    seq_enqueue(s, i);
    if (running)
        seq_start(s, i);
    q->chain = chain;
    q->pos = pos;
    q->done = done;
    q->n_hashed = n_hashed;
    TRY(restore_table(s, q, r));
    if (version < 4)
        return ST_OK;
    q->keep_branch = get_u32(r);
    q->keep_prompt = get_u32(r);
    q->rolling = get_u32(r);
    if (q->rolling > s->pool.snapshots.n_rows)
        FAIL(ST_FORMAT, "saved state: snapshot %u of a sequence", q->rolling);
    return ST_OK;
}

/* The row is neither known nor free; the steps in flight may be writing it. */
static bool is_unplaced(const struct snapshot_pool *p, uint32_t row)
{
    return row < p->n_rows && p->rows[row].next == UNPLACED;
}

/* All rows that are in no list are being taken: sched_broken holds that against the steps in flight. */
static enum status restore_snapshots(struct sched *s, struct byte_reader *r)
{
    struct snapshot_pool *p = &s->pool.snapshots;
    for (uint32_t i = 0; i < p->n_rows; i++)
        p->rows[i].next = UNPLACED;
    p->n_free = 0;
    p->free_head = -1;
    for (uint32_t n = get_u32(r); n > 0; n--) {
        uint32_t row = get_u32(r), block = get_u32(r);
        uint64_t seq_id = get_u64(r);
        if (r->bad || !is_unplaced(p, row) || block >= s->pool.n_blocks ||
            !s->pool.blocks[block].prefix_id || p->of_block[block] >= 0)
            FAIL(ST_FORMAT, "saved state: snapshot %u behind block %u", row, block);
        snapshot_know(p, (int32_t)row, (int32_t)block, seq_id);
    }
    int32_t *end = &p->free_head;
    for (uint32_t n = get_u32(r); n > 0; n--) {
        uint32_t row = get_u32(r);
        if (r->bad || !is_unplaced(p, row))
            FAIL(ST_FORMAT, "saved state: snapshot %u cannot be free", row);
        *end = (int32_t)row;
        end = &p->rows[row].next;
        *end = -1;
        p->n_free++;
    }
    for (uint32_t i = 0; i < p->n_rows; i++)
        if (p->rows[i].next == UNPLACED)
            p->rows[i].next = -1;
    return ST_OK;
}

static struct cost_load restore_load(struct byte_reader *r)
{
    struct cost_load l = {.n_decodes = get_u32(r)};
    l.n_prompt = get_u32(r);
    l.read = get_u64(r);
    l.prompt_ctx = get_u64(r);
    return l;
}

static enum status restore_flight(struct sched *s, struct flight *f, uint32_t version,
                                  struct byte_reader *r)
{
    f->step_id = get_u64(r);
    f->load = version > 1 ? restore_load(r) : (struct cost_load){0};
    f->n = get_u32(r);
    if (f->n > s->cfg.max_seqs)
        FAIL(ST_FORMAT, "saved state: %u sequences in a step", f->n);
    f->n_want = f->n_embed = 0;
    f->n_score = 0;
    for (uint32_t k = 0; k < f->n; k++) {
        struct flight_seq *fs = &f->seqs[k];
        fs->seq_id = get_u64(r);
        fs->n_tokens = get_u32(r);
        fs->n_score = version > 2 ? get_u32(r) : 0;
        uint32_t flags = get_u32(r);
        fs->slot = flags & 1 ? seq_find(s, fs->seq_id) : -1;
        fs->want = flags & 2;
        fs->kv_lost = flags & 4;
        fs->embed = flags & 8;
        fs->rolling = flags & 16;
        fs->known = flags & 32;
        fs->keep = version > 3 ? get_u32(r) : 0;
        f->n_want += fs->want;
        f->n_embed += fs->embed;
        f->n_score += fs->n_score;
        if (r->bad || fs->n_score > fs->n_tokens || ((fs->embed || fs->known) && !fs->want) ||
            fs->keep > s->pool.snapshots.n_rows || ((flags & 1) && fs->slot < 0))
            FAIL(ST_FORMAT, "saved state: sequence %llu in flight is not live",
                 (unsigned long long)fs->seq_id);
    }
    return ST_OK;
}

static double get_f64(struct byte_reader *r)
{
    uint64_t bits = get_u64(r);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void restore_timed(struct sched *s, struct byte_reader *r)
{
    struct cost_model *m = &s->cost;
    s->round = get_u64(r);
    s->n_pauses = get_u64(r);
    m->n = get_u64(r);
    m->error = get_f64(r);
    for (int i = 0; i < COST_TERMS; i++)
        m->c[i] = get_f64(r);
    for (int i = 0; i < COST_TERMS; i++)
        for (int k = 0; k <= i; k++)
            m->p[i][k] = m->p[k][i] = get_f64(r);
}

static enum status restore_rest(struct sched *s, const struct sched_req *reqs, uint32_t n_reqs,
                                uint32_t version, struct byte_reader *r)
{
    uint32_t n_waiting = get_u32(r), n_running = get_u32(r);
    if ((uint64_t)n_waiting + n_running != n_reqs)
        FAIL(ST_FORMAT, "saved state: %u + %u sequences, %u requests", n_waiting, n_running,
             n_reqs);
    for (uint32_t i = 0; i < n_reqs; i++)
        TRY(restore_seq(s, &reqs[i], i >= n_waiting, version, r));
    uint32_t n_flights = get_u32(r);
    if (n_flights > s->cfg.max_inflight)
        FAIL(ST_FORMAT, "saved state: %u steps in flight", n_flights);
    for (; s->n_flights < n_flights; s->n_flights++)
        TRY(restore_flight(s, &s->flights[s->n_flights], version, r));
    s->n_closes = get_u32(r);
    if (s->n_closes > s->cfg.max_seqs) {
        uint32_t n = s->n_closes;
        s->n_closes = 0;
        FAIL(ST_FORMAT, "saved state: %u closes", n);
    }
    for (uint32_t k = 0; k < s->n_closes; k++)
        s->closes[k] = get_u64(r);
    if (version > 1)
        restore_timed(s, r);
    return version > 3 ? restore_snapshots(s, r) : ST_OK;
}

enum status sched_restore(struct sched *s, const struct sched_req *reqs, uint32_t n_reqs,
                          const void *data, size_t n)
{
    struct byte_reader all = {.data = data, .left = n}, *r = &all, lists;
    struct sched saved;
    uint32_t version = get_u32(r);
    if (version < 1 || version > STATE_VERSION)
        FAIL(ST_FORMAT, "saved state: version %u, this build reads 1 to %d", version,
             STATE_VERSION);
    COUNTERS(GET)
    uint32_t n_blocks = get_u32(r);
    if (n_blocks == 0 || n_blocks > s->max_blocks)
        FAIL(ST_FORMAT, "saved state: %u blocks, the configuration has %u", n_blocks,
             s->max_blocks);

    struct block_pool *p = &s->pool;
    block_pool_reset(p, n_blocks);
    p->n_free = 0;
    p->free_head = -1;
    for (uint32_t b = 0; b < n_blocks; b++)
        p->blocks[b].next = UNPLACED;
    TRY(restore_known(p, r));
    lists = *r; /* read after the tables, which say what is held */
    for (int i = 0; i < 2; i++) {
        uint32_t len = get_u32(r);
        get_bytes(r, (size_t)len * 4);
    }
    TRY(restore_rest(s, reqs, n_reqs, version, r));
    if (r->bad || r->left)
        FAIL(ST_FORMAT, "saved state: %s", r->bad ? "it is cut off" : "bytes are left over");
    TRY(restore_list(p, &lists, true));
    TRY(restore_list(p, &lists, false));
    COUNTERS(SET)
    const char *broken;
    TRY(sched_broken(s, &broken));
    if (broken)
        FAIL(ST_FORMAT, "saved state: does not hold: %s", broken);
    return ST_OK;
}
