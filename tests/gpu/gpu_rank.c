/* A rank on GPU 0 as a worker makes it: gpu_rank --models DIR [--few]
 * The memory plan against what is taken; decodes as graphs and steps whose upload runs beside the
 * one in front, against op by op and one after the other, and a prompt that another
 * sequence takes over, with its states: the same bits.  TAP on stdout. */
#include <string.h>

#include "gpu/rank_rig.h"
#include "gpu/tap.h"

typedef struct result_token tokens[RIG_NEW][RIG_SEQS];

struct way {
    const char *name, *graphs;
    bool ahead, penalty;
};

static enum status check_way(const char *dir, const struct way *w, tokens got)
{
    struct rank_rig r;
    struct loader *ld;
    TRY(loader_open(&ld, dir));
    enum status st = rank_rig_plan(&r, ld, w->graphs, "strict");
    if (st == ST_OK)
        st = rank_rig_load(&r);
    if (st == ST_OK)
        st = rank_rig_check_plan(&r);
    if (st == ST_OK)
        st = rank_rig_generate(&r, w->ahead, w->penalty, got);
    if (st == ST_OK && !w->penalty)
        st = rank_rig_reuse(&r, got);
    rank_rig_close(&r);
    return st;
}

/* Each pair: the oracle and what must have its bits. */
static void check_model(struct tap *t, const char *dir, const char *name)
{
    static const struct way ways[][2] = {
        {{"op by op", "off", false, true}, {"graphs", "auto", false, true}},
        {{"op by op", "off", false, false}, {"steps ahead", "off", true, false}},
        {{"op by op", "off", false, false}, {"graphs ahead", "auto", true, false}}};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        static tokens got[2];
        enum status st = check_way(dir, &ways[i][0], got[0]);
        if (st == ST_OK)
            st = check_way(dir, &ways[i][1], got[1]);
        if (st == ST_OK)
            st = rank_rig_same(got[1], got[0]);
        tap_ok(t, st == ST_OK, "%s: %s as op by op%s%s", name, ways[i][1].name,
               st == ST_OK ? "" : ": ", st == ST_OK ? "" : status_detail());
    }
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
        "llama-sharded-bf16", "qwen3moe",       "qwen3next", "nemotron-h-moe",
        "llama-gqa",          "llama-tied-f16", "qwen2"};
    struct tap t = {0};
    bool few = argc == 4 && strcmp(argv[3], "--few") == 0;
    if (argc != 3 + few || strcmp(argv[1], "--models") != 0) {
        fprintf(stderr, "usage: gpu_rank --models DIR [--few]\n");
        return 2;
    }
    for (size_t i = 0; i < (few ? 4 : ARRAY_LEN(names)); i++) {
        char dir[1024];
        snprintf(dir, sizeof dir, "%s/%s", argv[2], names[i]);
        check_model(&t, dir, names[i]);
    }
    return tap_end(&t);
}
