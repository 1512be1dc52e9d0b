#include "worker/graphs.h"

#include <stdlib.h>

enum { MAX_BATCHES = 64 }; /* two for each power of two */

struct recorded {
    int32_t batch;
    struct graph *graph;
    struct view logits; /* [batch, n_cols] */
};

struct graphs {
    struct graphs_config cfg;
    const struct backend_ops *op;
    struct recorded list[MAX_BATCHES]; /* ascending */
    int n;
};

/* Ops of one layer and of a step around the layers, at most, and what a driver is taken to need for
 * one of them (parameters, launch descriptor): an upper guess, no measurement. */
enum { OPS_PER_LAYER = 16, OPS_AROUND = 16, BYTES_PER_OP = 8 << 10 };

size_t graphs_bytes(const struct model_config *mc, int32_t most)
{
    size_t n = 0, ops = (size_t)mc->n_layers * OPS_PER_LAYER + OPS_AROUND;
    for (int32_t b = 0; b < most; n++)
        b = step_batch(b + 1, most);
    return n * ops * BYTES_PER_OP;
}

static enum status record(struct graphs *g, struct recorded *r)
{
    struct step_dev dev;
    TRY(step_pads(g->cfg.step, r->batch, &dev));
    if (!g->cfg.prepared) /* what is prepared at first use is not recorded */
        TRY(g->cfg.enqueue(g->cfg.ctx, &dev, &r->logits));
    TRY(g->op->sync(g->cfg.be));
    TRY(g->op->graph_begin(g->cfg.be));
    enum status st = g->cfg.enqueue(g->cfg.ctx, &dev, &r->logits);
    enum status ended = g->op->graph_end(g->cfg.be, &r->graph);
    return st != ST_OK ? st : ended;
}

enum status graphs_create(struct graphs **out, const struct graphs_config *cfg)
{
    enum status st = ST_OK;
    *out = NULL;
    struct graphs *g = calloc(1, sizeof *g);
    if (!g)
        FAIL(ST_NOMEM, "no memory for graphs");
    g->cfg = *cfg;
    g->op = backend_ops_of(cfg->be);
    for (int32_t b = 0; b < cfg->most && st == ST_OK;) {
        struct recorded *r = &g->list[g->n++];
        r->batch = b = step_batch(b + 1, cfg->most);
        st = record(g, r);
    }
    if (st != ST_OK) {
        graphs_destroy(g);
        return st;
    }
    *out = g;
    return ST_OK;
}

void graphs_destroy(struct graphs *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n; i++)
        if (g->list[i].graph)
            g->op->graph_free(g->cfg.be, g->list[i].graph);
    free(g);
}

enum status graphs_launch(struct graphs *g, const struct step_dev *dev, struct view *logits)
{
    int i = 0;
    while (i < g->n && g->list[i].batch != dev->n_seqs)
        i++;
    if (i == g->n)
        FAIL(ST_BUG, "no graph of %d sequences was recorded", dev->n_seqs);
    *logits = g->list[i].logits;
    return g->op->graph_launch(g->cfg.be, g->list[i].graph);
}

int graphs_count(const struct graphs *g)
{
    return g ? g->n : 0;
}
