/* The automaton of a grammar: a deterministic machine over bytes whose states are made when they are first reached.  A
 * state is a set of pairs (expression in progress, set of stacks of what follows it); stacks with equal tops share
 * them, as in a graph-structured stack (Tomita 1985), and equal sets have equal ids.  So all parses go on at once, and
 * a state's identity is a function of the grammar and of the bytes.
 *
 * Bounds: MACHINE_MAX_* below.  A byte whose state would exceed the bound of one state (depth, pairs) is refused, as if
 * the grammar had no such text: this depends on the bytes alone.  When the tables are full, machine_flush forgets all
 * states, and those who hold some consume their bytes again.  One thread. */
#ifndef COMMON_GRAMMAR_MACHINE_H
#define COMMON_GRAMMAR_MACHINE_H

#include "common/grammar/rules.h"

struct machine;

enum {
    MACHINE_DEAD = 0,            /* the state from which nothing is accepted */
    MACHINE_MAX_DEPTH = 1024,    /* of stacks; a nested array or object takes 2 or 3 */
    MACHINE_MAX_PAIRS = 1 << 14, /* of one state */
    MACHINE_MAX_STATES = 1 << 19,
    MACHINE_MAX_WORDS = 1 << 24, /* of pairs, stacks and transitions, each: 64 MiB */
};

struct machine_pair {
    uint32_t expr, stacks;
};

/* rules: finished, borrowed, used by this machine alone. */
MUST_CHECK enum status machine_create(struct machine **out, struct rules *rules, uint32_t root);
void machine_destroy(struct machine *m);

/* The state before any byte; MACHINE_DEAD only when the machine is full (flush). */
uint32_t machine_start(struct machine *m);
uint32_t machine_next(struct machine *m, uint32_t state, uint8_t byte);
/* May the text end here? */
bool machine_accepts(const struct machine *m, uint32_t state);

/* Were the tables too full for a state that was asked for? */
bool machine_full(const struct machine *m);
/* Was it for lack of memory?  Then no state since the last flush is to be trusted. */
bool machine_no_memory(const struct machine *m);
/* Forgets all states.  The generation grows by one. */
void machine_flush(struct machine *m);
/* The same, and gives the memory back that the states had. */
void machine_shrink(struct machine *m);
/* Memory that the machine and its rules hold. */
size_t machine_bytes(const struct machine *m);
uint32_t machine_generation(const struct machine *m);

/* ---- for masks ---- */

const struct machine_pair *machine_pairs(const struct machine *m, uint32_t state, uint32_t *n);
struct expr_pool *machine_exprs(const struct machine *m);
uint32_t machine_n_states(const struct machine *m);

/* A state in which the same texts of up to `most` bytes may follow, and end: equal for many states that differ by a number of
 * characters that is still far.  Often the same one. */
uint32_t machine_far(struct machine *m, uint32_t state, uint32_t most);

/* The transitions of a state by class of byte (expr_classes): MACHINE_UNKNOWN until machine_next has been asked.  One that
 * took more than MACHINE_LIGHT steps to make has the bit MACHINE_HEAVY besides. */
#define MACHINE_UNKNOWN UINT32_MAX
enum { MACHINE_HEAVY = 1 << 30, MACHINE_LIGHT = 16 };
const uint32_t *machine_row(const struct machine *m, uint32_t state);
/* The work of a mask: begins a sum; the steps of a heavy transition, 0 if this sum has them already.  They are a function
 * of the state and the byte. */
void machine_begin_work(struct machine *m);
uint32_t machine_work(struct machine *m, uint32_t state, uint8_t byte);

/* A place of the source that the state is in ("#/properties/a"). */
const char *machine_place(const struct machine *m, uint32_t state);

#endif
