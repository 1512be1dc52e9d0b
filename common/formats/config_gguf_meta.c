#include "common/formats/config_gguf_meta.h"

#include <stdio.h>
#include <string.h>

struct meta_name meta_key(const struct meta *m, const char *key)
{
    struct meta_name k;
    snprintf(k.text, sizeof k.text, "%s.%s", m->row->arch.name, key);
    return k;
}

/* The getters leave *out as it is when the key is absent. */
enum status meta_i32(const struct meta *m, const char *key, int32_t lo, int32_t hi, int32_t *out)
{
    struct meta_name k = meta_key(m, key);
    int64_t v = 0;
    if (!gguf_has(m->g, k.text))
        return ST_OK;
    TRY(gguf_get_i64(m->g, k.text, &v));
    if (v < lo || v > hi)
        FAIL(ST_RANGE, "gguf: %s is %lld, not in %d .. %d", k.text, (long long)v, lo, hi);
    *out = (int32_t)v;
    return ST_OK;
}

enum status meta_double(const struct meta *m, const char *key, double lo, double hi, double *out)
{
    struct meta_name k = meta_key(m, key);
    double v = 0;
    if (!gguf_has(m->g, k.text))
        return ST_OK;
    TRY(gguf_get_f64(m->g, k.text, &v));
    if (!(v >= lo && v <= hi))
        FAIL(ST_RANGE, "gguf: %s is %g, not in %g .. %g", k.text, v, lo, hi);
    *out = v;
    return ST_OK;
}

enum status meta_need(const struct meta *m, const char *key)
{
    struct meta_name k = meta_key(m, key);
    if (!gguf_has(m->g, k.text))
        FAIL(ST_FORMAT, "gguf: %s is missing", k.text);
    return ST_OK;
}

bool meta_is(struct gguf_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}
