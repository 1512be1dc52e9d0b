/* How kernels write operands (operand.h). */
#ifndef BACKENDS_CUDA_OPERAND_DEVICE_H
#define BACKENDS_CUDA_OPERAND_DEVICE_H

#include "backends/cuda/linear_mma.h"
#include "backends/cuda/operand.h"

/* Place of stored element e of a token, in elements. */
DEVICE size_t operand_at(const struct operand &o, int64_t token, int32_t e)
{
    if (!o.fragments)
        return (size_t)token * (size_t)o.row + (size_t)e;
    const int g = (int)(token % 8), hi = (int)(token / 8 % 2), t = e / 8 % 4, pair = e / 2 % 4;
    const int64_t chunk = token / FRAGMENT_TOKENS * (o.row / K_CHUNK) + e / K_CHUNK;
    return (size_t)chunk * (FRAGMENT_BYTES / 2) + (size_t)(pair / 2 * (FRAGMENT_BYTES / 4)) +
           (size_t)((g * 4 + t) * 8 + pair % 2 * 4 + hi * 2 + e % 2);
}

/* From there to element e + 8 n of the same token, in elements. */
DEVICE int32_t operand_further(const struct operand &o, int32_t e, int n)
{
    const int t = e / 8 % 4, chunk = o.fragments ? FRAGMENT_BYTES / 2 : K_CHUNK;
    return (t + n) / 4 * chunk + (t + n) % 4 * 8 - t * 8;
}

/* One element, of a bf16 operand. */
DEVICE void put_bf16(const struct operand &o, int64_t token, int32_t e, float v)
{
    o.packed[operand_at(o, token, e)] = (uint16_t)pack_bf16(v, 0.0f);
}

/* Stored elements e .. e + 7, e a multiple of 8: 16 bytes of a row, or a word for each pair of a fragment. */
DEVICE void put_x8(const struct operand &o, int64_t token, int32_t e, uint4 v)
{
    if (!o.fragments) {
        st_128(o.packed + operand_at(o, token, e), v);
        return;
    }
    uint32_t *to = (uint32_t *)(void *)(o.packed + operand_at(o, token, e));
    to[0] = v.x;
    to[2] = v.y;
    to[FRAGMENT_BYTES / 8] = v.z;
    to[FRAGMENT_BYTES / 8 + 2] = v.w;
}

/* A warp's segment i of a token: v are the lane's columns 8 lane .. 8 lane + 7, zeros beyond the last. */
template <class E>
DEVICE void put_segment(const struct operand &o, const struct k_layout &k, const struct segment &s,
                        int32_t i, int64_t token, const float (&v)[8])
{
    const int off = lane_id() * 8;
    float scale = 1.0f;
    if (E::scaled) {
        scale = f16_scale(warp_max(max_finite(v, 0.0f)));
        if (lane_id() == 0)
            o.unscale[token * k.seg[k.n_slices] + i] = inverse_pow2(scale);
    }
    const int32_t end = stored_elements(k, i); /* up to K_CHUNK more than a segment has */
    if (off < end)
        put_x8(o, token, s.at + off, pack_x8<E>(v, scale));
    if (off + K_SEGMENT < end)
        put_x8(o, token, s.at + off + K_SEGMENT, uint4{0, 0, 0, 0});
}

#endif
