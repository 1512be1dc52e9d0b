#include "worker/numerics.h"

#include <stdio.h>
#include <string.h>

static const char *activations(const struct numerics_facts *n)
{
    static const char *const cpu[] = {"a8", "a8-bf16", "a8-bf16-tiles"};
    if (n->checkpoint)
        return "ac";
    if (strcmp(n->backend, "cpu") == 0)
        return cpu[n->activations];
    return n->scaled_f32 ? "aw-f32" : "aw";
}

/* The CPU multiplies int8 entries with queries and weights of 16 bits. */
static const char *kv_words(const struct numerics_facts *n)
{
    return n->kv == DT_I8 && strcmp(n->backend, "cpu") == 0 ? "-a16" : "";
}

void numerics_id(const struct numerics_facts *n, char out[NUMERICS_ID_SIZE])
{
    char ranks[16] = "tp1.2.4.8";
    bool same = n->world == 1 || n->world == 2 || n->world == 4 || n->world == 8;
    if (!same)
        snprintf(ranks, sizeof ranks, "tp%d", n->world);
    snprintf(out, NUMERICS_ID_SIZE, "%d/%.16s%s%s%s/kv-%s%s/%s%s%.16s", NUMERIC_CONTRACT,
             n->backend, n->fast ? NUMERICS_ID_FAST : "/strict/", activations(n),
             n->sorted ? "-order" : "", dtype_name(n->kv), kv_words(n), ranks,
             *n->matrix ? "/" : "", n->matrix);
}
