/* A head of a new token, by a warp in its own shared memory: norm, RoPE, and the cache's type.  Shared
 * text: gpu.h. */
#ifndef BACKENDS_GPU_HEADS_H
#define BACKENDS_GPU_HEADS_H

/* x [d] = rms norm of x; not weighed: w is not read. */
DEVICE void norm_head(SHARED_MEM float *x, const GLOBAL float *w, bool weighed, float eps,
                      int32_t d, uint32_t lane)
{
    float sum = 0.0f;
    for (int32_t i = (int32_t)lane; i < d; i += 32)
        sum = fmaf(x[i], x[i], sum);
    const float r = 1.0f / sqrtf(warp_sum(sum) / (float)d + eps);
    for (int32_t i = (int32_t)lane; i < d; i += 32)
        x[i] = weighed ? x[i] * r * w[i] : x[i] * r;
    sync_warp(); /* rotation reads other lanes' elements */
}

/* cosines and sines [rot_dim / 2]: those of the token's position */
DEVICE void rotate_head(SHARED_MEM float *x, const GLOBAL float *cosines, const GLOBAL float *sines,
                        int32_t rot_dim, bool interleaved, uint32_t lane)
{
    const int32_t n = rot_dim / 2, step = interleaved ? 2 : 1, apart = interleaved ? 1 : n;
    for (int32_t i = (int32_t)lane; i < n; i += 32) {
        const float p = x[i * step], s = x[i * step + apart], co = cosines[i], si = sines[i];
        x[i * step] = fmaf(p, co, -(s * si));
        x[i * step + apart] = fmaf(p, si, s * co);
    }
    sync_warp(); /* stores read other lanes' elements */
}

/* Nearest integer, ties to even, cut to [-127, 127]; its low byte. */
DEVICE uint8_t i8_nearest(float x)
{
    const float magic = 0x1.8p23f;
    x = x > 127.0f ? 127.0f : x;
    x = x < -127.0f ? -127.0f : x;
    return (uint8_t)(bits_of_f32(x + magic) & 0xffU);
}

/* x [d] to head `head` of a cache of that type; an 8-bit entry gets the scale |x|max / the type's greatest
 * value, or NaN where x is not finite. */
DEVICE void store_head(const SHARED_MEM float *x, GLOBAL uint8_t *cache, GLOBAL float *scale,
                       int64_t head, enum dtype type, int32_t d, uint32_t lane)
{
    const int64_t at = head * d;
    float inv = 0.0f;
    if (type == DT_I8 || type == DT_E4M3) {
        const float top = type == DT_I8 ? 127.0f : 448.0f;
        float most = 0.0f;
        for (int32_t i = (int32_t)lane; i < d; i += 32) {
            const float v = x[i] < 0.0f ? -x[i] : x[i];
            most = v < INFINITY ? (v > most ? v : most) : INFINITY;
        }
        most = warp_max(most);
        const bool tiny = most < 0x1p-100f;
        inv = tiny ? 0.0f : top / most;
        if (lane == 0)
            scale[head] = most == INFINITY ? NAN : tiny ? 0.0f : most / top;
    }
    for (int32_t i = (int32_t)lane; i < d; i += 32)
        if (type == DT_F16)
            ((GLOBAL uint16_t *)cache)[at + i] = kv_f16_of_f32(x[i]);
        else if (type == DT_BF16)
            ((GLOBAL uint16_t *)cache)[at + i] = kv_bf16_of_f32(x[i]);
        else if (type == DT_I8)
            cache[at + i] = i8_nearest(x[i] * inv);
        else if (type == DT_E4M3)
            cache[at + i] = e4m3_of_f32(x[i] * inv);
        else
            ((GLOBAL float *)cache)[at + i] = kv_f32(x[i]);
}

#endif
