/* A JSON Schema as a tree of JSON values that can be read in any order, and the pointers in it ($ref).  Nodes are
 * numbers; node 0 is the whole document.  Borrows the text. */
#ifndef COMMON_GRAMMAR_SCHEMA_TREE_H
#define COMMON_GRAMMAR_SCHEMA_TREE_H

#include "common/grammar/schema_style.h"
#include "common/grammar/work.h"
#include "common/json/json_read.h"

enum { SCHEMA_MAX_BYTES = 4 << 20, SCHEMA_MAX_DEPTH = 128 };
#define SCHEMA_NO_NODE UINT32_MAX

struct schema_node {
    enum json_type type;
    struct json_span key;   /* in its object, as written */
    struct json_span value; /* of a string what is between the quotes, else the whole text */
    uint32_t first, next, parent;
    uint32_t n;     /* members, items */
    uint32_t index; /* among its parent's */
};

struct schema_tree {
    struct schema_node *nodes;
    uint32_t n, cap;
    uint32_t *table; /* [n_table] nodes + 1 by hash of parent and key, or index; a power of two */
    uint32_t n_table;
    struct grammar_work *work; /* of reading and looking; NULL: not counted */
};

/* ST_FORMAT, ST_RANGE, ST_NOMEM as json_open, and: equal keys.  After a failure there is nothing to free. */
MUST_CHECK enum status schema_tree_read(struct schema_tree *t, const char *text, size_t n,
                                        struct grammar_work *work);
void schema_tree_free(struct schema_tree *t);

/* The member of an object, SCHEMA_NO_NODE: none, or no object. */
uint32_t schema_member(const struct schema_tree *t, uint32_t node, const char *name);
/* The same, of a key with that text of n bytes. */
uint32_t schema_find(const struct schema_tree *t, uint32_t node, const char *text, size_t n);
/* Item i of an array; SCHEMA_NO_NODE: it is shorter, or no array. */
uint32_t schema_item(const struct schema_tree *t, uint32_t node, uint32_t i);
/* The node that a reference names: "#", "#/a/b~1c/0" (RFC 6901, percent-decoded), "#anchor".
 * SCHEMA_NO_NODE: it is not in the document. */
uint32_t schema_resolve(const struct schema_tree *t, struct json_span ref);

/* The member of object b with the key of node i, a member of another object. */
uint32_t schema_same_member(const struct schema_tree *t, uint32_t i, uint32_t b);

bool schema_is(const struct schema_tree *t, uint32_t node,
               const char *text); /* a string with that text? */
/* Are two values equal (numbers by value, objects whatever their order)? */
bool schema_equal(const struct schema_tree *t, uint32_t a, uint32_t b);
/* Appends the value without white space, in a style. */
MUST_CHECK enum status schema_write(const struct schema_tree *t, const struct schema_style *style,
                                    uint32_t node, struct text_buf *out);

/* "#/properties/a/items" of a node; longer than size - 1, its middle is "...".  Returns out. */
const char *schema_path(const struct schema_tree *t, uint32_t node, char *out, size_t size);

#endif
