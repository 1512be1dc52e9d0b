#include "coordinator/grammars.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/grammar/grammar.h"
#include "common/log.h"
#include "coordinator/model_answer.h"

struct entry {
    uint64_t id; /* of the digest's beginning; 0: free */
    uint8_t digest[SHA256_BYTES];
    struct owner owner; /* of the first request that uses it */
    uint32_t kind, n_users;
    char *source;
    size_t n_source;
    size_t n_bytes;                       /* compiled, and its source */
    uint64_t sent[MAX_WORKER_GROUPS];     /* epoch of the group there that has it, 0: none */
    uint64_t compiled[MAX_WORKER_GROUPS]; /* the same of the one that has compiled it */
    uint64_t used;                        /* when it was taken last, in takes */
};

struct grammars {
    const struct model_text *mt;
    struct entry entries[GRAMMARS_MAX];
    uint64_t n_takes;
    uint64_t vocabulary[MAX_WORKER_GROUPS]; /* epoch of the group there that has it, 0: none */
};

enum status grammars_create(struct grammars **out, const struct model_text *mt)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        FAIL(ST_NOMEM, "no memory for grammars");
    (*out)->mt = mt;
    return ST_OK;
}

void grammars_destroy(struct grammars *g)
{
    for (size_t i = 0; g && i < GRAMMARS_MAX; i++)
        free(g->entries[i].source);
    free(g);
}

/* ---- the table ---- */

static struct entry *find(struct grammars *g, uint64_t id)
{
    for (size_t i = 0; i < GRAMMARS_MAX; i++)
        if (g->entries[i].id == id)
            return &g->entries[i];
    return NULL;
}

/* Bytes of all grammars, of those that requests use, and of the latter those of an owner. */
struct in_use {
    size_t all, used, owned;
};

static struct in_use in_use(const struct grammars *g, const struct owner *owner)
{
    struct in_use n = {0};
    for (size_t i = 0; i < GRAMMARS_MAX; i++) {
        const struct entry *e = &g->entries[i];
        if (!e->id)
            continue;
        n.all += e->n_bytes;
        n.used += e->n_users ? e->n_bytes : 0;
        n.owned += e->n_users && owner && owner_equal(&e->owner, owner) ? e->n_bytes : 0;
    }
    return n;
}

static enum status check_room(const struct grammars *g, const struct owner *owner, size_t n_bytes)
{
    struct in_use n = in_use(g, owner);
    if (n_bytes > GRAMMARS_TENANT_BYTES)
        FAIL(ST_RANGE, "the grammar takes %zu MiB: those of a tenant may take %zu MiB",
             n_bytes >> 20, GRAMMARS_TENANT_BYTES >> 20);
    if (n_bytes > GRAMMARS_TENANT_BYTES - n.owned)
        FAIL(ST_BUSY,
             "the grammars of this tenant take %zu MiB: one of %zu MiB does not fit into %zu",
             n.owned >> 20, n_bytes >> 20, GRAMMARS_TENANT_BYTES >> 20);
    if (n_bytes > GRAMMARS_MAX_BYTES - n.used)
        FAIL(ST_BUSY, "the grammars in use take %zu MiB: one of %zu MiB does not fit into %zu MiB",
             n.used >> 20, n_bytes >> 20, GRAMMARS_MAX_BYTES >> 20);
    return ST_OK;
}

static enum status add(struct grammars *g, const struct resolved *ask, uint64_t id,
                       struct entry **out)
{
    struct entry *e = find(g, 0);
    if (!e)
        FAIL(ST_BUSY, "%d different grammars are in use", GRAMMARS_MAX);
    e->source = malloc(ask->n_grammar + 1);
    if (!e->source)
        FAIL(ST_NOMEM, "no memory for a grammar of %zu bytes", ask->n_grammar);
    memcpy(e->source, ask->grammar, ask->n_grammar);
    e->n_source = ask->n_grammar;
    e->n_bytes = ask->grammar_bytes + ask->n_grammar;
    e->kind = ask->grammar_kind;
    memcpy(e->digest, ask->grammar_digest, sizeof e->digest);
    e->id = id;
    *out = e;
    return ST_OK;
}

enum status grammars_take(struct grammars *g, const struct resolved *ask, const struct owner *owner,
                          uint64_t *id)
{
    *id = 0;
    if (!ask->grammar_kind)
        return ST_OK;
    memcpy(id, ask->grammar_digest, sizeof *id);
    *id += *id == 0;
    struct entry *e = find(g, *id);
    if (!e || !e->n_users)
        TRY(check_room(g, owner, ask->grammar_bytes + ask->n_grammar));
    if (!e)
        TRY(add(g, ask, *id, &e));
    if (memcmp(e->digest, ask->grammar_digest, sizeof e->digest) != 0)
        FAIL(ST_BUSY, "another grammar in use has an equal id");
    if (!e->n_users++)
        e->owner = *owner;
    e->used = ++g->n_takes;
    return ST_OK;
}

void grammars_release(struct grammars *g, uint64_t id)
{
    struct entry *e = id ? find(g, id) : NULL;
    if (e)
        e->n_users--;
}

/* ---- the groups ---- */

static enum status send(struct worker_port *port, struct worker_group *group, const struct entry *e,
                        uint32_t kind)
{
    struct worker_msg m = {.type = WMSG_GRAMMAR};
    m.u.grammar = (struct worker_grammar){e->id, kind, e->source, kind ? e->n_source : 0};
    return worker_port_send(port, group, &m);
}

/* Tells all groups that have it that it is not used any more. */
static enum status send_end(struct worker_port *port, const struct entry *e)
{
    for (uint32_t i = 0; i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *group = worker_port_group(port, i);
        if (group && group->epoch == e->sent[i])
            TRY(send(port, group, e, GRAMMAR_NONE));
    }
    return ST_OK;
}

/* Forgets those that have not been used for longest, until few are spare and all keep GRAMMARS_MAX_BYTES. */
static enum status trim(struct grammars *g, struct worker_port *port)
{
    for (;;) {
        struct entry *oldest = NULL;
        uint32_t n_spare = 0;
        for (size_t i = 0; i < GRAMMARS_MAX; i++) {
            struct entry *e = &g->entries[i];
            if (!e->id || e->n_users)
                continue;
            n_spare++;
            oldest = !oldest || e->used < oldest->used ? e : oldest;
        }
        if (!oldest || (n_spare <= GRAMMARS_SPARE && in_use(g, NULL).all <= GRAMMARS_MAX_BYTES))
            return ST_OK;
        TRY(send_end(port, oldest));
        free(oldest->source);
        *oldest = (struct entry){.id = 0};
    }
}

/* The bytes of all tokens. */
static enum status vocabulary(const struct model_text *mt, struct text_buf *bytes,
                              uint32_t *lengths, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t begin = bytes->len;
        TRY(model_token_bytes(mt, (int32_t)i, bytes));
        lengths[i] = (uint32_t)(bytes->len - begin);
    }
    return ST_OK;
}

static enum status send_vocabulary(const struct grammars *g, struct worker_port *port,
                                   struct worker_group *group)
{
    uint32_t n = (uint32_t)tokenizer_max_id(g->mt->tok) + 1, vocab = group->vocab;
    struct text_buf bytes = {0};
    n = n < vocab ? n : vocab;
    uint32_t *lengths = calloc((size_t)n + 1, sizeof *lengths);
    enum status st = lengths ? vocabulary(g->mt, &bytes, lengths, n) : ST_NOMEM;
    struct worker_msg m = {.type = WMSG_VOCABULARY};
    m.u.vocabulary = (struct worker_vocabulary){n,         lengths,    (const uint8_t *)bytes.data,
                                                bytes.len, g->mt->eos, g->mt->n_eos};
    if (st == ST_OK)
        st = worker_port_send(port, group, &m);
    free(lengths);
    text_buf_free(&bytes);
    return st;
}

/* Sends the group the grammar, and before the first one the vocabulary, if it does not have them. */
static enum status give(struct grammars *g, struct worker_port *port, struct worker_group *group,
                        struct entry *e)
{
    uint32_t slot = group->slot;
    if (e->sent[slot] == group->epoch)
        return ST_OK;
    if (g->vocabulary[slot] != group->epoch)
        TRY(send_vocabulary(g, port, group));
    g->vocabulary[slot] = group->epoch;
    TRY(trim(g, port));
    TRY(send(port, group, e, e->kind));
    e->sent[slot] = group->epoch;
    return ST_OK;
}

bool grammars_prepare(struct grammars *g, struct worker_port *port, uint64_t id)
{
    struct entry *e = find(g, id);
    bool all = true;
    for (uint32_t i = 0; e && i < MAX_WORKER_GROUPS; i++) {
        struct worker_group *group = worker_port_group(port, i);
        if (!group || !group->active || !group->masks || group->broken)
            continue;
        if (give(g, port, group, e) != ST_OK) /* then it is lost */
            log_failure(LOG_WARN, ST_PEER, "a grammar could not be sent");
        all = all && e->compiled[i] == group->epoch;
    }
    return all;
}

void grammars_compiled(struct grammars *g, const struct worker_group *group, uint64_t id)
{
    struct entry *e = id ? find(g, id) : NULL;
    if (e && e->sent[group->slot] == group->epoch)
        e->compiled[group->slot] = group->epoch;
}

enum status grammars_send(struct grammars *g, struct worker_port *port, struct worker_group *group,
                          const struct step_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_opens; i++) {
        struct entry *e = plan->opens[i].grammar ? find(g, plan->opens[i].grammar) : NULL;
        if (e)
            TRY(give(g, port, group, e));
    }
    return ST_OK;
}
