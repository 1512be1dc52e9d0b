/* The CPU backend as one device: choice of the instruction set, scratch memory, events. */
#include "backends/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#include "backends/cpu/bf16.h"
#include "backends/cpu/cpu_backend.h"
#include "common/clock.h"
#include "common/host.h"
#include "common/log.h"

/* Sizes of the scratch memory, in floats. */
enum {
    ATTN_PARTIAL_FLOATS = 1 << 18, /* for each part of the pool, at least for 2 */
    MAX_PARTS = 1024,
};

/* Best first. */
static const struct isa {
    const char *name;
    const struct kernels *kernels;
    const struct quant_kernels *quant;
    const struct bf16_kernels *bf16; /* [BF16_ORDERS] */
} isas[] = {
#ifdef INGOT_CPU_X86
    {"amx", &kernels_avx512, &quant_amx, bf16_avx512},
    {"avx512vnni", &kernels_avx512, &quant_avx512vnni, bf16_avx512},
    {"avx512", &kernels_avx512, &quant_avx512, bf16_avx512},
    {"avxvnni", &kernels_avx2, &quant_avxvnni, bf16_avx2},
    {"avx2", &kernels_avx2, &quant_avx2, bf16_avx2},
#endif
#ifdef INGOT_CPU_NEON
    {"neoni8mm", &kernels_neon, &quant_neoni8mm, bf16_plain},
    {"neondot", &kernels_neon, &quant_neondot, bf16_plain},
    {"neon", &kernels_neon, &quant_neon, bf16_plain},
#endif
    {"plain", &kernels_plain, &quant_plain, bf16_plain},
};

#if defined(__x86_64__)
static bool has_f16c(void) /* clang 14's __builtin_cpu_supports does not know it */
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

#if defined(__x86_64__) && defined(__linux__)
/* Tiles and their 8-bit products; the system grants a process the registers on request (Linux 5.16,
 * arch_prctl(2)), also to threads that it starts later. */
static bool has_amx(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    unsigned a, b, c, d, want = 1U << 24 | 1U << 25;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & want) == want &&
           syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#elif defined(__x86_64__)
static bool has_amx(void)
{
    return false;
}
#endif

#ifdef INGOT_CPU_X86
/* AVX-512 BF16: VDPBF16PS. */
static bool has_vdpbf16ps(void)
{
    unsigned a, b, c, d;
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bw") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           (a & 1U << 5);
}

static bool has_tdpbf16ps(void)
{
    unsigned a, b, c, d;
    return has_amx() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & 1U << 22);
}

/* AMX's tiles multiply BF16 at several times the rate of f32; AMD's VDPBF16PS (from Zen 4 on) at
 * twice that rate, Intel's at a quarter of it. */
static enum activations fastest_activations(void)
{
    if (has_tdpbf16ps())
        return ACTIVATIONS_BF16_TILES;
    return has_vdpbf16ps() && __builtin_cpu_is("amd") ? ACTIVATIONS_BF16 : ACTIVATIONS_F32;
}
#else
static enum activations fastest_activations(void)
{
    return ACTIVATIONS_F32;
}
#endif

/* Can this processor run the table of that name? */
static bool isa_runs(const char *name)
{
    (void)name;
#if defined(__x86_64__)
    unsigned a, b, c, d;
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
    if (strcmp(name, "amx") == 0)
        return vnni && has_amx();
    if (strcmp(name, "avx512vnni") == 0)
        return vnni;
    if (strcmp(name, "avx512") == 0)
        return avx512;
    if (strcmp(name, "avxvnni") == 0)
        return avx2 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1U << 4);
    if (strcmp(name, "avx2") == 0)
        return avx2;
#elif defined(__aarch64__)
    if (strcmp(name, "neoni8mm") == 0)
        return host_arm().dot && host_arm().matrix;
    if (strcmp(name, "neondot") == 0)
        return host_arm().dot;
#endif
    return true;
}

/* Processors with VNNI, which all tables above avx512 require, may have VBMI too. */
static const struct kernels *choose_kernels(const struct isa *isa)
{
#ifdef INGOT_CPU_X86
    if (isa->kernels == &kernels_avx512 && strcmp(isa->name, "avx512") != 0 &&
        __builtin_cpu_supports("avx512vbmi"))
        return &kernels_avx512vbmi;
#endif
    return isa->kernels;
}

static enum status choose_isa(const char *want, const struct isa **out)
{
    char have[64] = "";
    bool any = !want || strcmp(want, "auto") == 0;
    for (size_t i = 0; i < ARRAY_LEN(isas); i++)
        if ((any || strcmp(isas[i].name, want) == 0) && isa_runs(isas[i].name)) {
            *out = &isas[i];
            return ST_OK;
        }
    for (size_t i = 0; i < ARRAY_LEN(isas); i++) {
        size_t n = strlen(have);
        if (isa_runs(isas[i].name))
            snprintf(have + n, sizeof have - n, " %s", isas[i].name);
    }
    FAIL(ST_UNSUPPORTED,
         "instruction set '%s' is not possible here (this build on this processor has:%s)", want,
         have);
}

#ifdef INGOT_CPU_X86
/* The instruction that defines the order, or NULL. */
static const struct bf16_kernels *bf16_native(const struct isa *isa, enum bf16_order order)
{
    bool amx = strcmp(isa->name, "amx") == 0;
    if (order == BF16_PAIRS)
        return (amx || strcmp(isa->name, "avx512vnni") == 0) && has_vdpbf16ps() ? &bf16_vdpbf16ps
                                                                                : NULL;
    return amx && has_tdpbf16ps() ? &bf16_tdpbf16ps : NULL;
}
#else
static const struct bf16_kernels *bf16_native(const struct isa *isa, enum bf16_order order)
{
    (void)isa, (void)order;
    return NULL;
}
#endif

static const struct bf16_kernels *choose_bf16(const struct isa *isa, enum activations a)
{
    if (a == ACTIVATIONS_F32)
        return NULL;
    enum bf16_order order = a == ACTIVATIONS_BF16_TILES ? BF16_TILES : BF16_PAIRS;
    const struct bf16_kernels *native = bf16_native(isa, order);
    if (native && bf16_agrees(native, order))
        return native;
    if (native)
        log_line(LOG_WARN,
                 "this processor's %s differs from its specification: its order is computed with "
                 "f32 instructions, more slowly",
                 native->name);
    return &isa->bf16[order];
}

static void carve_scratch(struct backend *be, size_t partial_floats)
{
    int parts = pool_parts(be->pool);
    float *p = be->scratch.data;
    be->attn_partial = p;
    be->attn_partial_floats = partial_floats;
    p += partial_floats;
    be->attn_thread = p;
    p += be->kernels->attn_scratch * (size_t)parts;
    be->quant_thread = (char *)p;
    p += be->quant_scratch / sizeof(float) * (size_t)parts;
    be->heads_thread = p;
    p += (size_t)HEADS_STRIP * (size_t)parts;
    be->topk_val = p;
    p += TOPK_ROWS * N_SLICES * TOPK_MAX;
    be->topk_id = (int32_t *)p;
    p += TOPK_ROWS * N_SLICES * TOPK_MAX;
    be->attn_items = (struct attn_item *)p;
}

static enum status take_scratch(struct backend *be)
{
    size_t parts = (size_t)pool_parts(be->pool);
    size_t partial_floats = (parts < 2 ? 2 : parts) * ATTN_PARTIAL_FLOATS;
    be->quant_scratch = (be->quant->scratch + 63) / 64 * 64;
    size_t floats = partial_floats + be->kernels->attn_scratch * parts +
                    be->quant_scratch / sizeof(float) * parts + HEADS_STRIP * parts +
                    2 * TOPK_ROWS * N_SLICES * TOPK_MAX;
    TRY(mem_take(&be->scratch, floats * sizeof(float) + attn_items_bytes()));
    carve_scratch(be, partial_floats);
    return ST_OK;
}

static void cpu_close(struct backend *be)
{
    if (!be)
        return;
    weights_stay(be);
    pool_destroy(be->pool);
    mem_give(&be->scratch);
    mem_give(&be->x_held);
    mapped_file_close(&be->packed);
    free(be);
}

static enum status cpu_open(struct backend **out, const struct backend_config *cfg)
{
    const struct isa *isa = NULL;
    int cpus = host_cpus();
    if (cfg->threads < 0 || cfg->threads > MAX_PARTS)
        FAIL(ST_RANGE, "threads %d, allowed is 0 to %d", cfg->threads, MAX_PARTS);
    TRY(choose_isa(cfg->isa, &isa));
    struct backend *be = calloc(1, sizeof *be);
    if (!be)
        FAIL(ST_NOMEM, "no memory for a CPU backend");
    be->base.ops = &cpu_ops;
    be->kernels = choose_kernels(isa);
    be->quant = isa->quant;
    be->isa = isa->name;
    be->activations = cfg->activations;
    be->exact_order = cfg->activations == ACTIVATIONS_F32;
    if (cfg->activations == ACTIVATIONS_AUTO)
        be->activations = fastest_activations();
    be->bf16 = choose_bf16(isa, be->activations);
    be->read = read_ahead_here();
    be->max_rows = cfg->max_rows;
    be->nodes = host_nodes(HOST_NODES);
    int parts = cfg->threads > 0 ? cfg->threads : cpus < MAX_PARTS ? cpus : MAX_PARTS;
    enum status st = pool_create(&be->pool, parts, cpus, cfg->pin);
    if (st == ST_OK)
        st = take_scratch(be);
    if (st != ST_OK) {
        cpu_close(be);
        return st;
    }
    *out = be;
    return ST_OK;
}

static void cpu_info(struct backend *be, struct backend_info *out)
{
    char name[48];
    int n = pool_threads(be->pool);
    host_cpu_name(name, sizeof name);
    *out = (struct backend_info){
        .mem_free = host_mem_free(),
        .mem_total = host_mem_total(),
        .mem_own = be->scratch.held,
        .experts = true,
        .activations = be->activations,
        .features = ((1U << N_FEATURES) - 1) & ~(be->exact_order ? 1U << FEATURE_SORTED : 0),
        .max_head = HEAD_MAX,
        .kv_types = 1U << DT_F32 | 1U << DT_F16 | 1U << DT_BF16 | 1U << DT_I8 | 1U << DT_E4M3,
    };
    int len = snprintf(out->device, sizeof out->device, "CPU %s, %s, %d thread%s", name, be->isa, n,
                       n == 1 ? "" : "s");
    int n_nodes = __builtin_popcountll(be->nodes);
    if (n_nodes > 1 && len > 0 && (size_t)len < sizeof out->device)
        snprintf(out->device + len, sizeof out->device - (size_t)len, ", %d nodes", n_nodes);
}

static enum status cpu_sync(struct backend *be)
{
    (void)be; /* every op has finished when it returns */
    return ST_OK;
}

static enum status cpu_event_mark(struct backend *be, int slot)
{
    assert(slot >= 0 && slot < N_EVENTS);
    be->event_ns[slot] = clock_ns();
    return ST_OK;
}

static enum status cpu_event_wait(struct backend *be, int slot, uint64_t wait_us, bool *passed)
{
    (void)be;
    (void)slot;
    (void)wait_us;
    *passed = true;
    return ST_OK;
}

static enum status cpu_event_elapsed(struct backend *be, int from, int to, uint64_t *ns)
{
    assert(from >= 0 && from < N_EVENTS && to >= 0 && to < N_EVENTS);
    *ns = be->event_ns[to] - be->event_ns[from];
    return ST_OK;
}

const struct backend_ops cpu_ops = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .prepare = cpu_prepare,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .write = cpu_write,
    .read = cpu_read,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .sync = cpu_sync,
    .host_ptr = cpu_host_ptr,
    .pinned_ptr = cpu_pinned_ptr,
    .weight_bytes = cpu_weight_bytes,
    .load_weight = cpu_load_weight,
    .linear_bytes = cpu_linear_bytes,
    .free_weight = cpu_free_weight,
    .stack_bytes = cpu_stack_bytes,
    .load_stack = cpu_load_stack,
    .pack_id = cpu_pack_id,
    .packed = cpu_packed,
    .load_packed = cpu_load_packed,
    .load_packed_stack = cpu_load_packed_stack,
    .map_packed = cpu_map_packed,
    .embed = cpu_embed,
    .linear = cpu_linear,
    .add_rms_norm = cpu_add_rms_norm,
    .qkv_to_cache = cpu_qkv_to_cache,
    .attention = cpu_attention,
    .latent_to_cache = cpu_latent_to_cache,
    .heads_linear = cpu_heads_linear,
    .delta_conv = cpu_delta_conv,
    .delta_rule = cpu_delta_rule,
    .gated_norm = cpu_gated_norm,
    .act_mul = cpu_act_mul,
    .activate = cpu_activate,
    .scale = cpu_scale,
    .soft_cap = cpu_soft_cap,
    .sigmoid_mul = cpu_sigmoid_mul,
    .add_bias = cpu_add_bias,
    .head_squares = cpu_head_squares,
    .wide_norm = cpu_wide_norm,
    .predict_streams = cpu_predict_streams,
    .correct_streams = cpu_correct_streams,
    .match_rms = cpu_match_rms,
    .known_ids = cpu_known_ids,
    .slice_stats = cpu_slice_stats,
    .cut_gates = cpu_cut_gates,
    .input_peaks = cpu_input_peaks,
    .round_input = cpu_round_input,
    .moe_route = cpu_moe_route,
    .moe_scratch = cpu_moe_scratch,
    .moe_ffn = cpu_moe_ffn,
    .moe_hidden = cpu_moe_hidden,
    .moe_down = cpu_moe_down,
    .moe_bias = cpu_moe_bias,
    .add = cpu_add,
    .gather = cpu_gather,
    .edit_logits = cpu_edit_logits,
    .mask_logits = cpu_mask_logits,
    .topk = cpu_topk,
    .sample = cpu_sample,
    .take_tokens = cpu_take_tokens,
    .layer_norm = cpu_layer_norm,
    .event_mark = cpu_event_mark,
    .event_wait = cpu_event_wait,
    .event_elapsed = cpu_event_elapsed,
};
