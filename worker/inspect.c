#include "worker/inspect.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/generation.h"
#include "worker/load/scheme.h"
#include "worker/rank_plan.h"

struct one_rank {
    struct shard shard;
    struct rank_plan plan;
};

struct report {
    const char *path;
    struct loader *ld;
    const struct model_config *mc;
    struct generation_defaults generation;
    int world;
    struct host_taken base; /* of this process, without MPI */
    struct one_rank *rank;  /* [world] */
    bool fits;
    uint64_t n_weights; /* of all tensors */
    size_t n_bytes;     /* of all tensors */
    char scheme[SCHEME_SIZE];
};

static const char *act_name(enum model_act act)
{
    static const char *const names[] = {[MODEL_SILU] = "silu",
                                        [MODEL_GELU] = "gelu",
                                        [MODEL_GELU_TANH] = "gelu_tanh",
                                        [MODEL_RELU] = "relu"};
    return names[act];
}

/* Layers of a list. */
static int32_t n_of(const struct model_config *mc, const bool *list)
{
    int32_t n = 0;
    for (int32_t i = 0; i < mc->n_layers; i++)
        n += list[i];
    return n;
}

/* Bits of a weight, on average, in files and in the memory of all ranks. */
static double bits_in_files(const struct report *r)
{
    return 8.0 * (double)r->n_bytes / (double)r->n_weights;
}

static double bits_in_memory(const struct report *r)
{
    size_t bytes = 0;
    for (int i = 0; i < r->world; i++)
        bytes += r->rank[i].plan.memory.weights;
    return 8.0 * (double)bytes / (double)r->n_weights;
}

/* ---- text ---- */

/* The sampling of requests that do not set it. */
static void text_sampling(FILE *f, const struct generation_defaults *d)
{
    const struct {
        const char *name;
        bool has;
        double value;
    } rows[] = {{"temperature", d->has_temperature, (double)d->temperature},
                {"top_p", d->has_top_p, (double)d->top_p},
                {"top_k", d->has_top_k, d->top_k},
                {"min_p", d->has_min_p, (double)d->min_p},
                {"repetition_penalty", d->has_repetition_penalty, (double)d->repetition_penalty},
                {"max_new_tokens", d->max_new > 0, d->max_new}};
    int n = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].has)
            fprintf(f, "%s %s %g", n++ ? "," : "sampling      ", rows[i].name, rows[i].value);
    if (n)
        fprintf(f, " (generation_config.json)\n");
}

/* What the checkpoint asks of the inputs of quantised matrices. */
static void text_inputs(FILE *f, const struct report *r)
{
    const struct input_scheme *s = loader_inputs(r->ld);
    if (s->refused[0])
        fprintf(f, "               --activations checkpoint is not supported: %s\n", s->refused);
    else
        fprintf(f, "               the checkpoint asks for activations in %s: %s\n", s->asked,
                r->mc->exact_inputs ? "so they are" : "--activations checkpoint rounds them so");
}

/* Layers with states. */
static void print_states(FILE *f, const struct model_config *mc)
{
    if (mc->arch->mamba)
        fprintf(
            f,
            "               in %d of %d layers; Mamba-2 in %d: %d heads of %d, %d groups of %d, "
            "convolution of %d tokens;\n",
            model_n_attention(mc), mc->n_layers, model_n_delta(mc), mc->n_delta_v, mc->d_delta_v,
            mc->n_delta_k, mc->d_delta_k, mc->delta_taps);
    else
        fprintf(f,
                "               in %d of %d layers, with gates; the others are gated delta nets: "
                "%d key heads of %d, %d\n               value heads of %d, convolution of %d "
                "tokens;\n",
                model_n_attention(mc), mc->n_layers, mc->n_delta_k, mc->d_delta_k, mc->n_delta_v,
                mc->d_delta_v, mc->delta_taps);
    fprintf(f,
            "               their states are those of all tokens: a prompt takes blocks from the "
            "prefix cache up to one\n               behind which they were kept "
            "(--state-snapshots)\n");
}

static int32_t least_width(const struct model_config *mc)
{
    int32_t least = mc->ffn;
    for (int32_t i = 0; i < mc->n_layers; i++) {
        int32_t n = model_layer_axis(mc, AX_FFN, i);
        least = n < least ? n : least;
    }
    return least;
}

enum { WIDTHS_SIZE = 32 };

/* "8192", or "8192 to 16384" where the layers' widths differ.  Returns out. */
static const char *widths_text(const struct model_config *mc, char out[WIDTHS_SIZE])
{
    int32_t least = least_width(mc);
    if (least == mc->ffn)
        snprintf(out, WIDTHS_SIZE, "%d", mc->ffn);
    else
        snprintf(out, WIDTHS_SIZE, "%d to %d", least, mc->ffn);
    return out;
}

static void text_config(FILE *f, const struct report *r)
{
    const struct model_config *mc = r->mc;
    char widths[WIDTHS_SIZE];
    const struct rope_config *rope = &mc->rope;
    fprintf(f, "model          %s (%s)\n", r->path, loader_format(r->ld));
    fprintf(f, "architecture   %s, %d layers, digest %016llx\n", mc->arch->name, mc->n_layers,
            (unsigned long long)loader_digest(r->ld));
    fprintf(f, "weights        %llu in %zu tensors, %zu bytes\n", (unsigned long long)r->n_weights,
            loader_count(r->ld), r->n_bytes);
    if (r->scheme[0])
        fprintf(f,
                "quantisation   %s\n               %.2f bits a weight in files, %.2f in memory\n",
                r->scheme, bits_in_files(r), bits_in_memory(r));
    if (r->scheme[0])
        text_inputs(f, r);
    if (mc->arch->encoder)
        fprintf(f,
                "encoder        every token sees its whole text, of at most %d tokens; %d types\n",
                mc->max_ctx - 1, mc->n_types);
    if (r->rank[0].plan.modules.present)
        fprintf(f, "gives          %s%s of %d component%s\n", mc->headless ? "" : "answers, and ",
                r->rank[0].plan.modules.scores ? "scores (rerank)" : "embeddings",
                r->rank[0].plan.modules.dim, r->rank[0].plan.modules.dim == 1 ? "" : "s");
    fprintf(f, "sizes          hidden %d, feed-forward %s (%s), vocabulary %d, head %s\n",
            mc->hidden, widths_text(mc, widths), act_name(mc->act), mc->vocab,
            mc->headless ? "none"
            : mc->tied   ? "tied"
                         : "of its own");
    if (mc->n_experts)
        fprintf(f, "experts        %d of %d columns in %d of %d layers, %d for a token%s\n",
                mc->n_experts, mc->expert_ffn, model_n_sparse(mc), mc->n_layers, mc->top_k,
                mc->renormalise ? ", weights renormalised" : "");
    if (mc->shared_ffn)
        fprintf(f, "               one of %d columns for every token\n", mc->shared_ffn);
    fprintf(f, "attention      %d heads of %d, %d key/value heads%s%s%s\n", mc->n_q, mc->d_head,
            mc->n_kv, mc->qk_norm ? ", norm of q and k" : "",
            mc->qkv_bias ? ", biases on q, k, v" : "", mc->o_bias ? " and o" : "");
    if (mc->global_d_head)
        fprintf(
            f,
            "               in %d layers without a window %d heads of %d, %d key/value heads%s\n",
            mc->n_layers - n_of(mc, mc->windowed), mc->n_q, mc->global_d_head, mc->global_n_kv,
            mc->k_eq_v ? ", values of the keys" : "");
    if (mc->n_kv_shared)
        fprintf(f, "               the last %d layers read keys and values of others\n",
                mc->n_kv_shared);
    if (mc->d_input)
        fprintf(f, "inputs         %d in each layer, from a table and the embedding\n",
                mc->d_input);
    if (mc->n_streams)
        fprintf(f,
                "streams        %d residual streams (AltUp), of which layers compute number %d; "
                "LAuReL of rank %d\n",
                mc->n_streams, mc->active_stream, mc->laurel_rank);
    if (model_n_cut(mc))
        fprintf(f, "               gates are cut by the statistics of their row in %d layers\n",
                model_n_cut(mc));
    if (mc->kv_rank)
        fprintf(f,
                "               latent: one row of %d + %d elements a token for all heads; queries "
                "of %d + %d%s, values of %d\n",
                mc->kv_rank, mc->d_rope, mc->d_nope, mc->d_rope,
                mc->q_rank ? " from a latent of their own" : "", mc->d_value);
    if (mc->n_delta_v)
        print_states(f, mc);
    if (mc->mlp_bias)
        fprintf(f, "               biases in the feed-forward\n");
    if (mc->embed_scale != 1 || mc->residual_scale != 1 || mc->logit_scale != 1)
        fprintf(f, "factors        embedding %g, residual stream %g, logits %g\n", mc->embed_scale,
                mc->residual_scale, mc->logit_scale);
    if (mc->attn_cap > 0 || mc->logit_cap > 0)
        fprintf(f, "soft-caps      scores %g, logits %g (0: none)\n", mc->attn_cap, mc->logit_cap);
    fprintf(f, "context        %d positions; ", mc->max_ctx - (mc->arch->encoder != NULL));
    if (rope->rot_dim == 0)
        fprintf(f, "a learned vector for each");
    else
        fprintf(f, "rope %s, theta %g", rope_type_name(rope->type), rope->theta);
    if (rope->type != ROPE_PLAIN)
        fprintf(f, ", factor %g", rope->factor);
    if (rope->type == ROPE_LLAMA3 || rope->type == ROPE_YARN || rope->type == ROPE_LONGROPE)
        fprintf(f, " over %g positions", rope->original_ctx);
    if (n_of(mc, mc->nope))
        fprintf(f, "; none in %d of %d layers", n_of(mc, mc->nope), mc->n_layers);
    if (mc->arch->local_rope)
        fprintf(f, "; with a window theta %g", mc->local_rope.theta);
    fprintf(f, "\n");
    if (rope->type == ROPE_LONGROPE)
        fprintf(f,
                "               contexts beyond %g take the long divisors from the first token\n",
                rope->original_ctx);
    if (mc->wrapped)
        fprintf(f, "parts          text alone; images and sound are not served\n");
    if (mc->window)
        fprintf(f, "%s %d tokens in %d of %d layers\n",
                mc->arch->window == WINDOW_CHUNK ? "chunks        " : "window        ", mc->window,
                n_of(mc, mc->windowed), mc->n_layers);
    fprintf(f, "end of text   ");
    for (int32_t i = 0; i < mc->n_eos; i++)
        fprintf(f, " %d", mc->eos_id[i]);
    fprintf(f, "%s\n", mc->n_eos ? "" : " no token");
    text_sampling(f, &r->generation);
}

static void text_tensors(FILE *f, const struct report *r)
{
    struct stored_tensor t;
    char shape[200];
    int width = 6;
    for (size_t i = 0; i < loader_count(r->ld); i++) {
        loader_get(r->ld, i, &t);
        width = (int)strlen(t.name) > width ? (int)strlen(t.name) : width;
    }
    fprintf(f, "\n%-*s  type  %-16s %14s\n", width, "tensor", "shape", "bytes");
    for (size_t i = 0; i < loader_count(r->ld); i++) {
        loader_get(r->ld, i, &t);
        fprintf(f, "%-*s  %-4s  %-16s %14zu\n", width, t.name, t.type_name,
                shape_text(shape, sizeof shape, t.shape, t.n_dims), t.n_bytes);
    }
}

/* "first-last", or "-" where there is nothing. */
static void span(char out[24], int32_t first, int32_t n)
{
    if (n > 0)
        snprintf(out, 24, "%d-%d", first, first + n - 1);
    else
        snprintf(out, 24, "-");
}

static void text_ranks(FILE *f, const struct report *r)
{
    const struct rank_plan *p = &r->rank[0].plan;
    const struct decoder_config *c = &p->dc;
    fprintf(f, "\nmemory plan for %d rank%s on %s\n", c->world, c->world == 1 ? "" : "s",
            p->info.device);
    fprintf(f, "steps of %d tokens and %d sequences; KV %s, %d blocks of %d tokens, context %d\n\n",
            c->max_tokens, c->max_seqs, dtype_name(c->kv_dtype), c->n_blocks, c->block_len,
            c->max_ctx);
    fprintf(f, "%4s  %-11s %-11s %-15s %-15s %-17s\n", "rank", "heads", "kv heads", "feed-forward",
            "of each expert", "vocabulary");
    for (int i = 0; i < c->world; i++) {
        const struct shard *s = &r->rank[i].shard;
        char q[24], kv[24], ffn[24], experts[24], v[24];
        span(q, s->q_first, s->n_q);
        span(kv, s->kv_first, s->n_kv);
        span(ffn, s->ffn.first, s->ffn.n);
        span(experts, s->expert.first, s->expert.n);
        span(v, s->vocab.first_id, s->vocab.n_cols);
        fprintf(f, "%4d  %-11s %-11s %-15s %-15s %-17s\n", i, q, kv, ffn, experts, v);
    }
    fprintf(f, "\n%4s %14s %14s %12s %12s %12s %12s %12s %12s %14s\n", "rank", "weights", "KV",
            "scratch", "tables", "step", "backend", "graphs", "collective", "total");
    for (int i = 0; i < c->world; i++) {
        const struct decoder_memory *m = &r->rank[i].plan.memory;
        p = &r->rank[i].plan;
        fprintf(f, "%4d %14zu %14zu %12zu %12zu %12zu %12zu %12zu %12zu %14zu\n", i, m->weights,
                m->kv, m->scratch, m->tables, p->step, p->own, p->graph, p->coll, p->total);
    }
    fprintf(f, "\n%4s  %14s %14s %14s\n", "rank", "KV a block", "read", "free");
    for (int i = 0; i < c->world; i++) {
        p = &r->rank[i].plan;
        fprintf(f, "%4d  %14zu %14zu %14zu\n", i, p->memory.kv_per_block, p->memory.file_bytes,
                p->free);
    }
    if (model_n_delta(r->mc)) {
        fprintf(f, "\nstates of %d sequences and %d snapshots\n%4s  %14s %14s\n", c->max_seqs,
                c->n_snapshots, "rank", "states", "of a sequence");
        for (int i = 0; i < c->world; i++)
            fprintf(f, "%4d  %14zu %14zu\n", i, r->rank[i].plan.memory.states,
                    r->rank[i].plan.memory.states_per_seq);
    }
    fprintf(f, "\nall figures in bytes; read = this rank's share of the files, free = what it may "
               "plan with\n");
    if (r->world > 1 && backend_ops_of(p->be)->reserve)
        fprintf(f, "free is without the memory of the collective's library (NCCL: buffers of its "
                   "channels), which each rank measures when it starts\n");
    if (r->base.memory)
        fprintf(f,
                "besides the plan each rank takes what the program, its libraries and MPI do: "
                "%zu, and %zu of files, in this process without MPI\n",
                r->base.memory, r->base.files);
    if (!r->fits)
        fprintf(f, "this does not fit into what is free here\n");
}

/* ---- JSON ---- */

static cJSON *json_config(const struct report *r)
{
    const struct model_config *mc = r->mc;
    cJSON *o = cJSON_CreateObject(), *rope = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "architecture", mc->arch->name);
    cJSON_AddNumberToObject(o, "layers", mc->n_layers);
    cJSON_AddBoolToObject(o, "encoder", mc->arch->encoder != NULL);
    cJSON_AddNumberToObject(o, "embedding",
                            r->rank[0].plan.modules.present ? r->rank[0].plan.modules.dim : 0);
    cJSON_AddNumberToObject(o, "hidden", mc->hidden);
    cJSON_AddNumberToObject(o, "ffn", mc->ffn);
    cJSON_AddNumberToObject(o, "least_ffn", least_width(mc));
    cJSON_AddNumberToObject(o, "experts", mc->n_experts);
    cJSON_AddNumberToObject(o, "experts_per_token", mc->top_k);
    cJSON_AddNumberToObject(o, "expert_ffn", mc->expert_ffn);
    cJSON_AddNumberToObject(o, "sparse_layers", model_n_sparse(mc));
    cJSON_AddStringToObject(o, "act", act_name(mc->act));
    cJSON_AddNumberToObject(o, "vocab", mc->vocab);
    cJSON_AddNumberToObject(o, "heads", mc->n_q);
    cJSON_AddNumberToObject(o, "kv_heads", mc->n_kv);
    cJSON_AddNumberToObject(o, "head_dim", mc->d_head);
    cJSON_AddNumberToObject(o, "global_kv_heads", mc->global_n_kv);
    cJSON_AddNumberToObject(o, "global_head_dim", mc->global_d_head);
    cJSON_AddBoolToObject(o, "k_eq_v", mc->k_eq_v);
    cJSON_AddNumberToObject(o, "kv_shared_layers", mc->n_kv_shared);
    cJSON_AddNumberToObject(o, "layer_input", mc->d_input);
    cJSON_AddNumberToObject(o, "streams", mc->n_streams ? mc->n_streams : 1);
    cJSON_AddNumberToObject(o, "laurel_rank", mc->laurel_rank);
    cJSON_AddNumberToObject(o, "layers_with_cut_gates", model_n_cut(mc));
    cJSON_AddNumberToObject(o, "kv_rank", mc->kv_rank);
    cJSON_AddNumberToObject(o, "q_rank", mc->q_rank);
    cJSON_AddNumberToObject(o, "delta_layers", model_n_delta(mc));
    cJSON_AddNumberToObject(o, "delta_key_heads", mc->n_delta_k);
    cJSON_AddNumberToObject(o, "delta_value_heads", mc->n_delta_v);
    cJSON_AddBoolToObject(o, "prefix_reuse", model_n_delta(mc) == 0);
    cJSON_AddNumberToObject(o, "max_ctx", mc->max_ctx);
    cJSON_AddNumberToObject(o, "eps", mc->eps);
    cJSON_AddBoolToObject(o, "tied", mc->tied);
    cJSON_AddBoolToObject(o, "qk_norm", mc->qk_norm);
    cJSON_AddNumberToObject(o, "shared_expert_ffn", mc->shared_ffn);
    cJSON_AddBoolToObject(o, "qkv_bias", mc->qkv_bias);
    cJSON_AddBoolToObject(o, "o_bias", mc->o_bias);
    cJSON_AddBoolToObject(o, "mlp_bias", mc->mlp_bias);
    cJSON_AddNumberToObject(o, "attn_cap", mc->attn_cap);
    cJSON_AddNumberToObject(o, "logit_cap", mc->logit_cap);
    cJSON_AddNumberToObject(o, "attn_scale", mc->attn_scale);
    cJSON_AddNumberToObject(o, "embed_scale", mc->embed_scale);
    cJSON_AddNumberToObject(o, "residual_scale", mc->residual_scale);
    cJSON_AddNumberToObject(o, "logit_scale", mc->logit_scale);
    cJSON_AddNumberToObject(o, "layers_without_rope", n_of(mc, mc->nope));
    cJSON_AddBoolToObject(o, "text_part", mc->wrapped);
    cJSON_AddNumberToObject(o, mc->arch->window == WINDOW_CHUNK ? "chunk" : "window", mc->window);
    cJSON_AddNumberToObject(o, "windowed_layers", n_of(mc, mc->windowed));
    cJSON_AddNumberToObject(o, "bos_id", mc->bos_id);
    cJSON_AddItemToObject(o, "eos_ids", cJSON_CreateIntArray(mc->eos_id, mc->n_eos));
    cJSON_AddStringToObject(rope, "type", rope_type_name(mc->rope.type));
    cJSON_AddNumberToObject(rope, "theta", mc->rope.theta);
    cJSON_AddNumberToObject(rope, "factor", mc->rope.factor);
    cJSON_AddNumberToObject(rope, "attention_factor", mc->rope.attention_factor);
    cJSON_AddItemToObject(o, "rope", rope);
    return o;
}

/* Those that are set. */
static cJSON *json_sampling(const struct generation_defaults *d)
{
    cJSON *o = cJSON_CreateObject();
    if (d->has_temperature)
        cJSON_AddNumberToObject(o, "temperature", (double)d->temperature);
    if (d->has_top_p)
        cJSON_AddNumberToObject(o, "top_p", (double)d->top_p);
    if (d->has_top_k)
        cJSON_AddNumberToObject(o, "top_k", d->top_k);
    if (d->has_min_p)
        cJSON_AddNumberToObject(o, "min_p", (double)d->min_p);
    if (d->has_repetition_penalty)
        cJSON_AddNumberToObject(o, "repetition_penalty", (double)d->repetition_penalty);
    if (d->max_new)
        cJSON_AddNumberToObject(o, "max_new_tokens", d->max_new);
    return o;
}

static cJSON *json_tensors(const struct report *r)
{
    cJSON *list = cJSON_CreateArray();
    struct stored_tensor t;
    for (size_t i = 0; i < loader_count(r->ld); i++) {
        cJSON *o = cJSON_CreateObject(), *shape = cJSON_CreateArray();
        loader_get(r->ld, i, &t);
        cJSON_AddStringToObject(o, "name", t.name);
        cJSON_AddStringToObject(o, "type", t.type_name);
        for (int32_t d = 0; d < t.n_dims; d++)
            cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)t.shape[d]));
        cJSON_AddItemToObject(o, "shape", shape);
        cJSON_AddNumberToObject(o, "bytes", (double)t.n_bytes);
        cJSON_AddItemToArray(list, o);
    }
    return list;
}

/* [first, count] */
static void add_range(cJSON *o, const char *name, int32_t first, int32_t n)
{
    cJSON_AddItemToObject(o, name, cJSON_CreateIntArray((const int[]){first, n}, 2));
}

static cJSON *json_ranks(const struct report *r)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < r->world; i++) {
        const struct shard *s = &r->rank[i].shard;
        const struct rank_plan *p = &r->rank[i].plan;
        const struct decoder_memory *m = &p->memory;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddNumberToObject(o, "rank", i);
        add_range(o, "heads", s->q_first, s->n_q);
        add_range(o, "kv_heads", s->kv_first, s->n_kv);
        add_range(o, "ffn", s->ffn.first, s->ffn.n);
        add_range(o, "expert_ffn", s->expert.first, s->expert.n);
        add_range(o, "vocab", s->vocab.first_id, s->vocab.n_cols);
        cJSON_AddNumberToObject(o, "weights_bytes", (double)m->weights);
        cJSON_AddNumberToObject(o, "kv_bytes", (double)m->kv);
        cJSON_AddNumberToObject(o, "states_bytes", (double)m->states);
        cJSON_AddNumberToObject(o, "states_of_sequence_bytes", (double)m->states_per_seq);
        cJSON_AddNumberToObject(o, "scratch_bytes", (double)m->scratch);
        cJSON_AddNumberToObject(o, "tables_bytes", (double)m->tables);
        cJSON_AddNumberToObject(o, "step_bytes", (double)p->step);
        cJSON_AddNumberToObject(o, "backend_bytes", (double)p->own);
        cJSON_AddNumberToObject(o, "graphs_bytes", (double)p->graph);
        cJSON_AddNumberToObject(o, "collective_bytes", (double)p->coll);
        cJSON_AddNumberToObject(o, "total_bytes", (double)p->total);
        cJSON_AddNumberToObject(o, "free_bytes", (double)p->free);
        cJSON_AddNumberToObject(o, "pinned_bytes", (double)p->pinned);
        cJSON_AddNumberToObject(o, "kv_block_bytes", (double)m->kv_per_block);
        cJSON_AddNumberToObject(o, "read_bytes", (double)m->file_bytes);
        cJSON_AddItemToArray(list, o);
    }
    return list;
}

static cJSON *json_step(const struct report *r)
{
    const struct rank_plan *p = &r->rank[0].plan;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "device", p->info.device);
    cJSON_AddNumberToObject(o, "world", p->dc.world);
    cJSON_AddNumberToObject(o, "max_step_tokens", p->dc.max_tokens);
    cJSON_AddNumberToObject(o, "max_seqs", p->dc.max_seqs);
    cJSON_AddNumberToObject(o, "state_snapshots", p->dc.n_snapshots);
    cJSON_AddNumberToObject(o, "max_ctx", p->dc.max_ctx);
    cJSON_AddStringToObject(o, "kv_dtype", dtype_name(p->dc.kv_dtype));
    cJSON_AddNumberToObject(o, "kv_blocks", p->dc.n_blocks);
    cJSON_AddNumberToObject(o, "block_len", p->dc.block_len);
    cJSON_AddNumberToObject(o, "base_bytes", (double)r->base.memory);
    cJSON_AddNumberToObject(o, "base_file_bytes", (double)r->base.files);
    cJSON_AddBoolToObject(o, "fits", r->fits);
    return o;
}

static enum status write_json(FILE *f, const struct report *r)
{
    char digest[17];
    const struct input_scheme *inputs = loader_inputs(r->ld);
    cJSON *root = cJSON_CreateObject();
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)loader_digest(r->ld));
    cJSON_AddStringToObject(root, "model", r->path);
    cJSON_AddStringToObject(root, "format", loader_format(r->ld));
    cJSON_AddStringToObject(root, "digest", digest);
    cJSON_AddNumberToObject(root, "weights", (double)r->n_weights);
    cJSON_AddNumberToObject(root, "bytes", (double)r->n_bytes);
    if (r->scheme[0]) {
        cJSON_AddStringToObject(root, "quantisation", r->scheme);
        cJSON_AddStringToObject(root, "checkpoint_activations", inputs->asked);
        cJSON_AddStringToObject(root, "checkpoint_activations_refused", inputs->refused);
        cJSON_AddBoolToObject(root, "rounds_as_checkpoint", r->mc->exact_inputs);
        cJSON_AddNumberToObject(root, "file_bits_per_weight", bits_in_files(r));
        cJSON_AddNumberToObject(root, "memory_bits_per_weight", bits_in_memory(r));
    }
    cJSON_AddItemToObject(root, "config", json_config(r));
    cJSON_AddItemToObject(root, "sampling", json_sampling(&r->generation));
    cJSON_AddItemToObject(root, "tensors", json_tensors(r));
    cJSON_AddItemToObject(root, "plan", json_step(r));
    cJSON_AddItemToObject(root, "ranks", json_ranks(r));
    char *text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    if (!text)
        FAIL(ST_NOMEM, "no memory for the report");
    fprintf(f, "%s\n", text);
    free(text);
    return ST_OK;
}

/* ---- gathering ---- */

static void count_tensors(struct report *r)
{
    struct stored_tensor t;
    for (size_t i = 0; i < loader_count(r->ld); i++) {
        loader_get(r->ld, i, &t);
        r->n_weights += weights_in(r->mc, &t);
        r->n_bytes += t.n_bytes;
    }
}

/* The least number that a rank has room for. */
static enum status choose_blocks(struct report *r, uint64_t *blocks)
{
    *blocks = UINT64_MAX;
    for (int i = 0; i < r->world; i++) {
        struct rank_plan *p = &r->rank[i].plan;
        uint64_t here;
        enum status st = rank_plan_blocks(p, &here);
        if (st == ST_NOMEM) {
            r->fits = false;
            here = (uint64_t)((p->dc.max_ctx - 1) / p->dc.block_len + 1);
        } else {
            TRY(st);
        }
        *blocks = here < *blocks ? here : *blocks;
    }
    return ST_OK;
}

static enum status gather(struct report *r, const struct shared_options *opt, struct backend *be)
{
    uint64_t blocks;
    r->fits = true;
    count_tensors(r);
    weights_scheme(r->ld, worker_wants_f32(opt), r->scheme);
    for (int i = 0; i < r->world; i++) {
        int n = opt->device < 0 ? 1 : r->world; /* the ranks are not there: as the option says */
        struct rank_place place = {.rank = i,
                                   .world = r->world,
                                   .n_on_host = r->world,
                                   .n_memory = n,
                                   .n_device = n,
                                   .one_host = true,
                                   .base = r->base};
        TRY(shard_plan(&r->rank[i].shard, r->mc, i, r->world));
        TRY(rank_plan_init(&r->rank[i].plan, opt, &place, be, r->ld));
    }
    TRY(choose_blocks(r, &blocks));
    for (int i = 0; i < r->world; i++) {
        TRY(rank_plan_set_blocks(&r->rank[i].plan, blocks));
        r->fits = r->fits && rank_plan_fits(&r->rank[i].plan);
    }
    return ST_OK;
}

static enum status report_on(struct report *r, FILE *out, const struct worker_options *opt,
                             struct backend *be)
{
    if (r->world < 1 || r->world > 4096)
        FAIL(ST_RANGE, "%d ranks: it must be 1 to 4096", r->world);
    r->rank = calloc((size_t)r->world, sizeof *r->rank);
    if (!r->rank)
        FAIL(ST_NOMEM, "no memory for %d ranks", r->world);
    TRY(gather(r, &opt->shared, be));
    if (opt->json) {
        TRY(write_json(out, r));
    } else {
        text_config(out, r);
        text_tensors(out, r);
        text_ranks(out, r);
    }
    if (fflush(out) != 0 || ferror(out))
        FAIL(ST_IO, "cannot write the report");
    return ST_OK;
}

enum status inspect_model(FILE *out, const struct worker_options *opt, struct backend *be)
{
    struct report r = {
        .path = opt->shared.model, .world = (int)opt->shared.tp, .base = host_taken()};
    TRY(loader_open(&r.ld, opt->shared.model));
    r.mc = loader_config(r.ld);
    enum status st = worker_rounds_inputs(&opt->shared) ? loader_round_inputs(r.ld) : ST_OK;
    struct backend_info info;
    backend_ops_of(be)->info(be, &info);
    loader_sort_columns(r.ld, info.features);
    if (st == ST_OK)
        st = generation_load(&r.generation, opt->shared.model);
    if (st == ST_OK)
        st = report_on(&r, out, opt, be);
    for (int i = 0; r.rank && i < r.world; i++)
        rank_plan_fini(&r.rank[i].plan);
    free(r.rank);
    loader_close(r.ld);
    return st;
}

void inspect_device(FILE *f, struct backend *be)
{
    struct backend_info info;
    backend_ops_of(be)->info(be, &info);
    fprintf(f, "device: %s%s%s\n", info.device, *info.about ? ": " : "", info.about);
}
