#include "worker/quantize/keys.h"

#include <stdio.h>
#include <string.h>

static bool begins(struct gguf_str s, const char *with)
{
    size_t n = strlen(with);
    return s.len >= n && memcmp(s.data, with, n) == 0;
}

static enum status put_form(struct gguf_writer *w, const struct keys_source *s)
{
    TRY(gguf_put_u32(w, "general.file_type", s->file_type));
    return gguf_put_u32(w, "general.quantization_version", 2);
}

enum status keys_copy(struct gguf_writer *w, const struct keys_source *s, const struct gguf *from)
{
    static const char *const dropped[] = {"split.", "general.file_type", "general.alignment",
                                          "general.quantization_version", "quantize.imatrix."};
    for (size_t i = 0; i < gguf_n_keys(from); i++) {
        enum gguf_type type;
        size_t n;
        bool drop = false;
        struct gguf_str key = gguf_key(from, i, &type);
        for (size_t k = 0; k < ARRAY_LEN(dropped); k++)
            drop |= begins(key, dropped[k]);
        const unsigned char *value = gguf_raw_value(from, i, &n);
        if (!drop)
            TRY(gguf_put_raw(w, key, type, value, n));
    }
    return put_form(w, s);
}

/* ---- from a folder ---- */

struct arch_keys {
    struct gguf_writer *w;
    const char *arch;
};

struct full_key {
    char text[96];
};

static struct full_key key_of(const struct arch_keys *a, const char *key)
{
    struct full_key k;
    snprintf(k.text, sizeof k.text, "%s.%s", a->arch, key);
    return k;
}

static enum status put_int(const struct arch_keys *a, const char *key, int32_t v)
{
    return gguf_put_u32(a->w, key_of(a, key).text, (uint32_t)v);
}

static enum status put_float(const struct arch_keys *a, const char *key, double v)
{
    return gguf_put_f32(a->w, key_of(a, key).text, (float)v);
}

static enum status put_scaling(const struct arch_keys *a, const struct rope_config *rope)
{
    const char *name = rope_type_name(rope->type);
    if (rope->type != ROPE_LINEAR && rope->type != ROPE_YARN)
        return ST_OK; /* Llama 3's rule is the tensor rope_freqs.weight */
    TRY(gguf_put_str(a->w, key_of(a, "rope.scaling.type").text, name, strlen(name)));
    TRY(put_float(a, "rope.scaling.factor", rope->factor));
    if (rope->type == ROPE_LINEAR)
        return ST_OK;
    TRY(put_int(a, "rope.scaling.original_context_length", (int32_t)rope->original_ctx));
    if (!rope->truncate)
        FAIL(ST_UNSUPPORTED, "YaRN with truncate false cannot be said in GGUF");
    TRY(put_float(a, "rope.scaling.attn_factor",
                  rope->attention_factor / rope_yarn_mscale(rope->factor, 1)));
    TRY(put_float(a, "rope.scaling.yarn_beta_fast", rope->beta_fast));
    return put_float(a, "rope.scaling.yarn_beta_slow", rope->beta_slow);
}

static enum status put_window(const struct arch_keys *a, const struct model_config *mc)
{
    if (!mc->window)
        return ST_OK;
    for (int32_t i = 0; i < mc->n_layers; i++)
        if (!mc->windowed[i] || strcmp(a->arch, "llama") != 0)
            FAIL(ST_UNSUPPORTED,
                 "an attention window in some of the layers cannot be said in GGUF");
    return put_int(a, "attention.sliding_window", mc->window);
}

static enum status put_sizes(const struct arch_keys *a, const struct model_config *mc)
{
    const struct {
        const char *key;
        int32_t value;
    } rows[] = {{"vocab_size", mc->vocab},
                {"context_length", mc->max_ctx},
                {"embedding_length", mc->hidden},
                {"block_count", mc->n_layers},
                {"feed_forward_length", mc->ffn},
                {"attention.head_count", mc->n_q},
                {"attention.head_count_kv", mc->n_kv},
                {"attention.key_length", mc->d_head},
                {"attention.value_length", mc->d_head},
                {"rope.dimension_count", mc->rope.rot_dim}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        TRY(put_int(a, rows[i].key, rows[i].value));
    TRY(put_float(a, "attention.layer_norm_rms_epsilon", mc->eps));
    return put_float(a, "rope.freq_base", mc->rope.theta);
}

/* The last part of a path, without slashes at its end. */
static struct gguf_str last_part(const char *path)
{
    size_t n = strlen(path), at;
    while (n > 1 && path[n - 1] == '/')
        n--;
    for (at = n; at > 0 && path[at - 1] != '/'; at--)
        ;
    return (struct gguf_str){path + at, n - at};
}

enum status keys_from_folder(struct gguf_writer *w, const struct keys_source *s)
{
    const struct model_config *mc = s->mc;
    const struct arch *to = gguf_arch_for(mc->arch->model_type);
    struct gguf_str name = last_part(s->path);
    if (!to)
        FAIL(ST_UNSUPPORTED, "%s cannot be written as GGUF yet", mc->arch->name);
    if (mc->act != MODEL_SILU)
        FAIL(ST_UNSUPPORTED, "GGUF's %s has SiLU, this model another activation", to->name);
    const struct arch_keys a = {w, to->name};
    TRY(gguf_put_str(w, "general.architecture", to->name, strlen(to->name)));
    TRY(gguf_put_str(w, "general.type", "model", 5));
    TRY(gguf_put_str(w, "general.name", name.data, name.len));
    TRY(put_form(w, s));
    TRY(put_sizes(&a, mc));
    TRY(put_scaling(&a, &mc->rope));
    TRY(put_window(&a, mc));
    return vocab_from_folder(w, s);
}
