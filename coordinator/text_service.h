/* Tokenizing, detokenizing and chat templates on a thread of their own, so that a long prompt never
 * stalls the loop.  The loop submits jobs and takes them back finished; jobs are done in order. */
#ifndef COORDINATOR_TEXT_SERVICE_H
#define COORDINATOR_TEXT_SERVICE_H

#include "common/text/text_buf.h"
#include "common/wire/client_msg.h"
#include "coordinator/jinja/chat_template.h"
#include "coordinator/tokenizer/tokenizer.h"

/* What a model knows about text.  Immutable once loaded. */
struct model_text {
    struct tokenizer *tok;
    struct chat_template *chat;       /* NULL: the model has none */
    struct chat_template *chat_tools; /* for requests with tools, where the model has another one */
    char no_chat[256];                /* why not */
    struct text_buf variables;        /* bos_token, ... as JSON */
    int32_t *eos;                     /* ids that end an answer */
    uint32_t n_eos;
};

/* path: a model directory or a .gguf file. */
MUST_CHECK enum status model_text_open(struct model_text *mt, const char *path);
void model_text_close(struct model_text *mt);

enum text_job_kind { JOB_GENERATE, JOB_TOKENIZE, JOB_DETOKENIZE, JOB_TEMPLATE };

struct text_job {
    struct text_job *next;
    enum text_job_kind kind;
    char request_id[MAX_REQUEST_ID + 1];
    uint64_t client; /* who asked (for all but JOB_GENERATE) */
    void *frame;     /* the request's bytes, owned */
    size_t n_frame;
    /* result */
    enum status status;
    char detail[512];
    char field[64];
    struct token_list tokens; /* JOB_GENERATE, JOB_TOKENIZE */
    struct text_buf text;     /* JOB_DETOKENIZE, JOB_TEMPLATE */
};

struct text_service;

MUST_CHECK enum status text_service_start(struct text_service **out, const struct model_text *mt,
                                          size_t max_message);
void text_service_stop(struct text_service *s);

/* Copies the frame. */
MUST_CHECK enum status text_service_submit(struct text_service *s, enum text_job_kind kind,
                                           const char *request_id, uint64_t client,
                                           const void *frame, size_t n_frame);
/* A finished job, or NULL; free it with text_job_free. */
struct text_job *text_service_take(struct text_service *s);
void text_job_free(struct text_job *job);

/* Becomes readable when a job is finished (level: drained by text_service_take returning NULL). */
int text_service_fd(const struct text_service *s);

#endif
