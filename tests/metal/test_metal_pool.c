/* Memory of a plan on the tests' double of Metal: few buffers, every allocation in its part, a whole rank's to the byte. */
#include "effort.h"
#include "metal_case.h"
#include "metal_rank.h"

enum { MIB = 1 << 20 };

static struct backend *open_planned(void)
{
    struct backend *be = NULL;
    MUST(backend_open(&be, "metal", &(struct backend_config){.planned = true}));
    return be;
}

static struct mem_plan plan_of(size_t kv, size_t weights)
{
    return (struct mem_plan){.part = {[PART_OWN] = SCRATCH_BYTES + metal_edge_bytes(),
                                      [PART_KV] = kv,
                                      [PART_WEIGHTS] = weights}};
}

static void refused(enum status got, enum status st, const char *word)
{
    cr_assert_eq(got, st, "%s", status_detail());
    says(word);
}

/* n bytes of `value`, written and read. */
static void fill(struct backend *be, struct buf *b, size_t n, int value)
{
    char *bytes = malloc(n);
    memset(bytes, value, n);
    MUST(metal_write(be, f32_view(b, 0, 1, (int32_t)(n / 4), (int32_t)(n / 4)), bytes));
    free(bytes);
}

static void has(struct backend *be, struct buf *b, size_t n, int value)
{
    char *bytes = malloc(n);
    MUST(metal_read(be, bytes, f32_view(b, 0, 1, (int32_t)(n / 4), (int32_t)(n / 4))));
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(bytes[i], (char)value, "byte %zu", i);
    free(bytes);
}

Test(metal_pool, what_cannot_be_reserved)
{
    struct buf *b = NULL;
    struct mem_plan plan = plan_of(4096, 1024), none = {0};
    struct backend *be = open_metal();
    refused(metal_pool_reserve(be, &plan), ST_BUG, "opened for it");
    close_metal(be);
    metal_double_limits(17 * MIB, 20 * MIB);
    be = open_planned();
    cr_assert_eq(metal_double_buffers(), 0, "opening takes memory");
    refused(metal_alloc(be, 8, MEM_DEVICE, &b), ST_BUG,
            "0 bytes for the backend itself, of which 0 are taken: not 16777216 more");
    refused(metal_pool_reserve(be, &none), ST_BUG, "0 bytes for the backend, which wants ");
    plan.part[PART_KV] = 4 * MIB;
    refused(metal_pool_reserve(be, &plan), ST_NOMEM, "20971520 of its 20971520 bytes free");
    plan.part[PART_KV] = SIZE_MAX;
    refused(metal_pool_reserve(be, &plan), ST_NOMEM, "free");
    plan = plan_of(4096, 1024);
    MUST(metal_pool_reserve(be, &plan));
    refused(metal_pool_reserve(be, &plan), ST_BUG, "once");
    cr_assert_eq(metal_double_buffers(), 0, "reserving takes memory");
    close_metal(be);
}

/* Where one buffer has room for the plan there is one. */
Test(metal_pool, a_part_is_given_out_to_its_end)
{
    struct buf *a, *b, *c = NULL, *pinned;
    struct mem_plan plan = plan_of(1024 + 256, 512), used;
    struct backend *be = open_planned();
    MUST(metal_pool_reserve(be, &plan));
    metal_pool_part(be, PART_KV);
    MUST(metal_alloc(be, 1000, MEM_DEVICE, &a));
    MUST(metal_alloc(be, 256, MEM_DEVICE, &b));
    refused(metal_alloc(be, 1, MEM_DEVICE, &c), ST_BUG,
            "1280 bytes for the KV cache, of which 1280 are taken: not 1 more");
    metal_free(be, b);
    MUST(metal_alloc(be, 200, MEM_DEVICE, &b)); /* what was last comes back */
    metal_pool_part(be, PART_SCRATCH);
    refused(metal_alloc(be, 1, MEM_DEVICE, &c), ST_BUG, "0 bytes for scratch");
    metal_pool_part(be, PART_WEIGHTS);
    refused(metal_alloc(be, SIZE_MAX - 5, MEM_DEVICE, &c), ST_BUG, "weights");
    cr_assert_eq(metal_double_buffers(), 1);
    MUST(metal_alloc(be, 500, MEM_PINNED, &pinned)); /* a buffer of its own, in its part */
    cr_assert_eq(metal_double_buffers(), 2);
    cr_assert_neq(pinned->buffer, a->buffer);
    refused(metal_alloc(be, 1, MEM_PINNED, &c), ST_BUG, "512 bytes for weights");
    cr_assert_null(c);
    metal_pool_used(be, &used);
    cr_assert_eq(used.part[PART_OWN], SCRATCH_BYTES + metal_edge_bytes());
    cr_assert_eq(used.part[PART_KV], 1280);
    cr_assert_eq(used.part[PART_WEIGHTS], 512);
    metal_free(be, pinned);
    metal_pool_used(be, &used);
    cr_assert_eq(used.part[PART_WEIGHTS], 0);
    metal_free(be, b);
    metal_free(be, a);
    close_metal(be);
}

/* Buffers of at most 17 MiB: pieces go where there is room, and keep to themselves. */
Test(metal_pool, pieces_of_several_buffers)
{
    struct buf *p[4], *c = NULL;
    static const size_t bytes[4] = {2 * MIB, MIB / 2, 3 * MIB, MIB / 4};
    struct mem_plan plan = plan_of(24 * MIB, 0);
    metal_double_limits(17 * MIB, 64 * MIB);
    metal_double_check_writes(true);
    struct backend *be = open_planned();
    MUST(metal_pool_reserve(be, &plan));
    metal_pool_part(be, PART_KV);
    for (int i = 0; i < 4; i++) {
        MUST(metal_alloc(be, bytes[i], MEM_DEVICE, &p[i]));
        has(be, p[i], bytes[i], 0);
        fill(be, p[i], bytes[i], i + 1);
    }
    cr_assert_eq(metal_double_buffers(), 2);
    cr_assert_eq(p[1]->buffer,
                 be->scratch->buffer); /* behind the scratch is room for the small ones */
    cr_assert_eq(p[3]->buffer, be->scratch->buffer);
    cr_assert_eq(p[0]->buffer, p[2]->buffer);
    cr_assert_neq(p[0]->buffer, p[1]->buffer);
    for (int i = 0; i < 4; i++)
        has(be, p[i], bytes[i], i + 1);
    refused(metal_alloc(be, 18 * MIB, MEM_DEVICE, &c), ST_NOMEM, "the largest it has is 17825792");
    /* given back while commands use it and its neighbour, and taken again */
    MUST(metal_copy(be, f32_view(p[0], 0, 1, 1024, 1024), f32_view(p[2], 0, 1, 1024, 1024)));
    MUST(metal_commit(be));
    metal_free(be, p[2]);
    MUST(metal_alloc(be, 3 * MIB, MEM_DEVICE, &p[2]));
    has(be, p[2], bytes[2], 0);
    has(be, p[0], 4096, 3);
    /* kernels have a piece's own offset */
    MUST(metal_zero(be, f32_view(p[1], 0, 1, MIB / 8, MIB / 8)));
    has(be, p[1], bytes[1], 0);
    has(be, p[3], bytes[3], 4);
    for (int i = 0; i < 4; i++)
        metal_free(be, p[i]);
    close_metal(be);
}

/* ---- a rank ---- */

/* The tokens of a model whose memory is in so many buffers, none of which is made in a step. */
static int run_rank(const char *model, size_t max_buffer,
                    struct result_token got[RIG_NEW][RIG_SEQS])
{
    struct rank_rig r;
    metal_double_limits(max_buffer, (size_t)1 << 30);
    metal_rank_plan(&r, model);
    cr_assert_eq(metal_double_buffers(), 0, "planning takes memory");
    MUST(rank_rig_load(&r));
    metal_rank_check(&r);
    metal_double_seal(true);
    MUST(rank_rig_generate(&r, false, false, got));
    metal_double_seal(false);
    metal_rank_check(&r);
    int n = r.be->n_blocks;
    rank_rig_close(&r);
    cr_assert_eq(metal_double_live(), 0);
    return n;
}

Test(metal_pool, the_plan_is_what_a_rank_takes)
{
    static const char *const models[] = {"llama-gqa", "qwen3moe", "qwen3next"};
    static struct result_token whole[RIG_NEW][RIG_SEQS], pieces[RIG_NEW][RIG_SEQS];
    for (size_t i = 0; i < ARRAY_LEN(models); i++) {
        cr_assert_eq(run_rank(models[i], 512 * MIB, whole), 1, "%s", models[i]);
        if (i > 0 && !everything())
            continue;
        cr_assert_gt(run_rank(models[i], 16 * MIB, pieces), 1, "%s", models[i]);
        MUST(rank_rig_same(pieces, whole));
    }
}

/* Of the bytes that the system recommends: a part for the KV cache, and a refusal with all figures. */
Test(metal_pool, the_plan_fits_the_working_set)
{
    static const char *const words[] = {
        "wanted are",         "weights",     "KV cache of 24 blocks", "--kv-memory",
        "free for this rank", "emulated GPU"};
    struct rank_rig r;
    uint64_t all, few;
    metal_double_limits(64 * MIB, (size_t)1 << 30);
    metal_rank_plan(&r, "llama-gqa");
    metal_double_limits(64 * MIB, r.plan.total - 1);
    cr_assert_eq(rank_plan_reserve(&r.plan), ST_NOMEM);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        says(words[i]);
    r.opt.shared.kv_blocks = 0;
    MUST(rank_plan_blocks(&r.plan, &all));
    cr_assert_gt(all, 4);
    r.plan.free = r.plan.total - r.plan.memory.kv + 4 * r.plan.memory.kv_per_block;
    MUST(rank_plan_blocks(&r.plan, &few));
    cr_assert(few >= 1 && few < 4, "%d blocks", (int)few);
    r.plan.free = r.plan.total - r.plan.memory.kv;
    cr_assert_eq(rank_plan_blocks(&r.plan, &few), ST_NOMEM);
    rank_rig_close(&r);
    cr_assert_eq(metal_double_live(), 0);
}
