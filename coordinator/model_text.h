/* A model's text side: tokenizer, chat template, special tokens, end-of-sequence ids.  Loaded once
 * at start by the loop; immutable afterwards, so that any thread may read it. */
#ifndef COORDINATOR_MODEL_TEXT_H
#define COORDINATOR_MODEL_TEXT_H

#include "common/formats/generation.h"
#include "common/formats/sentence_folder.h"
#include "common/text/output_marks.h"
#include "coordinator/jinja/chat_template.h"
#include "coordinator/pair_text.h"
#include "coordinator/tokenizer/tokenizer.h"

enum { MODEL_MAX_MARKS = 32 };

struct model_text {
    const char *name; /* as clients call the model; borrowed */
    struct tokenizer *tok;
    struct chat_template *chat;       /* NULL: the model has none */
    struct chat_template *chat_tools; /* for requests with tools, where the model has another one */
    char no_chat[256];                /* why chat is NULL */
    bool bad_chat;                    /* the model has one that is not understood */
    struct pair_text pair;            /* of a reranker */
    struct text_buf variables;        /* bos_token, ... as JSON */
    enum output_tools tool_format;    /* of tool calls in answers; with a chat template */
    const struct output_think *think; /* the marks of thinking, NULL: none */
    int32_t
        mark[MODEL_MAX_MARKS]; /* [n_marks] special tokens among the marks of calls and thinking */
    uint32_t n_marks;
    int32_t *eos;   /* [n_eos] ids that end an answer */
    uint32_t n_eos; /* at most MAX_STOP_IDS */
    struct generation_defaults generation;
    bool has_states;                 /* sequences have states beside the KV cache */
    struct sentence_modules modules; /* of its embeddings */
    /* special tokens spelled in the content of chats are none (--parse-special none); set after model_text_open */
    bool plain_content;
};

/* path: a model directory or a .gguf file; asked: what it gives also without modules. */
MUST_CHECK enum status model_text_open(struct model_text *mt, const char *path, const char *name,
                                       struct modules_asked asked);
void model_text_close(struct model_text *mt);

#endif
