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

enum module_kind { MODULE_DENSE, MODULE_NORMALIZE, MODULE_LAYER_NORM };

/* A module behind the pooling. */
struct module {
    enum module_kind kind;
    /* Dense */
    enum dense_act act;
    bool bias;
    int32_t in, out;
    double eps; /* LayerNorm: of tensor, without a bias */
    /* Of the model's own files, without ".weight" and ".bias"; else NULL, and path has the module's. */
    const char *tensor;
    bool of_rows; /* the weight is row[0] of that tensor, less row[1] unless that is -1 */
    int32_t row[2];
    char path[MODULE_PATH]; /* of its folder in the model's */
};

/* How a reranker's query and document become one text. */
enum pair_form {
    PAIR_JOINED,   /* as the tokenizer's post-processor says */
    PAIR_MESSAGES, /* by the chat template, as messages of the roles "query" and "document" */
    PAIR_BY_FILES, /* PAIR_MESSAGES where the model has a chat template, else PAIR_JOINED */
    PAIR_QWEN3,    /* as PAIR_MESSAGES, by the template of Qwen3-Reranker's model card */
};

/* The content of such a message. */
enum message_form {
    MESSAGE_BY_TEMPLATE, /* as the template's text shows */
    MESSAGE_TEXT,
    MESSAGE_PARTS, /* [{"type": "text", "text": ...}] */
};

struct sentence_prompt {
    char *name, *text; /* both end with NUL */
};

struct sentence_modules {
    bool present;        /* the model gives embeddings */
    bool scores;         /* it is a reranker: an "embedding" is one score, of a pair of texts */
    enum pair_form pair; /* of a reranker, with the next four */
    enum message_form message;
    bool generation_prompt; /* behind the messages */
    bool act_said;
    enum dense_act act; /* behind the score, where the folder says it beside config.json */
    const char *prefix; /* of names in the model's files, for module.tensor */
    bool whole;         /* it is an encoder: a text is one step */
    int32_t n_types;    /* of its tokens, 0: they have none */
    int32_t
        pad_id; /* an encoder: a token that it does not take; else: at the end of a pair it does not
                           count; -1: none */
    int32_t n_pools;           /* at least one */
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

void sentence_modules_free(struct sentence_modules *m);

/* The parsers of the files; what names the text in errors.  second: the folder of the module behind Transformer, which
 * is Pooling, or LogitScore where out->scores is set; a list of Transformer alone leaves out->present false. */
MUST_CHECK enum status sentence_modules_parse(struct sentence_modules *out, const void *text,
                                              size_t n, char second[MODULE_PATH]);
MUST_CHECK enum status sentence_pooling_parse(struct sentence_modules *out, const void *text,
                                              size_t n, int32_t hidden);
MUST_CHECK enum status sentence_module_parse(struct module *out, const void *text, size_t n);
MUST_CHECK enum status sentence_prompts_parse(struct sentence_modules *out, const void *text,
                                              size_t n);
MUST_CHECK enum status sentence_transformer_parse(struct sentence_modules *out, const void *text,
                                                  size_t n);
MUST_CHECK enum status sentence_cuts_parse(struct sentence_modules *out, const void *text,
                                           size_t n);

/* The function behind a reranker's score, by its name in Python.  ST_UNSUPPORTED. */
MUST_CHECK enum status sentence_score_act(enum dense_act *out, const char *name);

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
