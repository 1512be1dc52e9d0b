#include "common/wire/worker_msg.h"

#include <assert.h>
#include <string.h>

#include "common/wire/worker_pb.h"

static_assert((int)WMSG_FAULT == INGOT__WORKER__TYPE__FAULT, "types follow worker.proto");
static_assert((int)WMSG_WEIGHTS == INGOT__WORKER__TYPE__WEIGHTS, "types follow worker.proto");
static_assert((int)WMSG_GRAMMAR_READY == INGOT__WORKER__TYPE__GRAMMAR_READY,
              "types follow worker.proto");
static_assert((int)WMSG_WATCH == INGOT__WORKER__TYPE__WATCH, "types follow worker.proto");
static_assert((int)WMSG_FIGURES == INGOT__WORKER__TYPE__FIGURES, "types follow worker.proto");
static_assert((int)WMSG_GRAMMAR == INGOT__WORKER__TYPE__GRAMMAR, "types follow worker.proto");
static_assert((int)WMSG_REFUSED == INGOT__WORKER__TYPE__REFUSED, "types follow worker.proto");

/* ---- decode ---- */

static enum status decode_hello(struct worker_hello *h, const Ingot__Worker__Hello *m)
{
    TRY(pb_need(m->has_wire_version, "wire_version"));
    TRY(pb_need(m->model != NULL, "model"));
    h->wire_version = m->wire_version;
    h->model = m->model;
    h->backend = pb_string(m->backend);
    h->coll = pb_string(m->coll);
    h->numerics = pb_string(m->numerics);
    h->hosts = pb_string(m->hosts);
    TRY(pb_get_digest(h->weights, &h->has_weights, m->has_weights_digest, m->weights_digest,
                      "weights_digest"));
    TRY(pb_get_digest(h->text, &h->has_text, m->has_text_digest, m->text_digest, "text_digest"));
    h->masks = m->masks;
    h->embedding = m->embedding;
    h->headless = m->headless;
    h->world = m->world;
    h->vocab = m->vocab;
    h->max_ctx = m->max_ctx;
    h->block_len = m->block_len;
    h->n_blocks = m->n_blocks;
    h->max_step_tokens = m->max_step_tokens;
    h->max_seqs = m->max_seqs;
    h->n_snapshots = m->n_snapshots;
    h->launch = m->launch;
    h->last_epoch = m->last_epoch;
    h->pid = m->pid;
    return ST_OK;
}

static enum status decode_embeddings(struct step_result *r, const Ingot__Worker__StepResult *m,
                                     struct wire_mem *mem)
{
    size_t n = m->n_embedded_id;
    size_t dim = n ? m->n_embedding / n : 0;
    if (dim * n != m->n_embedding || (n && dim == 0))
        FAIL(ST_FORMAT, "step result: %zu components of %zu embeddings", m->n_embedding, n);
    r->n_embeddings = (uint32_t)n;
    r->dim = (uint32_t)dim;
    MEM_ARRAY(r->embeddings, n, mem);
    for (size_t i = 0; i < n; i++) {
        const float *v = m->embedding + i * dim;
        r->embeddings[i] =
            (struct result_embedding){m->embedded_id[i], embedding_digest(v, dim), v};
    }
    return ST_OK;
}

static enum status decode_result(struct step_result *r, const Ingot__Worker__StepResult *m,
                                 struct wire_mem *mem)
{
    size_t n = m->n_seq_id, at = 0, at_place = 0;
    TRY(pb_need(m->has_step_id, "step_id"));
    TRY(pb_need(m->has_epoch, "epoch"));
    if (m->n_token != n || m->n_logprob != n || m->n_n_top != n || m->n_top_id != m->n_top_logprob)
        FAIL(ST_FORMAT, "step result: columns of %zu, %zu, %zu and %zu entries", n, m->n_token,
             m->n_logprob, m->n_n_top);
    if (m->n_rank && m->n_rank != n)
        FAIL(ST_FORMAT, "step result: %zu ranks of %zu tokens", m->n_rank, n);
    *r = (struct step_result){.step_id = m->step_id,
                              .epoch = m->epoch,
                              .n = (uint32_t)n,
                              .compute_us = m->compute_us,
                              .comm_us = m->comm_us,
                              .masks = m->masks,
                              .masks_cached = m->masks_cached,
                              .mask_us = m->mask_us,
                              .mask_wait_us = m->mask_wait_us};
    MEM_ARRAY(r->tokens, n, mem);
    for (size_t i = 0; i < n; i++) {
        struct result_token *t = &r->tokens[i];
        t->seq_id = m->seq_id[i];
        t->token = m->token[i];
        t->logprob = m->logprob[i];
        t->rank = m->n_rank ? m->rank[i] : 0;
        if (t->token == TOKEN_GRAMMAR_STUCK && at_place < m->n_place)
            t->place = m->place[at_place++];
        t->n_top = m->n_top[i];
        if (t->n_top > MAX_TOP_LOGPROBS || t->n_top > m->n_top_id - at)
            FAIL(ST_FORMAT, "step result: %u top logprobs of %zu", t->n_top, m->n_top_id - at);
        for (uint32_t k = 0; k < t->n_top; k++, at++)
            t->top[k] = (struct token_logprob){m->top_id[at], m->top_logprob[at]};
    }
    if (at_place != m->n_place)
        FAIL(ST_FORMAT, "step result: %zu places, the tokens need %zu", m->n_place, at_place);
    if (at != m->n_top_id)
        FAIL(ST_FORMAT, "step result: %zu top logprobs, the tokens say %zu", m->n_top_id, at);
    return decode_embeddings(r, m, mem);
}

static enum status decode_fault(struct worker_fault *f, const Ingot__Worker__Fault *m)
{
    if (m->status >= ST_N)
        FAIL(ST_FORMAT, "fault: status %u", m->status);
    f->epoch = m->epoch;
    f->rank = m->rank;
    f->status = (enum status)m->status;
    f->detail = pb_string(m->detail);
    return ST_OK;
}

static enum status decode_weights(struct worker_weights *w, const Ingot__Worker__Weights *m)
{
    bool has;
    TRY(pb_need(m->has_digest, "digest"));
    w->epoch = m->epoch;
    return pb_get_digest(w->digest, &has, m->has_digest, m->digest, "digest");
}

static enum status decode_vocabulary(struct worker_vocabulary *v,
                                     const Ingot__Worker__Vocabulary *m)
{
    uint64_t all = 0;
    for (size_t i = 0; i < m->n_n_bytes; i++)
        all += m->n_bytes[i];
    if (all != m->bytes.len || m->n_n_bytes > INT32_MAX)
        FAIL(ST_FORMAT, "a vocabulary of %zu bytes, its %zu tokens have %llu", m->bytes.len,
             m->n_n_bytes, (unsigned long long)all);
    *v = (struct worker_vocabulary){.n_tokens = (uint32_t)m->n_n_bytes,
                                    .n_bytes = m->n_bytes,
                                    .bytes = m->bytes.data,
                                    .n_all = m->bytes.len,
                                    .end_ids = m->end_id,
                                    .n_end_ids = (uint32_t)m->n_end_id};
    return ST_OK;
}

static enum status decode_grammar(struct worker_grammar *g, const Ingot__Worker__Grammar *m)
{
    TRY(pb_need(m->has_id && m->id != 0, "id"));
    *g = (struct worker_grammar){m->id, m->kind, (const char *)m->source.data, m->source.len};
    return ST_OK;
}

static const ProtobufCMessageDescriptor *descriptor_of(uint16_t type)
{
    switch (type) {
    case WMSG_HELLO:
        return &ingot__worker__hello__descriptor;
    case WMSG_STEP_RESULT:
        return &ingot__worker__step_result__descriptor;
    case WMSG_HEARTBEAT:
        return &ingot__worker__heartbeat__descriptor;
    case WMSG_FAULT:
        return &ingot__worker__fault__descriptor;
    case WMSG_GOODBYE:
        return &ingot__worker__goodbye__descriptor;
    case WMSG_WEIGHTS:
        return &ingot__worker__weights__descriptor;
    case WMSG_FIGURES:
        return &ingot__worker__figures__descriptor;
    case WMSG_GRAMMAR_READY:
        return &ingot__worker__grammar_ready__descriptor;
    case WMSG_WATCH:
        return &ingot__worker__watch__descriptor;
    case WMSG_WELCOME:
        return &ingot__worker__welcome__descriptor;
    case WMSG_STEP_PLAN:
        return &ingot__worker__step_plan__descriptor;
    case WMSG_RESET:
        return &ingot__worker__reset__descriptor;
    case WMSG_SHUTDOWN:
        return &ingot__worker__shutdown__descriptor;
    case WMSG_REFUSED:
        return &ingot__worker__refused__descriptor;
    case WMSG_VOCABULARY:
        return &ingot__worker__vocabulary__descriptor;
    case WMSG_GRAMMAR:
        return &ingot__worker__grammar__descriptor;
    default:
        return NULL;
    }
}

enum status worker_msg_decode(struct worker_msg *out, const void *data, size_t n,
                              struct wire_mem *mem)
{
    struct frame f;
    ProtobufCMessage *m;
    const char *field;
    TRY(frame_parse(&f, data, n));
    const ProtobufCMessageDescriptor *d = descriptor_of(f.type);
    if (!d)
        FAIL(ST_UNSUPPORTED, "message type %u is not one between coordinator and worker", f.type);
    TRY(pb_unpack(&m, d, f.body, f.n_body, mem, &field));
    memset(out, 0, sizeof *out);
    out->type = (enum worker_type)f.type;
    switch (out->type) {
    case WMSG_HELLO:
        return decode_hello(&out->u.hello, (const void *)m);
    case WMSG_STEP_RESULT:
        return decode_result(&out->u.result, (const void *)m, mem);
    case WMSG_STEP_PLAN:
        return worker_plan_decode(&out->u.plan, (const void *)m, mem);
    case WMSG_FAULT:
        return decode_fault(&out->u.fault, (const void *)m);
    case WMSG_WEIGHTS:
        return decode_weights(&out->u.weights, (const void *)m);
    case WMSG_FIGURES:
        return figures_decode(&out->u.figures, (const void *)m);
    case WMSG_GRAMMAR_READY:
        out->u.ready.epoch = ((const Ingot__Worker__GrammarReady *)m)->epoch;
        out->u.ready.id = ((const Ingot__Worker__GrammarReady *)m)->id;
        return ST_OK;
    case WMSG_VOCABULARY:
        return decode_vocabulary(&out->u.vocabulary, (const void *)m);
    case WMSG_GRAMMAR:
        return decode_grammar(&out->u.grammar, (const void *)m);
    case WMSG_HEARTBEAT:
        out->u.beat.epoch = ((const Ingot__Worker__Heartbeat *)m)->epoch;
        out->u.beat.last_step = ((const Ingot__Worker__Heartbeat *)m)->last_step;
        return ST_OK;
    case WMSG_GOODBYE:
        out->u.beat.epoch = ((const Ingot__Worker__Goodbye *)m)->epoch;
        return ST_OK;
    case WMSG_WATCH:
        out->u.beat.epoch = ((const Ingot__Worker__Watch *)m)->epoch;
        return ST_OK;
    case WMSG_RESET:
        out->u.beat.epoch = ((const Ingot__Worker__Reset *)m)->epoch;
        return ST_OK;
    case WMSG_SHUTDOWN:
        out->u.beat.epoch = ((const Ingot__Worker__Shutdown *)m)->epoch;
        return ST_OK;
    case WMSG_WELCOME: {
        const Ingot__Worker__Welcome *w = (const void *)m;
        out->u.welcome = (struct worker_welcome){w->epoch, w->heartbeat_ms, w->lease_ms};
        return ST_OK;
    }
    case WMSG_REFUSED:
        out->u.refused = pb_string(((const Ingot__Worker__Refused *)m)->detail);
        return ST_OK;
    }
    FAIL(ST_BUG, "message type %u has a descriptor and no decoder", f.type);
}

/* ---- encode ---- */

static enum status encode_hello(struct wire_bytes *out, const struct worker_hello *h,
                                struct wire_mem *mem)
{
    Ingot__Worker__Hello m = INGOT__WORKER__HELLO__INIT;
    SET(m, wire_version, h->wire_version);
    m.model = (char *)(uintptr_t)h->model;
    m.backend = (char *)(uintptr_t)h->backend;
    m.coll = (char *)(uintptr_t)h->coll;
    m.numerics = (char *)(uintptr_t)h->numerics;
    m.hosts = (char *)(uintptr_t)h->hosts;
    if (h->has_weights)
        SET(m, weights_digest, pb_digest(h->weights));
    if (h->has_text)
        SET(m, text_digest, pb_digest(h->text));
    SET(m, world, h->world);
    SET(m, vocab, h->vocab);
    SET(m, max_ctx, h->max_ctx);
    SET(m, block_len, h->block_len);
    SET(m, n_blocks, h->n_blocks);
    SET(m, max_step_tokens, h->max_step_tokens);
    SET(m, max_seqs, h->max_seqs);
    SET(m, launch, h->launch);
    if (h->last_epoch)
        SET(m, last_epoch, h->last_epoch);
    SET(m, pid, h->pid);
    if (h->masks)
        SET(m, masks, true);
    if (h->embedding)
        SET(m, embedding, h->embedding);
    if (h->headless)
        SET(m, headless, true);
    if (h->n_snapshots)
        SET(m, n_snapshots, h->n_snapshots);
    return pb_pack(out, WMSG_HELLO, &m.base, mem);
}

static enum status encode_result(struct wire_bytes *out, const struct step_result *r,
                                 struct wire_mem *mem)
{
    Ingot__Worker__StepResult m = INGOT__WORKER__STEP_RESULT__INIT;
    size_t n_top = 0, at = 0, n_places = 0;
    bool ranks = false;

    SET(m, step_id, r->step_id);
    SET(m, epoch, r->epoch);
    SET(m, compute_us, r->compute_us);
    SET(m, comm_us, r->comm_us);
    if (r->masks) {
        SET(m, masks, r->masks);
        SET(m, masks_cached, r->masks_cached);
        SET(m, mask_us, r->mask_us);
        SET(m, mask_wait_us, r->mask_wait_us);
    }
    m.n_seq_id = m.n_token = m.n_logprob = m.n_n_top = r->n;
    MEM_ARRAY(m.seq_id, r->n, mem);
    MEM_ARRAY(m.token, r->n, mem);
    MEM_ARRAY(m.logprob, r->n, mem);
    MEM_ARRAY(m.n_top, r->n, mem);
    MEM_ARRAY(m.rank, r->n, mem);
    for (uint32_t i = 0; i < r->n; i++) {
        n_top += r->tokens[i].n_top;
        n_places += r->tokens[i].token == TOKEN_GRAMMAR_STUCK;
        ranks = ranks || r->tokens[i].rank;
    }
    m.n_rank = ranks ? r->n : 0;
    m.n_top_id = m.n_top_logprob = n_top;
    MEM_ARRAY(m.top_id, n_top, mem);
    MEM_ARRAY(m.top_logprob, n_top, mem);
    MEM_ARRAY(m.place, n_places, mem);
    for (uint32_t i = 0; i < r->n; i++) {
        const struct result_token *t = &r->tokens[i];
        m.seq_id[i] = t->seq_id;
        m.token[i] = t->token;
        m.logprob[i] = t->logprob;
        m.rank[i] = t->rank;
        m.n_top[i] = t->n_top;
        if (t->token == TOKEN_GRAMMAR_STUCK)
            m.place[m.n_place++] = (char *)(uintptr_t)(t->place ? t->place : "");
        for (uint32_t k = 0; k < t->n_top; k++, at++) {
            m.top_id[at] = t->top[k].id;
            m.top_logprob[at] = t->top[k].logprob;
        }
    }
    m.n_embedded_id = r->n_embeddings;
    m.n_embedding = (size_t)r->n_embeddings * r->dim;
    MEM_ARRAY(m.embedded_id, m.n_embedded_id, mem);
    MEM_ARRAY(m.embedding, m.n_embedding, mem);
    for (uint32_t i = 0; i < r->n_embeddings; i++) {
        m.embedded_id[i] = r->embeddings[i].seq_id;
        memcpy(m.embedding + (size_t)i * r->dim, r->embeddings[i].vector,
               r->dim * sizeof *m.embedding);
    }
    return pb_pack(out, WMSG_STEP_RESULT, &m.base, mem);
}

static enum status encode_vocabulary(struct wire_bytes *out, const struct worker_vocabulary *v,
                                     struct wire_mem *mem)
{
    Ingot__Worker__Vocabulary m = INGOT__WORKER__VOCABULARY__INIT;
    m.n_n_bytes = v->n_tokens;
    m.n_bytes = (uint32_t *)(uintptr_t)v->n_bytes;
    SET(m, bytes, ((ProtobufCBinaryData){v->n_all, (uint8_t *)(uintptr_t)v->bytes}));
    m.n_end_id = v->n_end_ids;
    m.end_id = (int32_t *)(uintptr_t)v->end_ids;
    return pb_pack(out, WMSG_VOCABULARY, &m.base, mem);
}

static enum status encode_grammar(struct wire_bytes *out, const struct worker_grammar *g,
                                  struct wire_mem *mem)
{
    Ingot__Worker__Grammar m = INGOT__WORKER__GRAMMAR__INIT;
    SET(m, id, g->id);
    SET(m, kind, g->kind);
    SET(m, source, ((ProtobufCBinaryData){g->n_source, (uint8_t *)(uintptr_t)g->source}));
    return pb_pack(out, WMSG_GRAMMAR, &m.base, mem);
}

enum status worker_msg_encode(struct wire_bytes *out, const struct worker_msg *msg,
                              struct wire_mem *mem)
{
    switch (msg->type) {
    case WMSG_HELLO:
        return encode_hello(out, &msg->u.hello, mem);
    case WMSG_STEP_PLAN:
        return worker_plan_encode(out, &msg->u.plan, mem);
    case WMSG_STEP_RESULT:
        return encode_result(out, &msg->u.result, mem);
    case WMSG_WELCOME: {
        Ingot__Worker__Welcome m = INGOT__WORKER__WELCOME__INIT;
        SET(m, epoch, msg->u.welcome.epoch);
        SET(m, heartbeat_ms, msg->u.welcome.heartbeat_ms);
        SET(m, lease_ms, msg->u.welcome.lease_ms);
        return pb_pack(out, WMSG_WELCOME, &m.base, mem);
    }
    case WMSG_FAULT: {
        Ingot__Worker__Fault m = INGOT__WORKER__FAULT__INIT;
        SET(m, epoch, msg->u.fault.epoch);
        SET(m, rank, msg->u.fault.rank);
        SET(m, status, (uint32_t)msg->u.fault.status);
        m.detail = (char *)(uintptr_t)msg->u.fault.detail;
        return pb_pack(out, WMSG_FAULT, &m.base, mem);
    }
    case WMSG_WEIGHTS: {
        Ingot__Worker__Weights m = INGOT__WORKER__WEIGHTS__INIT;
        SET(m, epoch, msg->u.weights.epoch);
        SET(m, digest, pb_digest(msg->u.weights.digest));
        return pb_pack(out, WMSG_WEIGHTS, &m.base, mem);
    }
    case WMSG_FIGURES:
        return figures_encode(out, &msg->u.figures, mem);
    case WMSG_GRAMMAR_READY: {
        Ingot__Worker__GrammarReady m = INGOT__WORKER__GRAMMAR_READY__INIT;
        SET(m, epoch, msg->u.ready.epoch);
        SET(m, id, msg->u.ready.id);
        return pb_pack(out, WMSG_GRAMMAR_READY, &m.base, mem);
    }
    case WMSG_VOCABULARY:
        return encode_vocabulary(out, &msg->u.vocabulary, mem);
    case WMSG_GRAMMAR:
        return encode_grammar(out, &msg->u.grammar, mem);
    case WMSG_HEARTBEAT: {
        Ingot__Worker__Heartbeat m = INGOT__WORKER__HEARTBEAT__INIT;
        SET(m, epoch, msg->u.beat.epoch);
        SET(m, last_step, msg->u.beat.last_step);
        return pb_pack(out, WMSG_HEARTBEAT, &m.base, mem);
    }
    case WMSG_GOODBYE: {
        Ingot__Worker__Goodbye m = INGOT__WORKER__GOODBYE__INIT;
        SET(m, epoch, msg->u.beat.epoch);
        return pb_pack(out, WMSG_GOODBYE, &m.base, mem);
    }
    case WMSG_WATCH: {
        Ingot__Worker__Watch m = INGOT__WORKER__WATCH__INIT;
        SET(m, epoch, msg->u.beat.epoch);
        return pb_pack(out, WMSG_WATCH, &m.base, mem);
    }
    case WMSG_RESET: {
        Ingot__Worker__Reset m = INGOT__WORKER__RESET__INIT;
        SET(m, epoch, msg->u.beat.epoch);
        return pb_pack(out, WMSG_RESET, &m.base, mem);
    }
    case WMSG_SHUTDOWN: {
        Ingot__Worker__Shutdown m = INGOT__WORKER__SHUTDOWN__INIT;
        SET(m, epoch, msg->u.beat.epoch);
        return pb_pack(out, WMSG_SHUTDOWN, &m.base, mem);
    }
    case WMSG_REFUSED: {
        Ingot__Worker__Refused m = INGOT__WORKER__REFUSED__INIT;
        m.detail = (char *)(uintptr_t)msg->u.refused;
        return pb_pack(out, WMSG_REFUSED, &m.base, mem);
    }
    }
    FAIL(ST_BUG, "message type %d has no encoder", (int)msg->type);
}
