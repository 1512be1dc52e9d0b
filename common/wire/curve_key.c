#include "common/wire/curve_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

enum { KEY_BYTES = 32, MAX_KEY_FILE = 4096, MAX_PATH = 4096 };

enum status curve_pair_make(struct curve_pair *out)
{
    if (!zmq_has("curve"))
        FAIL(ST_UNSUPPORTED, "this build of ZeroMQ has no CURVE");
    if (zmq_curve_keypair(out->public_key, out->secret_key) != 0)
        FAIL(ST_UNSUPPORTED, "cannot make a key: %s", zmq_strerror(errno));
    return ST_OK;
}

bool curve_public_is_good(const char *key)
{
    uint8_t bytes[KEY_BYTES];
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  ".-:+=^!/*?&<>()[]{}@%$#";
    return strlen(key) == CURVE_TEXT && strspn(key, letters) == CURVE_TEXT &&
           zmq_z85_decode(bytes, key) != NULL;
}

static enum status write_new(const char *path, mode_t mode, const char *text)
{
    size_t n = strlen(text);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        FAIL(ST_IO, "%s: %s", path, strerror(errno));
    bool whole = write(fd, text, n) == (ssize_t)n;
    whole = fsync(fd) == 0 && whole;
    if (close(fd) == 0 && whole)
        return ST_OK;
    unlink(path);
    FAIL(ST_IO, "%s: it cannot be written", path);
}

enum status curve_pair_save(const struct curve_pair *p, const char *path)
{
    char text[256], public_path[MAX_PATH];
    if (snprintf(public_path, sizeof public_path, "%s.pub", path) >= (int)sizeof public_path)
        FAIL(ST_RANGE, "the path has %zu bytes: that is too long", strlen(path));
    snprintf(text, sizeof text, "public %s\nsecret %s\n", p->public_key, p->secret_key);
    TRY(write_new(path, 0600, text));
    snprintf(text, sizeof text, "public %s\n", p->public_key);
    enum status st = write_new(public_path, 0644, text);
    if (st != ST_OK)
        unlink(path);
    return st;
}

/* The key of the line that begins with name; false: there is no such line, or its key is not one. */
static bool line_of(const char *text, const char *name, char out[CURVE_SIZE])
{
    size_t n_name = strlen(name);
    for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
        if (strncmp(at, name, n_name) != 0 || at[n_name] != ' ')
            continue;
        size_t n = strcspn(at + n_name + 1, "\n");
        if (n != CURVE_TEXT)
            return false;
        memcpy(out, at + n_name + 1, CURVE_TEXT);
        out[CURVE_TEXT] = '\0';
        return curve_public_is_good(out);
    }
    return false;
}

enum status curve_pair_parse(struct curve_pair *out, const char *text, size_t n, bool with_secret)
{
    char copy[MAX_KEY_FILE + 1], derived[CURVE_SIZE];
    if (n > MAX_KEY_FILE || memchr(text, 0, n))
        FAIL(ST_FORMAT, "not a key file");
    memcpy(copy, text, n);
    copy[n] = '\0';
    *out = (struct curve_pair){.public_key = ""};
    if (!line_of(copy, "public", out->public_key))
        FAIL(ST_FORMAT, "not a key file: it has no line \"public KEY\"");
    if (!with_secret)
        return ST_OK;
    if (!line_of(copy, "secret", out->secret_key))
        FAIL(ST_FORMAT, "not a key file: it has no line \"secret KEY\"");
    if (zmq_curve_public(derived, out->secret_key) != 0)
        FAIL(ST_UNSUPPORTED, "this build of ZeroMQ has no CURVE");
    if (strcmp(derived, out->public_key) != 0)
        FAIL(ST_FORMAT, "its public key is not that of its secret key");
    return ST_OK;
}

static enum status load(struct curve_pair *out, const char *path, bool with_secret)
{
    char text[MAX_KEY_FILE + 1];
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        FAIL(ST_IO, "%s: %s", path, strerror(errno));
    ssize_t n = fstat(fd, &st) == 0 ? read(fd, text, sizeof text) : -1;
    close(fd);
    if (n < 0)
        FAIL(ST_IO, "%s: it cannot be read", path);
    if (with_secret && (st.st_mode & (S_IRWXG | S_IRWXO)))
        FAIL(ST_RANGE, "%s: others may read or write it (mode %03o): chmod 600", path,
             (unsigned)st.st_mode & 0777U);
    enum status s = curve_pair_parse(out, text, (size_t)n, with_secret);
    if (s != ST_OK) {
        char why[256];
        snprintf(why, sizeof why, "%s", status_text());
        FAIL(s, "%s: %s", path, why);
    }
    return ST_OK;
}

enum status curve_pair_load(struct curve_pair *out, const char *path)
{
    return load(out, path, true);
}

enum status curve_public_load(char out[CURVE_SIZE], const char *key_or_path)
{
    struct curve_pair p;
    /* a path of 40 characters may have the form of a key: a file that exists is meant */
    if (access(key_or_path, F_OK) != 0 && curve_public_is_good(key_or_path)) {
        memcpy(out, key_or_path, CURVE_SIZE);
        return ST_OK;
    }
    TRY(load(&p, key_or_path, false));
    memcpy(out, p.public_key, CURVE_SIZE);
    return ST_OK;
}
