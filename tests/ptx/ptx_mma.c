/* mma.sync.m16n8k16 of bf16 or f16 with f32 sums (manual, 9.7.15.5.8, "Matrix Fragments for
 * mma.m16n8k16 with floating point type"), and of s8 with s32 sums (9.7.15.5.9 and .10, "mma.m16n8k16
 * with integer type", "mma.m16n8k32"). */
#include <math.h>
#include <string.h>

#include "ptx/ptx_block.h"
#include "ptx/ptx_float.h"

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

enum { M = 16, N = 8, K = 16, TERMS = K + 1, LIMBS = 10, LIMB_ORIGIN = 300, FAR = 1 << 20 };

/* An element; v = integer * 2^low with an integer below 2^(high + 1 - low).  Zero: low FAR, high -FAR. */
struct element {
    double v;
    int low, high;
};

/* v: of a float, so normal as a double unless it is zero. */
static struct element element_of(double v)
{
    struct element e = {.v = v, .low = FAR, .high = -FAR};
    uint64_t bits, mantissa;
    memcpy(&bits, &v, sizeof bits);
    mantissa = bits & ((1ULL << 52) - 1);
    if (v == 0 || !isfinite(v))
        return e;
    e.high = (int)(bits >> 52 & 0x7ff) - 1023;
    e.low = mantissa ? e.high - 52 + __builtin_ctzll(mantissa) : e.high;
    return e;
}

/* magnitude * 2^exponent to f32, to nearest even or towards zero. */
static float round_f32(bool negative, u128 magnitude, int exponent, bool truncate)
{
    int top = 127;
    if (magnitude == 0)
        return 0.0f;
    while (!(magnitude >> top & 1))
        top--;
    int drop = top - 23 > -149 - exponent ? top - 23 : -149 - exponent;
    if (drop > 127)
        return negative ? -0.0f : 0.0f;
    if (drop > 0) {
        u128 rest = magnitude & (((u128)1 << drop) - 1);
        u128 half = (u128)1 << (drop - 1);
        magnitude >>= drop;
        exponent += drop;
        if (!truncate && (rest > half || (rest == half && (magnitude & 1))))
            magnitude++;
    }
    double v = ldexp((double)magnitude, exponent);
    return (float)(negative ? -v : v);
}

/* limbs += v * 2^(e + LIMB_ORIGIN), in two's complement. */
static void add_limbs(uint64_t limbs[LIMBS], double v)
{
    int exponent;
    double f = frexp(v, &exponent);
    i128 part = (i128)(int64_t)ldexp(f, 53);
    int at = exponent - 53 + LIMB_ORIGIN, limb = at / 64;
    part *= (i128)1 << (at % 64); /* 54 + 63 bits */
    uint64_t fill = part < 0 ? UINT64_MAX : 0;
    u128 carry = 0;
    for (int i = limb; i < LIMBS; i++) {
        uint64_t add = i == limb       ? (uint64_t)part
                       : i == limb + 1 ? (uint64_t)((u128)part >> 64)
                                       : fill;
        carry += (u128)limbs[i] + add;
        limbs[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

/* The exact sum of terms whose bits are far apart. */
static float sum_limbs(const double *term, int n)
{
    uint64_t limbs[LIMBS] = {0};
    for (int i = 0; i < n; i++)
        if (term[i] != 0)
            add_limbs(limbs, term[i]);
    bool negative = limbs[LIMBS - 1] >> 63;
    uint64_t carry = negative;
    for (int i = 0; negative && i < LIMBS; i++) {
        limbs[i] = ~limbs[i] + carry;
        carry = carry && limbs[i] == 0;
    }
    int top = LIMBS - 1;
    while (top > 1 && limbs[top] == 0)
        top--;
    u128 m = (u128)limbs[top] << 64 | limbs[top - 1];
    for (int i = 0; i < top - 1; i++)
        m |= limbs[i] != 0; /* below any bit that rounding keeps: m has 65 bits at least */
    return round_f32(negative, m, 64 * (top - 1) - LIMB_ORIGIN, false);
}

/* low: of the lowest bit of all terms; high: of the highest one. */
static float sum_exact(const double *term, int n, int low, int high)
{
    if (high - low + 6 > 53 && low < FAR)
        return sum_limbs(term, n);
    double sum = 0; /* no partial sum needs more bits than a double has */
    for (int i = 0; i < n; i++)
        sum += term[i];
    return (float)sum;
}

/* Terms aligned to the highest bit of all; what is more than 26 bits below is cut. */
static float sum_truncated(const double *term, int n, int high)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += (int64_t)ldexp(term[i], 26 - high);
    return round_f32(sum < 0, (u128)(sum < 0 ? -sum : sum), high - 26, true);
}

/* c + a[0] b[0] + ... over n of k, as the order says. */
static float dot(const struct element *a, const struct element *b, int n, float c,
                 enum ptx_mma_order order)
{
    double term[TERMS];
    struct element e = element_of((double)c);
    int low = e.low, high = e.high;
    bool finite = isfinite(c);
    term[n] = (double)c;
    for (int k = 0; k < n; k++) {
        term[k] = a[k].v * b[k].v; /* 22 bits at most */
        finite = finite && isfinite(a[k].v) && isfinite(b[k].v);
        int l = a[k].low + b[k].low, h = a[k].high + b[k].high + 1;
        low = l < low ? l : low;
        high = h > high ? h : high;
    }
    if (!finite || high <= -FAR / 2) {
        double sum = 0;
        for (int k = n; k >= 0; k--)
            sum = k == n ? term[k] : sum + term[k];
        return (float)sum;
    }
    return order == PTX_MMA_TRUNCATE ? sum_truncated(term, n + 1, high)
                                     : sum_exact(term, n + 1, low, high);
}

/* A row of A, or a column of B. */
struct line {
    struct element of[K];
    int low, high; /* the least and the greatest of its elements' */
    bool finite, bad;
};

struct tiles {
    struct line a[M], b[N];
    float c[M][N];
    bool bad_c[M][N];
};

static void put(struct line *l, int k, uint64_t reg, int upper, bool bf16, bool bad)
{
    struct element e = element_of((double)ptx_f32_of_f16((uint16_t)(reg >> (16 * upper)), bf16));
    l->of[k] = e;
    l->low = e.low < l->low ? e.low : l->low;
    l->high = e.high > l->high ? e.high : l->high;
    l->finite = l->finite && isfinite(e.v);
    l->bad = l->bad || bad;
}

static void gather(const struct ptx_warp *w, const struct ptx_instr *in, struct tiles *t)
{
    static const struct line empty = {.low = FAR, .high = -FAR, .finite = true};
    bool bf16 = in->type[1] == PTX_BF16;
    const int32_t *a = in->operand[1].reg, *b = in->operand[2].reg, *c = in->operand[3].reg;
    for (int i = 0; i < M; i++)
        t->a[i] = empty;
    for (int i = 0; i < N; i++)
        t->b[i] = empty;
    for (int lane = 0; lane < PTX_LANES; lane++) {
        int group = lane / 4, in_group = lane % 4;
        for (int i = 0; i < 8; i++) {
            int row = group + (i / 2 % 2 ? 8 : 0), k = 2 * in_group + i % 2 + (i >= 4 ? 8 : 0);
            put(&t->a[row], k, ptx_lanes(w, a[i / 2])[lane], i % 2, bf16,
                ptx_poison(w, a[i / 2]) >> lane & 1);
        }
        for (int i = 0; i < 4; i++) {
            int k = 2 * in_group + i % 2 + (i >= 2 ? 8 : 0);
            put(&t->b[group], k, ptx_lanes(w, b[i / 2])[lane], i % 2, bf16,
                ptx_poison(w, b[i / 2]) >> lane & 1);
        }
        for (int i = 0; i < 4; i++) {
            int row = group + (i >= 2 ? 8 : 0), col = 2 * in_group + i % 2;
            t->c[row][col] = ptx_f32(ptx_lanes(w, c[i])[lane]);
            t->bad_c[row][col] = ptx_poison(w, c[i]) >> lane & 1;
        }
    }
}

/* The exact sum if the bits of the lines tell that a double has room for those of any sum of their products and c. */
static bool sum_plain(const struct line *a, const struct line *b, float c, float *out)
{
    struct element e = element_of((double)c);
    int low = a->low + b->low, high = a->high + b->high + 1;
    low = e.low < low ? e.low : low;
    high = e.high > high ? e.high : high;
    if (!a->finite || !b->finite || !isfinite(c) || high - low + 6 > 53)
        return false;
    double sum = (double)c, other = 0;
    for (int k = 0; k < K; k += 2) {
        sum += a->of[k].v * b->of[k].v;
        other += a->of[k + 1].v * b->of[k + 1].v;
    }
    *out = (float)(sum + other);
    return sum + other != 0 || !signbit(c); /* dot knows the sign of a zero */
}

static float dot_lines(const struct line *a, const struct line *b, float c,
                       enum ptx_mma_order order)
{
    float sum;
    if (order == PTX_MMA_EXACT && sum_plain(a, b, c, &sum))
        return sum;
    if (order != PTX_MMA_HALVES)
        return dot(a->of, b->of, K, c, order);
    sum = dot(a->of, b->of, K / 2, c, PTX_MMA_EXACT);
    return dot(a->of + K / 2, b->of + K / 2, K / 2, sum, PTX_MMA_EXACT);
}

void ptx_mma(struct ptx_warp *w, const struct ptx_instr *in)
{
    enum ptx_mma_order order = ptx_machine_config(w->block->machine)->mma;
    struct tiles t;
    gather(w, in, &t);
    for (int row = 0; row < M; row++) {
        for (int col = 0; col < N; col++) {
            int lane = row % 8 * 4 + col / 2, reg = in->operand[0].reg[row / 8 * 2 + col % 2];
            float c = dot_lines(&t.a[row], &t.b[col], t.c[row][col], order);
            bool bad = t.a[row].bad || t.b[col].bad || t.bad_c[row][col];
            w->reg[reg][lane] = ptx_f32_bits(c);
            ptx_set_poison(w, reg, 1U << lane, bad ? 1U << lane : 0);
        }
    }
}

/* Bytes of A and B: register r holds four of them from k 4 (lane % 4) on; A's registers take turns
 * between row lane / 4 and the row 8 further down, B's and A's pairs advance by 16 in k. */
void ptx_mma_int(struct ptx_warp *w, const struct ptx_instr *in)
{
    enum { MOST_K = 32 };
    const struct ptx_operand *a = &in->operand[1], *b = &in->operand[2], *c = &in->operand[3];
    int8_t av[M][MOST_K] = {{0}}, bv[N][MOST_K] = {{0}};
    bool bad_a[M] = {false}, bad_b[N] = {false};
    for (int lane = 0; lane < PTX_LANES; lane++) {
        int group = lane / 4, k = lane % 4 * 4;
        for (int r = 0; r < a->n; r++) {
            for (int i = 0; i < 4; i++)
                av[group + r % 2 * 8][k + r / 2 * 16 + i] =
                    (int8_t)(ptx_lanes(w, a->reg[r])[lane] >> (8 * i));
            bad_a[group + r % 2 * 8] |= ptx_poison(w, a->reg[r]) >> lane & 1;
        }
        for (int r = 0; r < b->n; r++) {
            for (int i = 0; i < 4; i++)
                bv[group][k + r * 16 + i] = (int8_t)(ptx_lanes(w, b->reg[r])[lane] >> (8 * i));
            bad_b[group] |= ptx_poison(w, b->reg[r]) >> lane & 1;
        }
    }
    uint32_t sum[PTX_LANES][4], bad[4] = {0};
    for (int lane = 0; lane < PTX_LANES; lane++)
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
            bool poison = bad_a[row] || bad_b[col] || (ptx_poison(w, c->reg[i]) >> lane & 1);
            sum[lane][i] = (uint32_t)ptx_lanes(w, c->reg[i])[lane];
            for (int j = 0; j < 8 * a->n; j++)
                sum[lane][i] += (uint32_t)(av[row][j] * bv[col][j]);
            bad[i] |= (uint32_t)poison << lane;
        }
    for (int i = 0; i < 4; i++) {
        int32_t reg = in->operand[0].reg[i];
        for (int lane = 0; lane < PTX_LANES; lane++)
            w->reg[reg][lane] = (uint64_t)(int64_t)(int32_t)sum[lane][i];
        ptx_set_poison(w, reg, UINT32_MAX, bad[i]);
    }
}
