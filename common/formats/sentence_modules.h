/* How a folder of the sentence-transformers library makes an embedding from the final states of a model: modules.json,
 * the configurations of its modules and config_sentence_transformers.json
 * (sbert.net/docs/sentence_transformer/usage/custom_models.html).  What is not supported is refused by name.  Pure but
 * for the files that it reads; used by the coordinator (prompts, sizes), the ranks (pooling) and the weights digest. */
#ifndef COMMON_FORMATS_SENTENCE_MODULES_H
#define COMMON_FORMATS_SENTENCE_MODULES_H

#include "common/formats/model_config.h"
#include "common/plan.h"

enum { MAX_MODULES = 16, MAX_CUTS = 64, MODULE_PATH = 128, MAX_MODULE_FILE = 1 << 20 };

/* In the order in which configurations with a flag for each mode concatenate their vectors. */
enum pooling {
    POOL_CLS,           /* of the first token */
    POOL_MAX,           /* the greatest of each component */
    POOL_MEAN,          /* sum / n */
    POOL_MEAN_SQRT_LEN, /* sum / sqrt(n) */
    POOL_WEIGHTED_MEAN, /* token i counts i + 1 times */
    POOL_LAST,          /* of the last token */
    POOL_N
};

enum dense_act { DENSE_IDENTITY, DENSE_TANH, DENSE_RELU, DENSE_SIGMOID, DENSE_GELU };

enum module_kind { MODULE_DENSE, MODULE_NORMALIZE };

/* A module behind the pooling. */
struct module {
    enum module_kind kind;
    /* Dense */
    enum dense_act act;
    bool bias;
    int32_t in, out;
    const char
        *tensor; /* of a classifier's head, in the model's files, without ".weight"; else NULL */
    char path[MODULE_PATH]; /* of its folder in the model's */
};

struct sentence_prompt {
    char *name, *text; /* both end with NUL */
};

struct sentence_modules {
    bool present;       /* the model gives embeddings */
    bool scores;        /* it is a reranker: an "embedding" is one score, of a pair of texts */
    const char *prefix; /* of names in the model's files, for module.tensor */
    bool whole;         /* it is an encoder: a text is one step */
    int32_t n_types;    /* of its tokens, 0: they have none */
    int32_t pad_id;     /* a token that it does not take; -1: none */
    int32_t n_pools;    /* at least one */
    enum pooling pool[POOL_N]; /* their vectors are concatenated in this order */
    int32_t n_modules;         /* behind the pooling */
    struct module module[MAX_MODULES];
    int32_t dim;        /* components of an embedding */
    int32_t max_tokens; /* of a text; 0: the model's own limit */
    bool any_cut;       /* the model was made for any number of an embedding's first components */
    int32_t n_cuts, cut[MAX_CUTS]; /* or for these */
    uint32_t n_prompts;
    struct sentence_prompt *prompt; /* [n_prompts] */
    int32_t default_prompt;         /* -1: none */
};

/* model: a folder or a .gguf file, or NULL (none); mc: its configuration.  A decoder without modules.json is not
 * present, unless `embed` asks for it: then the last token's state is normalised.  An encoder without modules.json
 * gives the mean of its states, as in the library.
 * ST_UNSUPPORTED, ST_FORMAT, ST_RANGE name the file and the field. */
MUST_CHECK enum status sentence_modules_load(struct sentence_modules *out, const char *model,
                                             const struct model_config *mc, bool embed);
void sentence_modules_free(struct sentence_modules *m);

/* The parsers of the files; what names the text in errors. */
MUST_CHECK enum status sentence_modules_parse(struct sentence_modules *out, const void *text,
                                              size_t n, char pooling[MODULE_PATH]);
MUST_CHECK enum status sentence_pooling_parse(struct sentence_modules *out, const void *text,
                                              size_t n, int32_t hidden);
MUST_CHECK enum status sentence_module_parse(struct module *out, const void *text, size_t n);
MUST_CHECK enum status sentence_prompts_parse(struct sentence_modules *out, const void *text,
                                              size_t n);
MUST_CHECK enum status sentence_transformer_parse(struct sentence_modules *out, const void *text,
                                                  size_t n);
MUST_CHECK enum status sentence_cuts_parse(struct sentence_modules *out, const void *text,
                                           size_t n);

bool sentence_modules_pools(const struct sentence_modules *m, enum pooling mode);
/* Which rows of the final states an embedding needs. */
enum embed_rows sentence_modules_rows(const struct sentence_modules *m);
/* What decides the numbers, files aside, as a text of the returned length: for the weights digest. */
enum { MODULES_TEXT = 2048 };
size_t sentence_modules_text(const struct sentence_modules *m, char out[MODULES_TEXT]);
/* The prompt of that name, "": the default one; NULL in *out: none.  ST_RANGE: there is no such prompt. */
MUST_CHECK enum status sentence_modules_prompt(const struct sentence_modules *m, const char *name,
                                               const char **out);

/* Are the first n components of an embedding one too (config.json: is_matryoshka, matryoshka_dimensions)?  0 means all.
 * ST_UNSUPPORTED, ST_RANGE. */
MUST_CHECK enum status sentence_modules_cut(const struct sentence_modules *m, uint32_t n);
/* Of an embedding's first n components: normalises them if the model's embeddings are normalised. */
void sentence_modules_cut_vector(const struct sentence_modules *m, float *v, size_t n);

#endif
