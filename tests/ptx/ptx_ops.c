/* The CUDA backend on the PTX machine, every op, quantised experts and the one-shot collectives:
 *   ptx_ops --modules FILE [--seed N] [--mma exact|truncate|halves] [--sm N] [--match TEXT]
 *           [--first yes]
 * FILE: paths of PTX files, one a line.  A case passes when it agrees with double precision, and with
 * INGOT_ALL when rows in chunks of 5 have the same bits, too.  Before each case the backend's scratch
 * memory is undefined.  --match: the ops whose names begin so, alone ("ranks": the collectives; "experts";
 * "chain": behind other kernels; "operand": written by the kernel in front);
 * --first: nothing after the first failure.
 * Without it every kernel must have been launched.  TAP on stdout, or to $INGOT_TAP. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda_backend.h"
#include "effort.h"
#include "gpu/tap.h"
#include "ops/op_cuda.h"
#include "ops/op_verdict.h"
#include "ops/operand_pairs.h"
#include "ptx/ptx_chain.h"
#include "ptx/ptx_cuda.h"
#include "ptx/ptx_experts.h"
#include "ptx/ptx_ranks.h"

enum { CHUNK = 5, MAX_CHUNKED = 60, SMALL_DEVICE = 4, SMALL_SMEM = 99 << 10 };

struct options {
    const char *modules, *match;
    struct ptx_config machine;
    int n_sm;
    bool first;
};

static bool parse_mma(const char *text, enum ptx_mma_order *out)
{
    static const char *const names[] = {
        [PTX_MMA_EXACT] = "exact", [PTX_MMA_TRUNCATE] = "truncate", [PTX_MMA_HALVES] = "halves"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        *out = (enum ptx_mma_order)i;
        if (strcmp(text, names[i]) == 0)
            return true;
    }
    return false;
}

static bool parse_options(int argc, char **argv, struct options *o)
{
    bool fine = argc % 2 == 1;
    *o = (struct options){.n_sm = 132, .machine.seed = 1};
    for (int i = 1; fine && i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--modules") == 0)
            o->modules = value;
        else if (strcmp(name, "--match") == 0)
            o->match = value;
        else if (strcmp(name, "--first") == 0)
            o->first = strcmp(value, "yes") == 0;
        else if (strcmp(name, "--seed") == 0)
            o->machine.seed = strtoull(value, NULL, 10);
        else if (strcmp(name, "--sm") == 0)
            o->n_sm = (int)strtol(value, NULL, 10);
        else
            fine = strcmp(name, "--mma") == 0 && parse_mma(value, &o->machine.mma);
    }
    return fine && o->modules && o->n_sm > 0;
}

static enum status load(const char *list)
{
    char path[4096];
    FILE *f = fopen(list, "r");
    enum status st = ST_OK;
    if (!f)
        FAIL(ST_IO, "%s cannot be read", list);
    while (st == ST_OK && fgets(path, sizeof path, f)) {
        path[strcspn(path, "\n")] = 0;
        if (path[0])
            st = ptx_cuda_load(path);
    }
    fclose(f);
    return st;
}

static void run_case(struct tap *t, struct backend *be, const struct op_case *c)
{
    char why[OP_WHY_BYTES] = "";
    struct op_case rounded = be->exact_x ? with_rounded_x(c) : with_halved_x(c);
    ptx_memory_forget(ptx_machine_memory(ptx_cuda_machine()), be->scratch->data,
                      be->scratch->bytes);
    float *out = op_results(be, c, why);
    if (!why[0])
        op_check_reference(&rounded, out, why);
    if (!why[0] && everything() && c->rows <= MAX_CHUNKED)
        op_check_chunks(be, c, CHUNK, out, why);
    tap_ok(t, !why[0], "%s%s%s", op_case_name(c), why[0] ? ": " : "", why);
    free(out);
}

static bool matches(const char *match, const char *name)
{
    return !match || strncmp(name, match, strlen(match)) == 0;
}

#define WIDE_HEADS(TYPE)                                                                           \
    {                                                                                              \
        .op = &op_attention, .rows = 20, .n_seqs = 2, .past = 300, .n_q = 4, .n_kv = 2,            \
        .q_per_kv = 2, .d = 200, .block_len = 16, .dtype = TYPE                                    \
    }
/* Of rows or stages that do not fit into SMALL_SMEM: latents, heads. */
#define FEW_LATENT_ROWS(TYPE)                                                                      \
    {                                                                                              \
        .op = &op_attention_latent, .rows = 3, .n_seqs = 1, .past = 70, .n_q = 2, .n_kv = 1,       \
        .q_per_kv = 2, .d = 512, .n = 448, .block_len = 16, .dtype = TYPE                          \
    }
#define FEW_HEAD_ROWS(D, TYPE)                                                                     \
    {                                                                                              \
        .op = &op_attention, .rows = 3, .n_seqs = 1, .past = 70, .n_q = 2, .n_kv = 1,              \
        .q_per_kv = 2, .d = D, .block_len = 16, .dtype = TYPE                                      \
    }
/* Many splits of a decode, spread one by one and by groups; heads for 32 rows a block. */
#define MANY_LATENTS(TYPE, HEADS)                                                                  \
    {                                                                                              \
        .op = &op_attention_latent, .rows = 2, .n_seqs = 2, .past = 600, .n_q = HEADS, .n_kv = 1,  \
        .q_per_kv = HEADS, .d = 48, .n = 40, .block_len = 16, .dtype = TYPE                        \
    }
#define LARGE_TILES(TYPE)                                                                          \
    {                                                                                              \
        .op = &op_linear, .rows = 150, .k = 520, .n = 140, .n_slices = 8, .dtype = TYPE,           \
        .bias = true                                                                               \
    }
/* As cuda_cases, for this test alone. */
static const struct op_case more_cases[] = {
    /* more groups of splits than the merge takes at a time */
    {.op = &op_attention,
     .rows = 1,
     .n_seqs = 1,
     .past = 17000,
     .n_q = 2,
     .n_kv = 1,
     .q_per_kv = 2,
     .d = 16,
     .block_len = 16,
     .dtype = DT_BF16},
    WIDE_HEADS(DT_F16),
    WIDE_HEADS(DT_BF16),
    WIDE_HEADS(DT_E4M3),
    MANY_LATENTS(DT_F16, 3),
    MANY_LATENTS(DT_F16, 17),
    MANY_LATENTS(DT_BF16, 3),
    MANY_LATENTS(DT_BF16, 17),
    {.op = &op_moe_ffn,
     .rows = 1100,
     .k = 8,
     .n = 6,
     .n_experts = 4,
     .top_k = 2,
     .dtype = DT_F16,
     .n_slices = 8},
};
#define SCALED_LINEAR(ROWS, SLICES, TYPE)                                                          \
    {                                                                                              \
        .op = &op_linear, .rows = ROWS, .k = 520, .n = 140, .n_slices = SLICES, .dtype = TYPE,     \
        .bias = true                                                                               \
    }
/* Without ACTIVATIONS_F32, on a device of SMALL_DEVICE multiprocessors. */
static const struct op_case scaled_cases[] = {
    SCALED_LINEAR(3, 8, DT_E4M3),
    SCALED_LINEAR(3, 1, DT_NVFP4),
    SCALED_LINEAR(12, 1, DT_E4M3),
    SCALED_LINEAR(12, 8, DT_NVFP4),
    SCALED_LINEAR(20, 8, DT_E4M3),
    SCALED_LINEAR(20, 1, DT_NVFP4),
    SCALED_LINEAR(40, 1, DT_E4M3),
    SCALED_LINEAR(40, 8, DT_NVFP4),
    SCALED_LINEAR(150, 8, DT_E4M3),
    SCALED_LINEAR(150, 4, DT_NVFP4),
    SCALED_LINEAR(3, 8, DT_NF4),
    SCALED_LINEAR(12, 1, DT_NF4),
    SCALED_LINEAR(20, 8, DT_NF4),
    SCALED_LINEAR(40, 1, DT_NF4),
    SCALED_LINEAR(150, 8, DT_NF4),
    {.op = &op_embed, .rows = 9, .k = 200, .n = 70, .dtype = DT_E4M3},
    {.op = &op_embed, .rows = 9, .k = 200, .n = 70, .dtype = DT_NVFP4},
    {.op = &op_embed, .rows = 9, .k = 200, .n = 70, .dtype = DT_NF4},
};
/* The same on a device of SMALL_DEVICE multiprocessors, SMALL_SMEM bytes of shared memory a block. */
static const struct op_case small_device_cases[] = {
    LARGE_TILES(DT_F16),
    LARGE_TILES(DT_BF16),
    FEW_LATENT_ROWS(DT_F16),
    FEW_LATENT_ROWS(DT_BF16),
    FEW_HEAD_ROWS(128, DT_F16),
    FEW_HEAD_ROWS(128, DT_BF16),
    FEW_HEAD_ROWS(400, DT_F16),
    FEW_HEAD_ROWS(400, DT_BF16),
    MANY_LATENTS(DT_F16, 3),
    MANY_LATENTS(DT_F16, 17),
    MANY_LATENTS(DT_BF16, 3),
    MANY_LATENTS(DT_BF16, 17),
    /* blocks that take several tiles, small and large */
    {.op = &op_linear, .rows = 40, .k = 70, .n = 1100, .dtype = DT_BF16},
    {.op = &op_linear, .rows = 150, .k = 70, .n = 1100, .dtype = DT_BF16},
};

static void run_cases(struct tap *t, struct backend *be, const struct options *o,
                      const struct op_case *c, size_t n)
{
    for (size_t i = 0; i < n && !(o->first && t->failed); i++)
        if (matches(o->match, op_case_name(&c[i])) && (everything() || !cuda_repeats(c[i].dtype)))
            run_case(t, be, &c[i]);
}

static void run_operands(struct tap *t, struct backend *be, const struct options *o)
{
    for (size_t i = 0; i < n_operand_pairs && !(o->first && t->failed); i++) {
        const struct operand_pair *p = &operand_pairs[i];
        char why[OP_WHY_BYTES];
        if (!matches(o->match, operand_pair_name(p)))
            continue;
        ptx_memory_forget(ptx_machine_memory(ptx_cuda_machine()), be->scratch->data,
                          be->scratch->bytes);
        operand_pair_check(be, p, why);
        tap_ok(t, !why[0], "%s%s%s", operand_pair_name(p), why[0] ? ": " : "", why);
    }
}

static void run_ops(struct tap *t, const struct options *o)
{
    struct backend *be;
    if (backend_open(&be, "cuda", &(struct backend_config){0}) != ST_OK) {
        tap_ok(t, false, "open: %s", status_detail());
        return;
    }
    run_cases(t, be, o, op_cases, n_op_cases);
    run_cases(t, be, o, more_cases, ARRAY_LEN(more_cases));
    run_cases(t, be, o, cuda_cases, ARRAY_LEN(cuda_cases));
    run_operands(t, be, o);
    be->n_sm = SMALL_DEVICE;
    ptx_cuda_block_smem(SMALL_SMEM);
    run_cases(t, be, o, small_device_cases, ARRAY_LEN(small_device_cases));
    backend_ops_of(be)->close(be);
    if (backend_open(&be, "cuda", &(struct backend_config){.activations = ACTIVATIONS_AUTO}) !=
        ST_OK) {
        tap_ok(t, false, "open: %s", status_detail());
        return;
    }
    be->n_sm = SMALL_DEVICE;
    run_cases(t, be, o, scaled_cases, ARRAY_LEN(scaled_cases));
    backend_ops_of(be)->close(be);
}

/* The list of kernels, and how often each was launched. */
static void check_coverage(struct tap *t)
{
    uint64_t launches;
    const char *name;
    for (size_t i = 0; (name = ptx_cuda_kernel(i, &launches)); i++)
        tap_ok(t, launches > 0, "%s was launched %llu times", name, (unsigned long long)launches);
}

int main(int argc, char **argv)
{
    struct tap t = {0};
    struct options o;
    const char *tap = getenv("INGOT_TAP");
    if (!parse_options(argc, argv, &o)) {
        fprintf(stderr,
                "usage: ptx_ops --modules FILE [--seed N] [--mma exact|truncate|halves] [--sm N]"
                " [--match TEXT] [--first yes]\n");
        return 2;
    }
    if (tap && !freopen(tap, "w", stdout))
        return 2;
    if (ptx_cuda_open(&o.machine, o.n_sm) != ST_OK || load(o.modules) != ST_OK) {
        tap_ok(&t, false, "%s", status_detail());
        return tap_end(&t);
    }
    run_ops(&t, &o);
    if (matches(o.match, "ranks") && !(o.first && t.failed))
        ptx_check_ranks(&t);
    if (matches(o.match, "experts") && !(o.first && t.failed))
        ptx_check_experts(&t);
    if (matches(o.match, "chain") && !(o.first && t.failed))
        ptx_check_chains(&t);
    if (!o.match)
        check_coverage(&t);
    ptx_cuda_close();
    return tap_end(&t);
}
