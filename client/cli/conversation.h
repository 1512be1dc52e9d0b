/* The turns of a conversation in the order of their messages; the first one may be the system's.
 * Owner: the command.  One thread. */
#ifndef CLIENT_CLI_CONVERSATION_H
#define CLIENT_CLI_CONVERSATION_H

#include "client/lib/ingot.h"
#include "common/status.h"

struct conversation {         /* begin with {0} */
    struct ingot_turn *turns; /* [n]; contents malloc'ed, roles literals */
    size_t n, max;
};

/* Appends a turn, text [n bytes] copied; role is kept as a pointer.  ST_NOMEM. */
MUST_CHECK enum status conversation_add(struct conversation *c, const char *role, const char *text,
                                        size_t n);
/* Sets, replaces or (NULL) removes the system turn; the others stay.  ST_NOMEM. */
MUST_CHECK enum status conversation_set_system(struct conversation *c, const char *text);
/* Removes the newest turns until n are left, the system turn counted. */
void conversation_cut(struct conversation *c, size_t n);
/* Removes the n oldest turns behind the system turn. */
void conversation_drop_oldest(struct conversation *c, size_t n);
/* 1 with a system turn, else 0: the index of the first other one. */
size_t conversation_first(const struct conversation *c);
void conversation_free(struct conversation *c);

#endif
