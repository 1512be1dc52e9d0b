/* The command lines of `ingot tokenize` and `ingot detokenize`: one table for the program that has
 * the tokenizers (ingot-text) and the one that asks a server (ingot).  Pure. */
#ifndef COMMON_TEXT_TEXT_OPTIONS_H
#define COMMON_TEXT_TEXT_OPTIONS_H

#include "common/options.h"

struct text_options { /* what a command does not have stays NULL, false */
    const char *connect, *tokenizer, *text, *text_file, *ids, *ids_file;
    bool no_special, no_parse_special, skip_special, json, explain;
};

extern const struct option_set text_tokenize_options, text_detokenize_options;

/* What is missing or does not go together, for the user; NULL: nothing.  n_args: models named. */
const char *text_tokenize_conflict(const struct text_options *o, int n_args);
const char *text_detokenize_conflict(const struct text_options *o, int n_args);

/* Ids between blanks, commas and brackets.  ids: room for strlen(text) of them.  ST_FORMAT,
 * ST_RANGE: one is no id or above max_id. */
MUST_CHECK enum status text_parse_ids(const char *text, int32_t max_id, int32_t *ids, size_t *n);

#endif
