#include "coordinator/journal/replay.h"

#include <inttypes.h>
#include <stdlib.h>

struct replay {
    struct byte_reader in;
    size_t size, max_bytes, used_bytes;
    uint32_t version;
    uint64_t number, chain;
    size_t offset;            /* of the record at hand */
    uint32_t g;               /* the record's scheduler */
    struct sched *s;          /* the only one, or NULL */
    struct fleet *fleet;      /* or NULL */
    uint32_t n_states;        /* at the beginning, that are not read yet */
    uint32_t n_restored;      /* live requests of those that were */
    struct fleet_move *moves; /* [n_moves] of the record */
    struct replay_request *live, *ended;
    struct sched_effect *fx;
    size_t fx_cap, n_fx;
    struct step_plan plan;
    struct step_result result;
    struct journal_admission admission;
    char admitted_id[MAX_LABEL + 1];
    struct journal_served served;
    struct replay_summary sum;
};

/* ---- records ---- */

#define DAMAGED(...) FAIL(ST_FORMAT, "record %" PRIu64 " at byte %zu: " __VA_ARGS__)
#define WHERE(p) (p)->number, (p)->offset

/* The next record's bytes.  type 0: the file ends here. */
static enum status next_record(struct replay *p, uint32_t *type, struct byte_reader *body)
{
    struct byte_reader r = p->in;
    *type = 0;
    p->offset = p->size - r.left;
    uint32_t t = get_u32(&r), n = get_u32(&r);
    uint64_t check = get_u64(&r);
    const unsigned char *data = get_bytes(&r, n);
    bool has_head = p->in.left >= RECORD_HEAD;
    if (p->sum.chained && has_head && (uint32_t)(check >> 32) != record_head_check(p->chain, t, n))
        DAMAGED("its head does not fit: the file is damaged", WHERE(p));
    if (r.bad) { /* the process ended while it wrote */
        p->sum.n_torn = p->in.left;
        p->in.left = 0;
        return ST_OK;
    }
    uint64_t sum = p->sum.chained ? record_chain(p->chain, t, data, n) : 0;
    bool fits = p->sum.chained ? (uint32_t)sum == (uint32_t)check
                               : record_check(p->number, t, data, n) == check;
    p->chain = sum;
    if (!fits)
        DAMAGED("its check does not fit: the file is damaged", WHERE(p));
    *body = (struct byte_reader){.data = data, .left = n};
    p->g = t >> RECORD_SCHED_SHIFT;
    if (p->g && (p->version < 8 || p->g >= FLEET_SCHEDS))
        DAMAGED("type %u", WHERE(p), t);
    *type = t & ((1U << RECORD_SCHED_SHIFT) - 1);
    p->in = r;
    return ST_OK;
}

static enum status end_of_record(const struct replay *p, const struct byte_reader *r)
{
    if (r->bad || r->left)
        DAMAGED("its fields do not fit its length", WHERE(p));
    return ST_OK;
}

/* ---- requests ---- */

static enum status take_bytes(struct replay *p, size_t n)
{
    if (n > p->max_bytes - p->used_bytes)
        FAIL(ST_RANGE, "record %" PRIu64 " at byte %zu: the replay would need more than %zu bytes",
             WHERE(p), p->max_bytes);
    p->used_bytes += n;
    return ST_OK;
}

static size_t request_bytes(const struct replay_request *q)
{
    return sizeof *q + (size_t)q->n_end * (sizeof(int32_t) + sizeof(float)) +
           q->r.n_stop_ids * sizeof(int32_t) + q->r.n_bias * sizeof(struct logit_bias);
}

static void free_request(struct replay *p, struct replay_request *q)
{
    p->used_bytes -= request_bytes(q);
    free(q->r.tokens);
    free(q->logprobs);
    free((void *)(uintptr_t)q->r.stop_ids);
    free((void *)(uintptr_t)q->r.bias);
    free(q);
}

static void free_all(struct replay *p, struct replay_request **list)
{
    while (*list) {
        struct replay_request *q = *list;
        *list = q->next;
        free_request(p, q);
    }
}

static struct replay_request **find(struct replay *p, uint64_t seq_id)
{
    struct replay_request **q = &p->live;
    while (*q && (*q)->r.seq_id != seq_id)
        q = &(*q)->next;
    return q;
}

static void end_request(struct replay *p, uint64_t seq_id, enum finish_reason why)
{
    struct replay_request **link = find(p, seq_id), *q = *link;
    if (!q)
        return;
    *link = q->next;
    q->next = p->ended;
    q->reason = why;
    p->ended = q;
    p->sum.n_live--;
    p->sum.n_ended++;
}

static enum status alloc_arrays(struct replay_request *q)
{
    int32_t *stop = calloc((size_t)q->r.n_stop_ids + 1, sizeof *stop);
    struct logit_bias *bias = calloc((size_t)q->r.n_bias + 1, sizeof *bias);
    q->r.tokens = calloc(q->n_end, sizeof *q->r.tokens);
    q->logprobs = calloc(q->n_end, sizeof *q->logprobs);
    q->r.stop_ids = stop;
    q->r.bias = bias;
    if (!stop || !bias || !q->r.tokens || !q->logprobs)
        FAIL(ST_NOMEM, "no memory for a request of %u tokens", q->n_end);
    return ST_OK;
}

/* Reads a request; it is in p->live afterwards. */
static enum status read_request(struct replay *p, struct byte_reader *r)
{
    struct replay_request head = {0}, *q;
    get_request(r, p->version, &head.r, head.label, head.owner, &head.n_known);
    uint64_t n_end = (uint64_t)head.r.n_tokens + head.r.max_new;
    head.n_end = n_end < p->sum.cfg.max_ctx ? (uint32_t)n_end : p->sum.cfg.max_ctx;
    head.n_before = head.n_known;
    if (r->bad || head.n_known >= head.n_end || head.n_known < head.r.n_tokens ||
        head.r.n_stop_ids > MAX_STOP_IDS || head.r.n_bias > MAX_LOGIT_BIAS ||
        (uint64_t)head.n_known * 4 > r->left)
        DAMAGED("a request of %u tokens of which %u are known", WHERE(p), head.n_end, head.n_known);
    TRY(take_bytes(p, request_bytes(&head)));
    q = malloc(sizeof *q);
    if (!q) {
        p->used_bytes -= request_bytes(&head);
        FAIL(ST_NOMEM, "no memory for a request");
    }
    *q = head;
    q->r.label = q->label;
    q->r.owner = q->owner;
    q->next = p->live;
    p->live = q;
    p->sum.n_live++;
    p->sum.n_submitted++;
    TRY(alloc_arrays(q));
    get_i32s(r, q->r.tokens, q->n_known);
    get_i32s(r, (int32_t *)(uintptr_t)q->r.stop_ids, q->r.n_stop_ids);
    for (uint32_t i = 0; i < q->r.n_bias; i++) {
        struct logit_bias *b = (struct logit_bias *)(uintptr_t)&q->r.bias[i];
        b->id = (int32_t)get_u32(r);
        b->bias = get_f32(r);
    }
    get_grammar(r, &q->r);
    return end_of_record(p, r);
}

/* ---- the beginning of a file ---- */

static size_t max_results(const struct replay *p)
{
    return (size_t)p->sum.cfg.max_seqs + MAX_SCORED_ROWS + MAX_FORCED_TOKENS;
}

static enum status read_header(struct replay *p, struct byte_reader *r)
{
    uint32_t version = get_u32(r);
    if (version < 1 || version > JOURNAL_VERSION)
        FAIL(ST_UNSUPPORTED, "a journal of version %u, this build reads 1 to %d", version,
             JOURNAL_VERSION);
    p->version = version;
    p->sum.began_us = get_u64(r);
    get_text(r, p->sum.build, sizeof p->sum.build);
    p->sum.cfg = get_config(r, version);
    if ((version > 4) != p->sum.chained)
        DAMAGED("version %u does not begin so", WHERE(p), version);
    p->sum.before = version > 4 ? get_u64(r) : 0;
    p->sum.began_now_us = p->sum.last_now_us = version > 7 ? get_u64(r) : 0;
    p->n_states = version > 7 ? get_u32(r) : 1;
    uint32_t content = version > 7 ? get_u32(r) : 0;
    TRY(end_of_record(p, r));
    if (content > 1)
        DAMAGED("content %u", WHERE(p), content);
    p->sum.no_content = content == 1;
    bool fleet = p->sum.cfg.queue_for != 0;
    if (p->n_states == 0 || p->n_states > (fleet ? FLEET_SCHEDS : 1U))
        DAMAGED("%u states", WHERE(p), p->n_states);
    size_t n = fleet ? fleet_bytes(&p->sum.cfg, 0) : sched_bytes(&p->sum.cfg);
    p->fx_cap = fleet ? fleet_max_fx(&p->sum.cfg) : sched_max_fx(&p->sum.cfg);
    if (n == 0)
        DAMAGED("no such configuration: %s", WHERE(p), status_text());
    TRY(take_bytes(p, n));
    TRY(take_bytes(p, p->fx_cap * sizeof *p->fx));
    TRY(take_bytes(p, max_results(p) * sizeof *p->result.tokens));
    TRY(take_bytes(p, p->sum.cfg.max_seqs * sizeof *p->result.embeddings));
    p->fx = calloc(p->fx_cap, sizeof *p->fx);
    p->result.tokens = calloc(max_results(p), sizeof *p->result.tokens);
    p->result.embeddings = calloc(p->sum.cfg.max_seqs, sizeof *p->result.embeddings);
    if (!p->fx || !p->result.tokens || !p->result.embeddings)
        FAIL(ST_NOMEM, "no memory for the replay");
    return fleet ? fleet_create(&p->fleet, &p->sum.cfg) : sched_create(&p->s, &p->sum.cfg);
}

/* Before scheduler p->g is made. */
static enum status take_group_bytes(struct replay *p)
{
    const struct sched_config *cfg = &p->sum.cfg;
    if (p->g == FLEET_QUEUE || fleet_sched(p->fleet, p->g))
        return ST_OK;
    return take_bytes(p, fleet_bytes(cfg, 1) - fleet_bytes(cfg, 0));
}

/* The live requests of this scheduler were pushed on p->live one by one: the last is the first there. */
static enum status read_state(struct replay *p, struct byte_reader *r)
{
    uint32_t n = get_u32(r), open = p->version > 7 ? get_u32(r) : 0, i = n;
    if (r->bad || n != p->sum.n_live - p->n_restored || open > 1)
        DAMAGED("a state with %u sequences after %u requests", WHERE(p), n,
                p->sum.n_live - p->n_restored);
    p->n_restored = p->sum.n_live;
    if (p->fleet)
        TRY(take_group_bytes(p));
    else if (p->g)
        DAMAGED("there is no scheduler %u", WHERE(p), p->g);
    struct sched_req *reqs = calloc((size_t)n + 1, sizeof *reqs);
    if (!reqs)
        FAIL(ST_NOMEM, "no memory for %u requests", n);
    for (const struct replay_request *q = p->live; i > 0; q = q->next)
        reqs[--i] = q->r;
    enum status st = p->fleet ? fleet_restore(p->fleet, p->g, open, reqs, n, r->data, r->left)
                              : sched_restore(p->s, reqs, n, r->data, r->left);
    free(reqs);
    if (st != ST_OK)
        FAIL(st == ST_RANGE ? ST_FORMAT : st, "record %" PRIu64 " at byte %zu: %s", WHERE(p),
             status_text());
    return ST_OK;
}

static enum status read_beginning(struct replay *p)
{
    struct byte_reader body;
    uint32_t type;
    p->n_states = 1;
    for (; p->n_states > 0; p->number++) {
        TRY(next_record(p, &type, &body));
        if (type == 0)
            FAIL(ST_FORMAT, "the journal ends before its first event");
        if ((p->number == 0) != (type == REC_HEADER))
            DAMAGED("type %u does not belong there", WHERE(p), type);
        if (type == REC_HEADER)
            TRY(read_header(p, &body));
        else if (type == REC_LIVE)
            TRY(read_request(p, &body));
        else if (type != REC_STATE)
            DAMAGED("type %u before the state", WHERE(p), type);
        else {
            TRY(read_state(p, &body));
            p->n_states--;
        }
    }
    return ST_OK;
}

enum status replay_open(struct replay **out, const void *data, size_t n, size_t max_bytes)
{
    *out = NULL;
    bool chained = n >= 8 && memcmp(data, JOURNAL_MAGIC, 8) == 0;
    if (n < 8 || (!chained && memcmp(data, JOURNAL_MAGIC_4, 8) != 0))
        FAIL(ST_FORMAT, "not a journal");
    struct replay *p = calloc(1, sizeof *p);
    if (!p)
        FAIL(ST_NOMEM, "no memory for the replay");
    p->in = (struct byte_reader){.data = (const unsigned char *)data + 8, .left = n - 8};
    p->size = n;
    p->sum.chained = chained;
    p->chain = CHAIN_START;
    p->max_bytes = max_bytes;
    enum status st = read_beginning(p);
    if (st != ST_OK) {
        replay_close(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

void replay_close(struct replay *p)
{
    if (!p)
        return;
    free_all(p, &p->live);
    free_all(p, &p->ended);
    free(p->fx);
    free(p->result.tokens);
    free(p->result.embeddings);
    free(p->moves);
    sched_destroy(p->s);
    fleet_destroy(p->fleet);
    free(p);
}

/* ---- events ---- */

static enum status do_submit(struct replay *p, struct byte_reader *r, struct replay_event *ev)
{
    TRY(read_request(p, r));
    enum status st =
        p->fleet ? fleet_submit(p->fleet, &p->live->r) : sched_submit(p->s, &p->live->r);
    if (st != ST_OK)
        FAIL(ST_BUG, "record %" PRIu64 " at byte %zu: the submit was accepted, now it is not: %s",
             WHERE(p), status_text());
    ev->kind = REPLAY_SUBMIT;
    ev->request = p->live;
    return ST_OK;
}

static enum status do_cancel(struct replay *p, struct byte_reader *r, struct replay_event *ev)
{
    uint64_t seq_id = get_u64(r);
    uint32_t why = get_u32(r);
    TRY(end_of_record(p, r));
    if (why > FINISH_GRAMMAR_STUCK)
        DAMAGED("reason %u", WHERE(p), why);
    ev->kind = REPLAY_CANCEL;
    ev->why = (enum finish_reason)why;
    ev->request = *find(p, seq_id);
    if (p->fleet)
        (void)fleet_cancel(p->fleet, seq_id);
    else
        sched_cancel(p->s, seq_id);
    end_request(p, seq_id, ev->why);
    return ST_OK;
}

/* Compares the effects with the recorded ones and keeps the requests' books. */
static enum status do_effects(struct replay *p, struct byte_reader *r, struct replay_event *ev)
{
    uint32_t n = get_u32(r);
    uint64_t digest = get_u64(r), now = fx_digest(p->fx, p->n_fx);
    TRY(end_of_record(p, r));
    if (n != p->n_fx || digest != now)
        FAIL(ST_BUG,
             "record %" PRIu64 " at byte %zu: %u effects with digest %016" PRIx64
             " are recorded, %zu with %016" PRIx64 " came out",
             WHERE(p), n, digest, p->n_fx, now);
    for (size_t i = 0; i < p->n_fx; i++) {
        const struct sched_effect *e = &p->fx[i];
        struct replay_request *q = *find(p, e->seq_id);
        if (e->kind == FX_EMBEDDED && q)
            q->embedding = p->result.embeddings[e->i_result].digest;
        if (e->kind == FX_FINISHED)
            end_request(p, e->seq_id, e->reason);
        if (e->kind != FX_TOKEN || !q)
            continue;
        q->logprobs[q->n_known++] = p->result.tokens[e->i_result].logprob;
        q->n_step_last = p->result.step_id;
        if (!q->n_step_first)
            q->n_step_first = p->result.step_id;
        p->sum.n_tokens++;
    }
    ev->fx = p->fx;
    ev->n_fx = p->n_fx;
    return ST_OK;
}

static enum status compare_plan(struct replay *p, struct byte_reader *r)
{
    const struct step_plan *now = &p->plan;
    uint64_t step_id = get_u64(r), epoch = get_u64(r);
    uint32_t n_seqs = get_u32(r), n_tokens = get_u32(r);
    uint64_t digest = get_u64(r), digest_now = plan_digest(now);
    if (!r->bad && step_id == now->step_id && epoch == now->epoch && n_seqs == now->n_seqs &&
        n_tokens == now->n_tokens && digest == digest_now)
        return ST_OK;
    FAIL(ST_BUG,
         "record %" PRIu64 " at byte %zu: the plan differs.  Recorded: step %" PRIu64
         " epoch %" PRIu64 ", %u sequences, %u tokens, digest %016" PRIx64 "; now: step %" PRIu64
         " epoch %" PRIu64 ", %u sequences, %u tokens, digest %016" PRIx64,
         WHERE(p), step_id, epoch, n_seqs, n_tokens, digest, now->step_id, now->epoch, now->n_seqs,
         now->n_tokens, digest_now);
}

/* Is there a scheduler of the record's number? */
static enum status check_sched(const struct replay *p)
{
    if (p->fleet ? !fleet_sched(p->fleet, p->g) : p->g != 0)
        DAMAGED("there is no scheduler %u", WHERE(p), p->g);
    return ST_OK;
}

static enum status do_plan(struct replay *p, struct byte_reader *r, struct replay_event *ev)
{
    uint64_t now_us = get_u64(r);
    uint32_t made = get_u32(r);
    if (r->bad || made > 1)
        DAMAGED("a plan", WHERE(p));
    TRY(check_sched(p));
    bool made_now = p->fleet
                        ? fleet_plan(p->fleet, p->g, now_us, &p->plan, p->fx, p->fx_cap, &p->n_fx)
                        : sched_plan(p->s, now_us, &p->plan, p->fx, p->fx_cap, &p->n_fx);
    if (made_now != made)
        FAIL(ST_BUG, "record %" PRIu64 " at byte %zu: a plan was %smade, now it is %smade",
             WHERE(p), made ? "" : "not ", made_now ? "" : "not ");
    if (made)
        TRY(compare_plan(p, r));
    ev->kind = REPLAY_PLAN;
    p->sum.last_now_us = now_us;
    ev->plan = made ? &p->plan : NULL;
    p->sum.n_plans += made;
    return do_effects(p, r, ev);
}

static enum status do_commit(struct replay *p, struct byte_reader *r, struct replay_event *ev)
{
    struct step_result *t = &p->result;
    t->step_id = get_u64(r);
    t->epoch = get_u64(r);
    t->compute_us = get_u64(r);
    t->comm_us = get_u64(r);
    t->n = get_u32(r);
    if (r->bad || t->n > max_results(p))
        DAMAGED("a result of %u tokens", WHERE(p), t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        t->tokens[i].seq_id = get_u64(r);
        t->tokens[i].token = (int32_t)get_u32(r);
        t->tokens[i].logprob = get_f32(r);
    }
    t->n_embeddings = p->version > 7 ? get_u32(r) : 0;
    if (r->bad || t->n_embeddings > p->sum.cfg.max_seqs)
        DAMAGED("a result of %u embeddings", WHERE(p), t->n_embeddings);
    for (uint32_t i = 0; i < t->n_embeddings; i++) {
        t->embeddings[i] = (struct result_embedding){.seq_id = get_u64(r)};
        t->embeddings[i].digest = get_u64(r);
    }
    TRY(check_sched(p));
    enum status st = p->fleet ? fleet_commit(p->fleet, p->g, t, p->fx, p->fx_cap, &p->n_fx)
                              : sched_commit(p->s, t, p->fx, p->fx_cap, &p->n_fx);
    if (st != ST_OK)
        FAIL(ST_BUG, "record %" PRIu64 " at byte %zu: the result was accepted, now it is not: %s",
             WHERE(p), status_text());
    ev->kind = REPLAY_COMMIT;
    ev->result = t;
    return do_effects(p, r, ev);
}

static enum status do_reset(struct replay *p, struct byte_reader *r, struct replay_event *ev)
{
    uint32_t n_blocks = get_u32(r);
    if (!p->s)
        DAMAGED("a reset of a fleet", WHERE(p));
    sched_reset(p->s, n_blocks, p->fx, p->fx_cap, &p->n_fx);
    p->sum.n_resets++;
    ev->kind = REPLAY_RESET;
    return do_effects(p, r, ev);
}

static enum status do_open(struct replay *p, struct byte_reader *r, struct replay_event *ev)
{
    uint32_t n_blocks = get_u32(r);
    if (!p->fleet || p->g == FLEET_QUEUE || fleet_is_open(p->fleet, p->g))
        DAMAGED("group %u cannot be opened", WHERE(p), p->g);
    TRY(take_group_bytes(p));
    TRY(fleet_open(p->fleet, p->g, n_blocks, p->fx, p->fx_cap, &p->n_fx));
    p->sum.n_opens++;
    ev->kind = REPLAY_OPEN;
    return do_effects(p, r, ev);
}

static enum status do_close(struct replay *p, struct byte_reader *r, struct replay_event *ev)
{
    if (!p->fleet || !fleet_is_open(p->fleet, p->g))
        DAMAGED("group %u cannot be closed", WHERE(p), p->g);
    fleet_close(p->fleet, p->g, p->fx, p->fx_cap, &p->n_fx);
    ev->kind = REPLAY_CLOSE;
    return do_effects(p, r, ev);
}

static enum status do_moves(struct replay *p, struct byte_reader *r, struct replay_event *ev)
{
    size_t n = r->left / 16;
    if (!p->fleet || n == 0 || r->left % 16)
        DAMAGED("moves of %zu bytes", WHERE(p), r->left);
    free(p->moves);
    p->moves = calloc(n, sizeof *p->moves);
    if (!p->moves)
        FAIL(ST_NOMEM, "no memory for %zu moves", n);
    for (size_t i = 0; i < n; i++) {
        struct fleet_move *m = &p->moves[i];
        m->seq_id = get_u64(r);
        m->from = get_u32(r);
        m->to = get_u32(r);
        if (fleet_move(p->fleet, m) != ST_OK)
            FAIL(ST_BUG, "record %" PRIu64 " at byte %zu: the move was possible, now it is not: %s",
                 WHERE(p), status_text());
    }
    p->sum.n_moves += n;
    ev->kind = REPLAY_MOVE;
    ev->moves = p->moves;
    ev->n_moves = n;
    return end_of_record(p, r);
}

static enum status do_admit(struct replay *p, struct byte_reader *r, struct replay_event *ev)
{
    get_admission(r, &p->admission, p->admitted_id);
    TRY(end_of_record(p, r));
    ev->kind = REPLAY_ADMIT;
    ev->admission = &p->admission;
    return ST_OK;
}

static enum status do_served(struct replay *p, struct byte_reader *r, struct replay_event *ev)
{
    get_served(r, &p->served);
    TRY(end_of_record(p, r));
    ev->kind = REPLAY_SERVED;
    ev->served = &p->served;
    return ST_OK;
}

enum status replay_next(struct replay *p, struct replay_event *ev)
{
    struct byte_reader body;
    uint32_t type;
    enum status st = ST_OK;
    free_all(p, &p->ended);
    *ev = (struct replay_event){.kind = REPLAY_DONE};
    TRY(next_record(p, &type, &body));
    ev->number = p->number;
    ev->offset = p->offset;
    ev->g = p->g;
    if (type == 0)
        return ST_OK;
    switch (type) {
    case REC_SUBMIT:
        st = do_submit(p, &body, ev);
        break;
    case REC_CANCEL:
        st = do_cancel(p, &body, ev);
        break;
    case REC_PLAN:
        st = do_plan(p, &body, ev);
        break;
    case REC_COMMIT:
        st = do_commit(p, &body, ev);
        break;
    case REC_RESET:
        st = do_reset(p, &body, ev);
        break;
    case REC_OPEN:
        st = do_open(p, &body, ev);
        break;
    case REC_CLOSE:
        st = do_close(p, &body, ev);
        break;
    case REC_MOVE:
        st = do_moves(p, &body, ev);
        break;
    case REC_END:
        if (p->in.left)
            DAMAGED("%zu bytes follow the end", WHERE(p), p->in.left);
        p->sum.ended_well = true;
        ev->kind = REPLAY_END;
        break;
    case REC_ADMIT:
        st = do_admit(p, &body, ev);
        break;
    case REC_SERVED:
        st = do_served(p, &body, ev);
        break;
    default:
        DAMAGED("type %u", WHERE(p), type);
    }
    TRY(st);
    p->number++;
    ev->ended = p->ended;
    return ST_OK;
}

const struct replay_request *replay_live(const struct replay *p)
{
    return p->live;
}

void replay_summary(const struct replay *p, struct replay_summary *out)
{
    *out = p->sum;
    out->n_records = p->number;
    out->check = p->chain;
}
