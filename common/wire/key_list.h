/* The file of keys that may connect: one line a key, "NAME ROLE,ROLE KEY"; lines that begin with # are comments.
 * Written by `ingot key`, read by the coordinator. */
#ifndef COMMON_WIRE_KEY_LIST_H
#define COMMON_WIRE_KEY_LIST_H

#include "common/wire/curve_key.h"

enum { KEY_LIST_NAME = 65 /* with NUL */, KEY_LIST_ROLES = 64, KEY_LIST_MAX = 4096 };

enum key_role {
    ROLE_ASK = 1,     /* generate, cancel, tokenize */
    ROLE_OBSERVE = 2, /* statistics */
    ROLE_OPERATE = 4, /* drain */
    ROLE_SERVE = 8,   /* worker groups */
    ROLE_ACT = 16,    /* requests may name any tenant: gateways */
};

struct key_grant {
    char name[KEY_LIST_NAME];
    unsigned roles; /* of enum key_role */
    char key[CURVE_SIZE];
};

struct key_list {
    struct key_grant *grant; /* [n] in the file's order */
    size_t n;
};

/* ST_FORMAT: the line that is wrong, and why; two lines of one name or one key; ST_NOMEM. */
MUST_CHECK enum status key_list_parse(struct key_list *out, const char *text, size_t n);
/* ST_IO: also if there is no file; ST_RANGE: others may write it. */
MUST_CHECK enum status key_list_load(struct key_list *out, const char *path);
/* Replaces the file as a whole, with mode 0600. */
MUST_CHECK enum status key_list_save(const struct key_list *l, const char *path);
void key_list_free(struct key_list *l);

/* NULL: none. */
const struct key_grant *key_list_find(const struct key_list *l, const char *key);
/* ST_RANGE: the name or the key is there already. */
MUST_CHECK enum status key_list_add(struct key_list *l, const struct key_grant *g);
/* false: no key has that name. */
bool key_list_remove(struct key_list *l, const char *name);

/* "ask,observe"; ST_RANGE names a word that is no role. */
MUST_CHECK enum status key_roles_parse(unsigned *out, const char *text);
void key_roles_text(unsigned roles, char out[KEY_LIST_ROLES]);
/* 1 to 64 visible ASCII characters; the first is not #. */
bool key_list_name_is_good(const char *name);

#endif
