/* The members of a call's JSON as they are read: name, id, and where the arguments begin and end.  Fed with the same
 * bytes as the JSON machine.  Internal to output_calls.c. */
#ifndef COMMON_TEXT_OUTPUT_MEMBERS_H
#define COMMON_TEXT_OUTPUT_MEMBERS_H

#include "common/text/output_json.h"

enum output_news {
    NEWS_NONE,
    NEWS_ARGUMENTS, /* the first byte of the arguments, '{', of a call whose name is known */
    NEWS_ARGUMENTS_END,
    NEWS_CALL_END, /* the call's object has ended */
    NEWS_NO_CALL,  /* an item of the list is no object */
};

struct output_members { /* offsets are those that were fed; a span is empty when there is none */
    size_t n_calls;     /* objects that have begun */
    size_t call_from;   /* of the last one */
    size_t name_from, name_to, id_from, id_to; /* with their quotation marks */
    size_t arguments_from, arguments_to;       /* arguments_to 0: they go on */
    /* its own */
    unsigned call_depth; /* inside the call's object: 1, or 2 in a list */
    unsigned depth; /* inside the object with the name: call_depth, or one more within "function" */
    char key[12];   /* the last key at that depth; a longer one is cut */
    size_t n_key, value_from;
};

/* c at offset `at` took the machine from before to after. */
enum output_news output_members_feed(struct output_members *m, const struct output_json *before,
                                     const struct output_json *after, char c, size_t at);

#endif
