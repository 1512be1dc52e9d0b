/* The options of one request: what to ask, how to sample.  Shared by generate, run and chat. */
#ifndef CLIENT_CLI_REQUEST_OPTIONS_H
#define CLIENT_CLI_REQUEST_OPTIONS_H

#include "client/cli/cli.h"

struct prompt_args {
    const char *prompt, *prompt_file, *tokens, *message, *chat, *system, *tools, *tool_choice,
        *variables;
    bool add_special, one_call;
};

struct sampling_args {
    double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    int64_t top_k, min_tokens, max_tokens, thinking_budget, top_logprobs, prompt_logprobs, n,
        deadline_ms, priority, wait_ms;
    const char *seed, *request_id, *model, *json_schema, *regex, *grammar;
    bool ignore_eos, include_stop, logprobs, skip_special, json_object;
    struct option_list stop, stop_id, logit_bias, choice;
};

void prompt_rows(struct row_list *l, size_t base);
void sampling_rows(struct row_list *l, size_t base);
/* Is that the name of a sampling option? */
bool sampling_has(const char *name, size_t n);

/* A request with the memory that it points into.  Begin with {0}. */
struct built_request {
    struct ingot_request r;
    char *text, *tools, *variables, *grammar; /* malloc'ed */
    int32_t *ids;
    struct ingot_turn *turns;
    size_t n_turns;
    struct ingot_bias bias[MAX_OPTION_LIST];
    int32_t stop_ids[MAX_OPTION_LIST];
};

/* The sampling part of b->r.  ST_RANGE names the option. */
MUST_CHECK enum status request_sampling(struct built_request *b, const struct sampling_args *a);
/* The prompt part of b->r; sampling comes after.  ST_RANGE: not exactly one prompt. */
MUST_CHECK enum status request_prompt(struct built_request *b, const struct prompt_args *a);
void request_free(struct built_request *b);

#endif
