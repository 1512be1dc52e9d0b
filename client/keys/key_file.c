#include "client/keys/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hex.h"
#include "common/json/json_read.h"
#include "common/json/json_write.h"
#include "common/random.h"

enum { MAX_LINE = 4096, PATH_SIZE = 4096, N_MEMBERS = 8, HASH_HEX = 2 * KEY_HASH_BYTES + 1 };
static const char prefix[] = "ingot-";

/* ---- keys ---- */

bool key_name_is_good(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\')
            return false;
    return n >= 1 && n < KEY_NAME_SIZE;
}

static bool is_id(const char *id, size_t n)
{
    return n == KEY_ID_SIZE - 1 && strspn(id, "0123456789abcdef") >= n;
}

bool key_id(const char *text, char id[KEY_ID_SIZE])
{
    size_t n = sizeof prefix - 1;
    if (strncmp(text, prefix, n) != 0 || strlen(text) != KEY_TEXT_SIZE - 1 ||
        !is_id(text + n, KEY_ID_SIZE - 1) || text[n + KEY_ID_SIZE - 1] != '-')
        return false;
    memcpy(id, text + n, KEY_ID_SIZE - 1);
    id[KEY_ID_SIZE - 1] = '\0';
    return true;
}

static bool hash_key(const uint8_t salt[KEY_SALT_BYTES], const char *text,
                     uint8_t out[KEY_HASH_BYTES])
{
    unsigned n = KEY_HASH_BYTES;
    return HMAC(EVP_sha256(), salt, KEY_SALT_BYTES, (const unsigned char *)text, strlen(text), out,
                &n) != NULL;
}

bool key_matches(const struct key_record *r, const char *text)
{
    uint8_t hash[KEY_HASH_BYTES];
    return hash_key(r->salt, text, hash) && CRYPTO_memcmp(hash, r->hash, sizeof hash) == 0;
}

/* ---- the list ---- */

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct key_record *)a)->id, ((const struct key_record *)b)->id);
}

static void sort(struct key_file *f)
{
    if (f->n)
        qsort(f->key, f->n, sizeof *f->key, compare);
}

struct key_record *key_file_find(const struct key_file *f, const char *id)
{
    struct key_record wanted = {.requests = 0};
    snprintf(wanted.id, sizeof wanted.id, "%s", id);
    return f->n ? bsearch(&wanted, f->key, f->n, sizeof *f->key, compare) : NULL;
}

static enum status append(struct key_file *f, const struct key_record *r)
{
    if (f->n == MAX_KEYS)
        FAIL(ST_RANGE, "more than %d keys", MAX_KEYS);
    if ((f->n & (f->n - 1)) == 0) { /* room for twice as many */
        struct key_record *p = realloc(f->key, (f->n ? 2 * f->n : 1) * sizeof *p);
        if (!p)
            FAIL(ST_NOMEM, "no memory for %zu keys", f->n);
        f->key = p;
    }
    f->key[f->n++] = *r;
    return ST_OK;
}

enum status key_file_add(struct key_file *f, const struct key_record *r, char text[KEY_TEXT_SIZE])
{
    struct key_record made = *r;
    uint8_t id[KEY_ID_BYTES], secret[KEY_SECRET_BYTES];
    char secret_text[2 * KEY_SECRET_BYTES + 1];
    do {
        random_bytes(id, sizeof id);
        hex_of(id, sizeof id, made.id);
    } while (key_file_find(f, made.id));
    random_bytes(secret, sizeof secret);
    random_bytes(made.salt, sizeof made.salt);
    hex_of(secret, sizeof secret, secret_text);
    snprintf(text, KEY_TEXT_SIZE, "%s%s-%s", prefix, made.id, secret_text);
    if (!hash_key(made.salt, text, made.hash))
        FAIL(ST_IO, "OpenSSL made no HMAC-SHA256");
    TRY(append(f, &made));
    sort(f);
    return ST_OK;
}

void key_file_remove(struct key_file *f, struct key_record *r)
{
    size_t i = (size_t)(r - f->key);
    memmove(r, r + 1, (f->n - i - 1) * sizeof *r);
    f->n--;
}

void key_file_free(struct key_file *f)
{
    free(f->key);
    *f = (struct key_file){0};
}

/* ---- reading ---- */

static enum status read_hex(struct json_cursor *c, uint8_t *out, size_t n)
{
    char text[HASH_HEX];
    TRY(json_read_chars(c, text, sizeof text));
    if (!hex_parse(text, out, n))
        return json_fail(c, ST_FORMAT, "not %zu hexadecimal digits", 2 * n);
    return ST_OK;
}

static enum status read_name(struct json_cursor *c, char out[KEY_NAME_SIZE])
{
    TRY(json_read_chars(c, out, KEY_NAME_SIZE));
    if (!key_name_is_good(out))
        return json_fail(c, ST_FORMAT, "not 1 to %d visible ASCII characters", KEY_NAME_SIZE - 1);
    return ST_OK;
}

static enum status read_u32(struct json_cursor *c, uint32_t *out)
{
    uint64_t v;
    TRY(json_read_u64(c, 0, UINT32_MAX, &v));
    *out = (uint32_t)v;
    return ST_OK;
}

static enum status read_member(struct json_cursor *c, struct json_span key, struct key_record *r)
{
    int64_t priority;
    if (json_span_is(key, "id")) {
        TRY(json_read_chars(c, r->id, sizeof r->id));
        return is_id(r->id, strlen(r->id)) ? ST_OK : json_fail(c, ST_FORMAT, "not an id of a key");
    }
    if (json_span_is(key, "name"))
        return read_name(c, r->name);
    if (json_span_is(key, "tenant"))
        return read_name(c, r->tenant);
    if (json_span_is(key, "salt"))
        return read_hex(c, r->salt, sizeof r->salt);
    if (json_span_is(key, "hash"))
        return read_hex(c, r->hash, sizeof r->hash);
    if (json_span_is(key, "requests"))
        return read_u32(c, &r->requests);
    if (json_span_is(key, "tokens_per_minute"))
        return read_u32(c, &r->tokens_per_minute);
    if (!json_span_is(key, "priority"))
        return json_fail(c, ST_UNSUPPORTED, "a member of that name is not known");
    TRY(json_read_i64(c, -KEY_MAX_PRIORITY, KEY_MAX_PRIORITY, &priority));
    r->priority = (int32_t)priority;
    return ST_OK;
}

static enum status read_record(struct key_record *r, const char *line, size_t n)
{
    static const struct json_limits limits = {.max_bytes = MAX_LINE, .max_depth = 2};
    struct json_cursor c;
    struct json_span key;
    size_t n_found = 0;
    *r = (struct key_record){.requests = 0};
    TRY(json_open(&c, line, n, &limits));
    TRY(json_enter_object(&c));
    while (json_next_key(&c, &key)) {
        TRY(read_member(&c, key, r));
        n_found++; /* equal keys are refused, unknown ones too: all are there when there are as many */
    }
    if (n_found < N_MEMBERS)
        FAIL(ST_FORMAT, "a key needs id, name, tenant, salt, hash, requests, tokens_per_minute and "
                        "priority");
    return ST_OK;
}

static enum status read_lines(struct key_file *out, FILE *f, const char *path)
{
    char line[MAX_LINE];
    for (unsigned i = 1; fgets(line, sizeof line, f); i++) {
        struct key_record r;
        size_t n = strlen(line);
        if (n == 0 || line[n - 1] != '\n')
            FAIL(ST_FORMAT, "%s:%u: the line is not whole, or has more than %d bytes", path, i,
                 MAX_LINE - 2);
        if (n == 1)
            continue;
        enum status st = read_record(&r, line, n - 1);
        if (st != ST_OK)
            FAIL(st, "%s:%u: %s", path, i, status_text());
        TRY(append(out, &r));
    }
    if (ferror(f))
        FAIL(ST_IO, "%s: %s", path, strerror(errno));
    sort(out);
    for (size_t i = 1; i < out->n; i++)
        if (strcmp(out->key[i - 1].id, out->key[i].id) == 0)
            FAIL(ST_FORMAT, "%s: two keys have the id %s", path, out->key[i].id);
    return ST_OK;
}

enum status key_file_read(struct key_file *out, FILE *f, const char *path)
{
    *out = (struct key_file){0};
    enum status st = read_lines(out, f, path);
    if (st != ST_OK)
        key_file_free(out);
    return st;
}

enum status key_file_load(struct key_file *out, const char *path)
{
    *out = (struct key_file){0};
    FILE *f = fopen(path, "re");
    if (!f)
        FAIL(errno == ENOENT ? ST_NOT_FOUND : ST_IO, "%s: %s", path, strerror(errno));
    enum status st = key_file_read(out, f, path);
    fclose(f);
    return st;
}

/* ---- writing ---- */

static void member_hex(struct json_writer *w, const char *name, const uint8_t *data, size_t n)
{
    char text[HASH_HEX];
    hex_of(data, n, text);
    json_member_string(w, name, text);
}

static enum status write_record(struct text_buf *out, const struct key_record *r)
{
    struct json_writer w = {.out = out};
    json_write_object(&w);
    json_member_string(&w, "id", r->id);
    json_member_string(&w, "name", r->name);
    json_member_string(&w, "tenant", r->tenant);
    member_hex(&w, "salt", r->salt, sizeof r->salt);
    member_hex(&w, "hash", r->hash, sizeof r->hash);
    json_member_u64(&w, "requests", r->requests);
    json_member_u64(&w, "tokens_per_minute", r->tokens_per_minute);
    json_member_i64(&w, "priority", r->priority);
    json_write_end_object(&w);
    TRY(w.status);
    return text_buf_append(out, "\n", 1);
}

/* Saving replaces the file: a lock of a file that is no longer at the path excludes no other process. */
static bool is_at_path(int fd, const char *path)
{
    struct stat locked, now;
    return fstat(fd, &locked) == 0 && stat(path, &now) == 0 && locked.st_ino == now.st_ino &&
           locked.st_dev == now.st_dev;
}

enum status key_file_lock(const char *path, int *fd)
{
    for (;;) {
        *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
        if (*fd < 0 || (flock(*fd, LOCK_EX) != 0 && errno != EINTR))
            break;
        if (is_at_path(*fd, path))
            return ST_OK;
        close(*fd);
    }
    int error = errno;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    FAIL(ST_IO, "%s: %s", path, strerror(error));
}

static enum status write_file(int fd, const struct text_buf *b, const char *path)
{
    for (size_t done = 0; done < b->len;) {
        ssize_t n = write(fd, b->data + done, b->len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            FAIL(ST_IO, "%s: %s", path, strerror(errno));
        done += (size_t)n;
    }
    if (fsync(fd) != 0)
        FAIL(ST_IO, "%s: %s", path, strerror(errno));
    return ST_OK;
}

/* Writes beside the file and renames: a reader sees the old file or the new one. */
static enum status replace(const char *path, const struct text_buf *b)
{
    char temporary[PATH_SIZE];
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= sizeof temporary)
        FAIL(ST_RANGE, "%s: the path is too long", path);
    int fd = mkstemp(temporary); /* with mode 0600 */
    if (fd < 0)
        FAIL(ST_IO, "%s: %s", temporary, strerror(errno));
    enum status st = write_file(fd, b, temporary);
    close(fd);
    if (st == ST_OK && rename(temporary, path) != 0)
        st = status_fail(ST_IO, __FILE__, __LINE__, "%s: %s", path, strerror(errno));
    if (st != ST_OK)
        unlink(temporary);
    return st;
}

enum status key_file_save(const struct key_file *f, const char *path)
{
    struct text_buf b = {0};
    enum status st = ST_OK;
    for (size_t i = 0; i < f->n && st == ST_OK; i++)
        st = write_record(&b, &f->key[i]);
    if (st == ST_OK)
        st = replace(path, &b);
    text_buf_free(&b);
    return st;
}
