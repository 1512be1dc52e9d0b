/* Stop strings in a stream of text.  Text goes in by pieces of any size, comes out as soon as no
 * stop string can begin in it, and ends where the first stop string begins (or ends, when it is
 * included).  The first is the match that ends first; of several that end together, the longest.
 *
 * Method: Aho and Corasick, "Efficient string matching", 1975; the state held is the longest suffix
 * that could still become a match.  Cut points are bytes of UTF-8; since stop strings are UTF-8
 * too, text is never cut inside a character.
 *
 * Caller: the coordinator, one stop_stream per sequence; threads may share a stop_set. */
#ifndef COORDINATOR_TOKENIZER_STOP_H
#define COORDINATOR_TOKENIZER_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "common/text/text_buf.h"
#include "coordinator/tokenizer/tokenizer.h"

#define STOP_MAX_STRINGS 64
#define STOP_MAX_BYTES 4096 /* of all strings together */

struct stop_set;

/* Copies the strings.  ST_RANGE names an empty or too long string or too many; ST_FORMAT one that
 * is not UTF-8. */
MUST_CHECK enum status stop_set_create(struct stop_set **out, const struct tok_text *strings,
                                       size_t n);
void stop_set_destroy(struct stop_set *s);

/* A copy is a snapshot.  Begin with {0} and set set (borrowed) and include. */
struct stop_stream {
    const struct stop_set *set; /* NULL: nothing stops */
    bool include;               /* the stop string itself is let through */
    bool asleep;                /* the text that is pushed now ends no match */
    bool done;                  /* a stop string matched; later text is dropped */
    uint16_t state;             /* of the automaton; what is held back is the text of this state */
    int32_t matched;            /* index of the string that matched; meaningful when done */
};

/* Appends to out what can no longer be part of a match.  After a match s->done is set and the rest
 * is dropped. */
MUST_CHECK enum status stop_push(struct stop_stream *s, const char *text, size_t n,
                                 struct text_buf *out);
/* The end of the text: appends what was held back. */
MUST_CHECK enum status stop_flush(struct stop_stream *s, struct text_buf *out);

#endif
