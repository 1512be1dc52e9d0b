/* Pieces of structural tags (common/grammar/tags.h) as JSON: for answer_grammar.c and answer_elements.c. */
#ifndef COORDINATOR_ANSWER_PARTS_H
#define COORDINATOR_ANSWER_PARTS_H

#include "common/json/json_write.h"
#include "coordinator/answer_ask.h"

/* An object whose first member is kind; its value and the end follow. */
void part_begin(struct json_writer *w, const char *kind);
/* ... is a list; its items and part_end_list follow. */
void part_list(struct json_writer *w, const char *kind);
void part_end_list(struct json_writer *w);
/* An item: a node with a text. */
void part_put(struct json_writer *w, const char *kind, const char *text, size_t n);
/* Is the text a special token? */
bool part_is_special(const struct answer_form *f, const char *text);
/* Items of a list: the text, its special tokens apart. */
void part_text(struct json_writer *w, const struct answer_form *f, const char *text);

#endif
