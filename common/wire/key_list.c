#include "common/wire/key_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINE = 256, MAX_FILE = KEY_LIST_MAX * MAX_LINE, MAX_PATH = 4096 };

static const struct {
    const char *name;
    enum key_role role;
} roles[] = {{"ask", ROLE_ASK},
             {"observe", ROLE_OBSERVE},
             {"operate", ROLE_OPERATE},
             {"serve", ROLE_SERVE},
             {"act", ROLE_ACT}};

enum status key_roles_parse(unsigned *out, const char *text)
{
    unsigned all = 0;
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ","), i = 0;
        while (i < ARRAY_LEN(roles) &&
               (strlen(roles[i].name) != n || strncmp(roles[i].name, at, n) != 0))
            i++;
        if (i == ARRAY_LEN(roles))
            FAIL(ST_RANGE, "'%.*s' is none of ask, observe, operate, serve and act", (int)n, at);
        all |= roles[i].role;
        at += n;
        if (!*at)
            break;
    }
    *out = all;
    return ST_OK;
}

void key_roles_text(unsigned set, char out[KEY_LIST_ROLES])
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(roles); i++)
        if (set & roles[i].role)
            at += (size_t)snprintf(out + at, KEY_LIST_ROLES - at, "%s%s", at ? "," : "",
                                   roles[i].name);
}

bool key_list_name_is_good(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if (name[i] <= ' ' || name[i] > '~')
            return false;
    return n > 0 && n < KEY_LIST_NAME && name[0] != '#';
}

const struct key_grant *key_list_find(const struct key_list *l, const char *key)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->grant[i].key, key) == 0)
            return &l->grant[i];
    return NULL;
}

static enum status append(struct key_list *l, const struct key_grant *g)
{
    if (l->n == KEY_LIST_MAX)
        FAIL(ST_RANGE, "at most %d keys", KEY_LIST_MAX);
    struct key_grant *more = realloc(l->grant, (l->n + 1) * sizeof *more);
    if (!more)
        FAIL(ST_NOMEM, "no memory for %zu keys", l->n + 1);
    l->grant = more;
    l->grant[l->n++] = *g;
    return ST_OK;
}

enum status key_list_add(struct key_list *l, const struct key_grant *g)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->grant[i].name, g->name) == 0)
            FAIL(ST_RANGE, "the name %s is taken", g->name);
    const struct key_grant *same = key_list_find(l, g->key);
    if (same)
        FAIL(ST_RANGE, "the key is there already, as %s", same->name);
    return append(l, g);
}

bool key_list_remove(struct key_list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->grant[i].name, name) != 0)
            continue;
        memmove(&l->grant[i], &l->grant[i + 1], (--l->n - i) * sizeof *l->grant);
        return true;
    }
    return false;
}

/* One line without its end. */
static enum status parse_line(struct key_list *l, const char *line, size_t n)
{
    char copy[MAX_LINE], *save = NULL;
    struct key_grant g = {.roles = 0};
    if (n >= sizeof copy || memchr(line, 0, n))
        FAIL(ST_FORMAT, "it is too long, or has a NUL");
    memcpy(copy, line, n);
    copy[n] = '\0';
    const char *name = strtok_r(copy, " ", &save), *role = strtok_r(NULL, " ", &save),
               *key = strtok_r(NULL, " ", &save);
    if (!key || strtok_r(NULL, " ", &save))
        FAIL(ST_FORMAT, "it does not have a name, roles and a key");
    if (!key_list_name_is_good(name))
        FAIL(ST_FORMAT, "the name is not 1 to %d visible ASCII characters", KEY_LIST_NAME - 1);
    if (!curve_public_is_good(key))
        FAIL(ST_FORMAT, "the key is not %d characters of Z85", CURVE_TEXT);
    snprintf(g.name, sizeof g.name, "%s", name);
    memcpy(g.key, key, CURVE_SIZE);
    TRY(key_roles_parse(&g.roles, role));
    return key_list_add(l, &g);
}

enum status key_list_parse(struct key_list *out, const char *text, size_t n)
{
    *out = (struct key_list){.n = 0};
    size_t number = 1;
    for (size_t at = 0; at < n; number++) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t len = end ? (size_t)(end - (text + at)) : n - at;
        bool blank = len == 0 || text[at] == '#';
        enum status st = blank ? ST_OK : parse_line(out, text + at, len);
        if (st != ST_OK) {
            char why[256];
            snprintf(why, sizeof why, "%s", status_text());
            key_list_free(out);
            FAIL(st == ST_NOMEM ? st : ST_FORMAT, "line %zu: %s", number, why);
        }
        at += len + 1;
    }
    return ST_OK;
}

static enum status read_all(const char *path, char **out, size_t *n)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        FAIL(ST_IO, "%s: %s", path, strerror(errno));
    bool known = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= MAX_FILE;
    *out = known ? malloc((size_t)st.st_size + 1) : NULL;
    ssize_t got = *out ? read(fd, *out, (size_t)st.st_size + 1) : -1;
    close(fd);
    if (got < 0) {
        free(*out);
        FAIL(ST_IO, "%s: it cannot be read", path);
    }
    *n = (size_t)got;
    if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        free(*out);
        FAIL(ST_RANGE, "%s: others may write it (mode %03o): chmod 600", path,
             (unsigned)st.st_mode & 0777U);
    }
    return ST_OK;
}

enum status key_list_load(struct key_list *out, const char *path)
{
    char *text = NULL, why[300];
    size_t n = 0;
    *out = (struct key_list){.n = 0};
    TRY(read_all(path, &text, &n));
    enum status st = key_list_parse(out, text, n);
    free(text);
    if (st == ST_OK)
        return ST_OK;
    snprintf(why, sizeof why, "%s", status_text());
    FAIL(st, "%s: %s", path, why);
}

enum status key_list_save(const struct key_list *l, const char *path)
{
    char draft[MAX_PATH], text[KEY_LIST_ROLES];
    if (snprintf(draft, sizeof draft, "%s.new", path) >= (int)sizeof draft)
        FAIL(ST_RANGE, "the path has %zu bytes: that is too long", strlen(path));
    unlink(draft); /* of a command that was killed */
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f)
        FAIL(ST_IO, "%s: %s", draft, strerror(errno));
    fputs("# Keys that may connect: name, roles, public key.  `ingot key` keeps this file.\n", f);
    for (size_t i = 0; i < l->n; i++) {
        key_roles_text(l->grant[i].roles, text);
        fprintf(f, "%s %s %s\n", l->grant[i].name, text, l->grant[i].key);
    }
    bool whole = fflush(f) == 0 && fsync(fd) == 0 && !ferror(f);
    if (fclose(f) != 0 || !whole || rename(draft, path) != 0) {
        unlink(draft);
        FAIL(ST_IO, "%s: it cannot be written", path);
    }
    return ST_OK;
}

void key_list_free(struct key_list *l)
{
    free(l->grant);
    *l = (struct key_list){.n = 0};
}
