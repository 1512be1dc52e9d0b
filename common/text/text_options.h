/* The command lines of `ingot tokenize` and `ingot detokenize`: one table for the program that has
 * the tokenizers (ingot-text) and the one that asks a server (ingot).  Pure. */
#ifndef COMMON_TEXT_TEXT_OPTIONS_H
#define COMMON_TEXT_TEXT_OPTIONS_H

#include "common/options.h"

struct text_options { /* what a command does not have stays NULL, false */
    const char *connect, *key, *server_key, *tokenizer, *text, *text_file, *ids, *ids_file;
    const char *model; /* the positional MODEL, by text_take_arguments */
    char **id_args;    /* [n_id_args] the positional ids */
    int n_id_args;
    bool no_special, no_parse_special, skip_special, json, explain;
};

extern const struct option_set text_tokenize_options, text_detokenize_options;

/* Sorts the positional arguments into MODEL and ids: the first one is MODEL unless it reads as an id
 * or the options name another source. */
void text_take_arguments(struct text_options *o, const struct option_result *res);

/* Neither MODEL nor --tokenizer: a running server is asked. */
bool text_asks_server(const struct text_options *o);

/* What is missing or does not go together, for the user, after text_take_arguments; NULL: nothing. */
const char *text_tokenize_conflict(const struct text_options *o);
const char *text_detokenize_conflict(const struct text_options *o);

/* The positional ids as one text, malloc'ed, between blanks.  ST_NOMEM. */
MUST_CHECK enum status text_join_ids(char **out, const struct text_options *o);

/* Ids between blanks, commas and brackets.  ids: room for strlen(text) of them.  ST_FORMAT,
 * ST_RANGE: one is no id or above max_id. */
MUST_CHECK enum status text_parse_ids(const char *text, int32_t max_id, int32_t *ids, size_t *n);

#endif
