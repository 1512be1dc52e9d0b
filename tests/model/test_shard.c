/* Shards cover the model once, at the fixed borders, and every query head finds its key/value
 * head. */
#include <criterion/criterion.h>
#include <string.h>

#include "worker/load/shard.h"

static struct model_config model(int32_t n_q, int32_t n_kv, int32_t ffn, int32_t vocab)
{
    struct model_config mc;
    model_config_init(&mc);
    mc.n_layers = 2;
    mc.n_q = n_q;
    mc.n_kv = n_kv;
    mc.ffn = ffn;
    mc.vocab = vocab;
    return mc;
}

/* One axis: the ranks' parts join, and each slice ends at floor(i n / pieces). */
static void check_axis(int32_t n, int rank, int world, int32_t first, int32_t count,
                       const int32_t *end, int32_t n_slices, const char *what)
{
    int pieces = n_slices * world;
    cr_assert_eq(first, (int64_t)rank * n_slices * n / pieces, "%s", what);
    for (int32_t i = 0; i < n_slices; i++)
        cr_assert_eq(first + end[i], ((int64_t)rank * n_slices + i + 1) * n / pieces,
                     "%s %d of rank %d of %d, slice %d", what, n, rank, world, i);
    cr_assert_eq(end[n_slices - 1], count);
    cr_assert_gt(count, 0);
}

static void check(int32_t n_q, int32_t n_kv, int32_t ffn, int32_t vocab, int world)
{
    struct model_config mc = model(n_q, n_kv, ffn, vocab);
    int32_t q = 0, f = 0, v = 0, group = n_q / n_kv;
    for (int rank = 0; rank < world; rank++) {
        struct shard s;
        cr_assert_eq(shard_plan(&s, &mc, rank, world), ST_OK);
        bool even = world == 1 || world == 2 || world == 4 || world == 8;
        cr_assert_eq(s.n_slices, even ? 8 / world : 1);
        cr_assert_eq(s.vocab.n_slices, s.n_slices);
        cr_assert_eq(s.q_first, q);
        cr_assert_eq(s.ffn.first, f);
        cr_assert_eq(s.vocab.first_id, v);
        check_axis(n_q, rank, world, s.q_first, s.n_q, s.attn_slice_end, s.n_slices, "heads");
        check_axis(ffn, rank, world, s.ffn.first, s.ffn.n, s.ffn.slice_end, s.n_slices, "ffn");
        check_axis(vocab, rank, world, s.vocab.first_id, s.vocab.n_cols, s.vocab.slice_end,
                   s.n_slices, "vocabulary");
        cr_assert_eq(s.q_per_kv, group);
        for (int32_t h = 0; h < s.n_q; h++) {
            int32_t local = (h + s.q_offset) / s.q_per_kv;
            cr_assert(local >= 0 && local < s.n_kv);
            cr_assert_eq(s.kv_first + local, (s.q_first + h) / group, "head %d of rank %d of %d", h,
                         rank, world);
        }
        /* no key/value head that is not read */
        cr_assert_eq(s.kv_first, s.q_first / group);
        cr_assert_eq(s.kv_first + s.n_kv - 1, (s.q_first + s.n_q - 1) / group);
        q += s.n_q;
        f += s.ffn.n;
        v += s.vocab.n_cols;
    }
    cr_assert_eq(q, n_q);
    cr_assert_eq(f, ffn);
    cr_assert_eq(v, vocab);
}

Test(shard, covers_the_model)
{
    static const int32_t heads[][2] = {{8, 8},  {8, 4},  {8, 2},   {8, 1},   {14, 2}, {12, 2},
                                       {9, 3},  {10, 5}, {15, 5},  {16, 16}, {24, 8}, {28, 4},
                                       {32, 8}, {40, 8}, {40, 40}, {64, 8},  {71, 1}, {128, 8}};
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        for (int world = 1; world <= 8; world++)
            for (int32_t size = 0; size < 40; size++)
                check(heads[i][0], heads[i][1], 11 + 37 * size, 8 + 101 * size, world);
    check(128, 8, 53248, 152064, 16);
}

/* A coarser world's border is a border of every finer one. */
Test(shard, worlds_share_their_borders)
{
    struct model_config mc = model(14, 2, 4864, 151936);
    for (int world = 2; world <= 8; world *= 2) {
        for (int rank = 0; rank < world; rank++) {
            struct shard half, whole;
            cr_assert_eq(shard_plan(&half, &mc, rank, world), ST_OK);
            cr_assert_eq(shard_plan(&whole, &mc, rank / 2, world / 2), ST_OK);
            int32_t base = rank % 2 * half.n_slices; /* my slices among those of the pair */
            for (int32_t i = 0; i < half.n_slices; i++) {
                cr_assert_eq(half.q_first + half.attn_slice_end[i],
                             whole.q_first + whole.attn_slice_end[base + i]);
                cr_assert_eq(half.ffn.first + half.ffn.slice_end[i],
                             whole.ffn.first + whole.ffn.slice_end[base + i]);
            }
        }
    }
}

Test(shard, refusals)
{
    struct shard s;
    struct model_config mc = model(4, 2, 100, 100);
    cr_assert_eq(shard_plan(&s, &mc, 0, 8), ST_RANGE);
    cr_assert_not_null(strstr(status_text(), "8 ranks are too many for 4 attention heads"));
    mc = model(64, 2, 7, 100);
    cr_assert_eq(shard_plan(&s, &mc, 0, 8), ST_RANGE);
    mc = model(64, 2, 70, 7);
    cr_assert_eq(shard_plan(&s, &mc, 0, 8), ST_RANGE);
    cr_assert_eq(shard_plan(&s, &mc, 0, 0), ST_RANGE);
    cr_assert_eq(shard_plan(&s, &mc, 2, 2), ST_RANGE);
    cr_assert_eq(shard_plan(&s, &mc, -1, 2), ST_RANGE);
}

/* Each layer's feed-forward is whole over the ranks, also one whose width is no multiple of another's blocks, and cut between
 * its own blocks of 32. */
Test(shard, layers_of_several_widths)
{
    static const int32_t width[] = {8 * 256, 8 * 256 + 32};
    struct model_config mc = model(16, 8, 0, 4096);
    model_set_widths(&mc, width);
    mc.ffn_unit = 256;
    for (int world = 1; world <= 4; world++)
        for (int32_t layer = 0; layer < mc.n_layers; layer++) {
            int32_t at = 0;
            for (int rank = 0; rank < world; rank++) {
                struct shard s;
                cr_assert_eq(shard_plan(&s, &mc, rank, world), ST_OK, "%s", status_text());
                struct ffn_share own = shard_ffn(&s, &mc, layer);
                cr_assert_eq(own.first, at);
                cr_assert(own.n <= s.most_ffn && own.slice_end[s.n_slices - 1] == own.n);
                for (int32_t i = 0; i < s.n_slices; i++)
                    cr_assert_eq(own.slice_end[i] % (layer == 0 ? 256 : 32), 0);
                at += own.n;
            }
            cr_assert_eq(at, width[layer], "layer %d over %d ranks", layer, world);
        }
}

/* A feed-forward width in quantisation blocks is cut between them. */
Test(shard, blocks_stay_whole)
{
    struct model_config mc = model(16, 8, 5 * 256, 4096);
    mc.ffn_unit = 256;
    for (int world = 1; world <= 4; world *= 2) {
        int32_t at = 0;
        for (int rank = 0; rank < world; rank++) {
            struct shard s;
            int32_t end[N_SLICES];
            cr_assert_eq(shard_plan(&s, &mc, rank, world), ST_OK, "%s", status_text());
            for (int32_t i = 0; i < s.n_slices; i++) {
                cr_assert_eq(s.ffn.slice_end[i] % 256, 0);
                end[i] = s.ffn.slice_end[i] / 256;
            }
            cr_assert_eq(s.ffn.first, at);
            check_axis(5, rank, world, s.ffn.first / 256, s.ffn.n / 256, end, s.n_slices, "ffn");
            at += s.ffn.n;
        }
        cr_assert_eq(at, 5 * 256);
    }
    struct shard s;
    cr_assert_eq(shard_plan(&s, &mc, 0, 8), ST_RANGE);
    cr_assert_not_null(strstr(status_text(), "1280 in units of 256"));
}
