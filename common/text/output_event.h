/* What an output parser gives. */
#ifndef COMMON_TEXT_OUTPUT_EVENT_H
#define COMMON_TEXT_OUTPUT_EVENT_H

#include <stddef.h>

enum output_kind {
    OUT_REASONING,      /* text */
    OUT_CONTENT,        /* text */
    OUT_CALL_BEGIN,     /* name, and id where the model gave one */
    OUT_CALL_ARGUMENTS, /* text: the next piece of a JSON object, as the model writes it */
    OUT_CALL_END,
};

/* Pointers are valid until the next push, finish or destroy. */
struct output_event {
    enum output_kind kind;
    const char *text; /* OUT_REASONING, OUT_CONTENT, OUT_CALL_ARGUMENTS; never empty */
    size_t n_text;    /* bytes */
    const char *name; /* OUT_CALL_BEGIN: the function */
    size_t n_name;
    const char *id; /* NULL: the model gave none */
    size_t n_id;
    int i_call; /* OUT_CALL_*: 0, 1, ... in the order of the calls, which are never nested */
};

#endif
