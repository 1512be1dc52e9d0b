#include "coordinator/group_fit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/hex.h"

/* Sizes that a Hello may have; a worker's options allow no others. */
static const char *impossible(const struct worker_port_need *w, const struct worker_hello *h,
                              char *buf, size_t n)
{
    const struct {
        const char *name;
        uint64_t value, least, most;
    } rows[] = {
        {"world", h->world, 1, 1024},
        {"vocab", h->vocab, w->model_vocab, w->model_vocab},
        {"max_ctx", h->max_ctx, 2, w->model_max_ctx},
        {"block_len", h->block_len, 1, 4096},
        {"n_blocks", h->n_blocks, 1, 100000000},
        {"n_blocks * block_len", (uint64_t)h->n_blocks * h->block_len, 1, INT32_MAX},
        {"max_step_tokens", h->max_step_tokens, 1, 65536},
        {"max_seqs", h->max_seqs, 1, 4096},
        {"n_snapshots", h->n_snapshots, 0, 65536},
        {"last_epoch", h->last_epoch, 0, INT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].value < rows[i].least || rows[i].value > rows[i].most) {
            snprintf(buf, n,
                     "its Hello says %s %" PRIu64 ", which must be in [%" PRIu64 ", %" PRIu64 "]",
                     rows[i].name, rows[i].value, rows[i].least, rows[i].most);
            return buf;
        }
    return NULL;
}

static const char *other_shape(const struct worker_port_need *w, const struct worker_hello *h,
                               char *buf, size_t n)
{
    if (h->block_len != w->block_len)
        snprintf(buf, n, "block length %u, this server has %u", h->block_len, w->block_len);
    else if (h->embedding != w->embedding)
        snprintf(buf, n, "its embeddings have %u components, this server's %u (--embed)",
                 h->embedding, w->embedding);
    else if (h->n_snapshots < w->n_snapshots)
        snprintf(buf, n,
                 "it keeps %u snapshots of states, this server needs %u (--state-snapshots)",
                 h->n_snapshots, w->n_snapshots);
    else if (h->max_ctx < w->max_ctx || h->max_step_tokens < w->max_step_tokens ||
             h->max_seqs < w->max_seqs)
        snprintf(buf, n,
                 "max_ctx %u, max_step_tokens %u, max_seqs %u: this server needs %u, %u, %u",
                 h->max_ctx, h->max_step_tokens, h->max_seqs, w->max_ctx, w->max_step_tokens,
                 w->max_seqs);
    else
        return NULL;
    return buf;
}

static const char *other_digest(const char *name, const uint8_t *its, const uint8_t *ours,
                                const char *from, char *buf, size_t n)
{
    char a[2 * SHA256_BYTES + 1], b[2 * SHA256_BYTES + 1];
    hex_of(its, SHA256_BYTES, a);
    hex_of(ours, SHA256_BYTES, b);
    snprintf(buf, n, "the %s differs: the group has %s, this server %s (%s)", name, a, b, from);
    return buf;
}

const char *group_other_identity(const struct worker_port_need *w, const struct worker_hello *h,
                                 char *buf, size_t n)
{
    if (w->has_weights && h->has_weights && memcmp(h->weights, w->weights, SHA256_BYTES) != 0)
        return other_digest("weights digest (configuration and weights)", h->weights, w->weights,
                            w->weights_from, buf, n);
    if (w->has_text && h->has_text && memcmp(h->text, w->text, SHA256_BYTES) != 0)
        return other_digest("text digest (tokenizer, templates, end ids, generation defaults)",
                            h->text, w->text, "own", buf, n);
    if (*w->numerics && strcmp(h->numerics, w->numerics) != 0) {
        snprintf(buf, n, "the numerics id differs: the group has %s, this server %s", h->numerics,
                 w->numerics);
        return buf;
    }
    return NULL;
}

const char *group_unfit(const struct worker_port_need *w, const struct worker_hello *h, char *buf,
                        size_t n)
{
    if (h->wire_version != WORKER_WIRE_VERSION) {
        snprintf(buf, n, "worker protocol %u, this coordinator speaks %d: use one build",
                 h->wire_version, WORKER_WIRE_VERSION);
        return buf;
    }
    const char *why = group_other_identity(w, h, buf, n);
    if (!why)
        why = impossible(w, h, buf, n);
    if (!why && w->has_shape)
        why = other_shape(w, h, buf, n);
    return why;
}
