/* The tokens that may follow in a state of a grammar's automaton, and the masks that were made. */
#ifndef COMMON_GRAMMAR_MASK_H
#define COMMON_GRAMMAR_MASK_H

#include "common/grammar/machine.h"
#include "common/grammar/token_trie.h"

enum {
    MASK_CACHE_BYTES = 16 << 20,
    MASK_MAX_WORK =
        1 << 20, /* steps of machine_work for one mask; each takes well below a microsecond */
};

struct mask_cache;

/* plain: the machine's expression of a plain character (charset_json_plain). */
MUST_CHECK enum status mask_cache_create(struct mask_cache **out, uint32_t plain);
void mask_cache_destroy(struct mask_cache *c);
/* Forgets all masks and gives their memory back. */
void mask_cache_shrink(struct mask_cache *c);
size_t mask_cache_bytes(const struct mask_cache *c);

/* The mask of a state, [trie->n_words], valid until the next call; NULL after a failure to get memory.  If the machine
 * ran full meanwhile, or making it took more than MASK_MAX_WORK (mask_too_dear), the mask is not kept and lacks tokens.
 * *hit: it was ready. */
const uint32_t *mask_of(struct mask_cache *c, struct machine *m, const struct token_trie *trie,
                        uint32_t state, bool *hit);
bool mask_too_dear(const struct mask_cache *c); /* the last one */

#endif
