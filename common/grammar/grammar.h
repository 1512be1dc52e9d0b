/* Grammars that an answer must follow, and what follows from them for tokens: which tokens may come next.
 *
 *   struct grammar    a compiled source with its automaton.  Created from the source; every process that compiles the
 *                     same source gets the same grammar.  Its automaton grows as it is used (machine.h has the bounds),
 *                     so a grammar and its matchers belong to one thread at a time.
 *   struct matcher    a place in a text of that grammar: the bytes so far.  Borrows its grammar.  A matcher can be
 *                     rebuilt by consuming the same bytes again: its answers are a function of source and bytes alone.
 *   struct token_trie the vocabulary (token_trie.h).
 *
 * What compiles is bounded: GRAMMAR_MAX_BYTES of source, GRAMMAR_MAX_WORK steps of work (work.h), and the MAX of rules.h,
 * expr.h, regex_parse.h and gbnf_parse.h; beyond them there is an error, never a long wait. */
#ifndef COMMON_GRAMMAR_GRAMMAR_H
#define COMMON_GRAMMAR_GRAMMAR_H

#include <stdatomic.h>

#include "common/grammar/grammar_source.h"
#include "common/grammar/thinking.h"
#include "common/grammar/token_trie.h"

struct grammar;
struct matcher;

enum { GRAMMAR_MAX_WORK = 1 << 24 }; /* steps of one compile */

/* ST_FORMAT: no text can satisfy it, or it is no schema, expression ...; ST_UNSUPPORTED: it uses what is not read;
 * ST_RANGE: too large, or too much work; the text names the place (a JSON path, a byte of the expression, a line).  stop: set by
 * another thread when the grammar is no longer wanted, then ST_CANCELED soon; NULL: never. */
MUST_CHECK enum status grammar_compile(struct grammar **out, const struct grammar_source *source,
                                       const atomic_bool *stop);
void grammar_destroy(struct grammar *g);

/* The budget of thinking that it has, or NULL; its matchers know nothing of it.  With grammar_is_open they allow any text
 * but special tokens: they are of no use. */
const struct thinking_rule *grammar_thinking(const struct grammar *g);
bool grammar_is_open(const struct grammar *g);

/* Bytes of memory that it holds; after compiling, a function of the source. */
size_t grammar_bytes(const struct grammar *g);
/* Gives the memory back that its automaton and masks took since it was compiled.  Its matchers stay valid: they consume
 * their bytes again when they are used next. */
void grammar_shrink(struct grammar *g);

/* ---- matchers ---- */

MUST_CHECK enum status matcher_create(struct matcher **out, struct grammar *g);
void matcher_destroy(struct matcher *m);
/* A new matcher at the same place. */
MUST_CHECK enum status matcher_copy(struct matcher **out, const struct matcher *m);

/* Adds bytes.  *ok false: the grammar has no text that goes on so; the matcher is unchanged.  ST_NOMEM. */
MUST_CHECK enum status matcher_consume(struct matcher *m, const void *bytes, size_t n, bool *ok);
/* Takes back the last n bytes (n <= matcher_n_bytes). */
void matcher_rollback(struct matcher *m, size_t n);
size_t matcher_n_bytes(const struct matcher *m);
void matcher_reset(struct matcher *m); /* takes back all */

/* May the text end here? */
bool matcher_accepts(struct matcher *m);
/* Where in the source the text is: "#/properties/a" of a schema or of tags, "line 2, rule list" of a context-free grammar, of
 * others "#".  Valid until the next call. */
const char *matcher_place(struct matcher *m);

/* Sets mask[trie->n_words]: bit i of word w is token 32 w + i, which may come next.  Tokens without bytes, so special
 * ones, never; a special one that may be named by structural tags has GRAMMAR_SPECIAL and its spelling as bytes.  *n
 * gets how many may, *only one of them; *cached: the mask was found ready.  ST_NOMEM; ST_RANGE: making it takes more than a
 * bound of steps or of states, whatever was made before: a function of source, bytes and trie.  A grammar is used with one
 * trie. */
MUST_CHECK enum status matcher_mask(struct matcher *m, const struct token_trie *trie,
                                    uint32_t *mask, uint32_t *n, int32_t *only, bool *cached);

/* Steps that compiling it took: a function of the source. */
uint64_t grammar_work(const struct grammar *g);

/* States of its automaton so far. */
uint32_t grammar_n_states(const struct grammar *g);

#endif
