#include "common/secret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static enum status read_file(struct secret *out, const char *path)
{
    char bytes[SECRET_MAX + 2];
    FILE *f = fopen(path, "re");
    if (!f)
        FAIL(ST_IO, "%s: %s", path, strerror(errno));
    size_t n = fread(bytes, 1, sizeof bytes, f);
    bool failed = ferror(f);
    fclose(f);
    if (failed)
        FAIL(ST_IO, "%s: it cannot be read", path);
    n -= n > 0 && bytes[n - 1] == '\n';
    if (n < SECRET_MIN || n > SECRET_MAX)
        FAIL(ST_RANGE, "%s: a secret has %d to %d bytes", path, SECRET_MIN, SECRET_MAX);
    memcpy(out->bytes, bytes, n);
    out->n = n;
    return ST_OK;
}

enum status secret_load(struct secret *out, const char *path, const char *text)
{
    size_t n = text ? strlen(text) : 0;
    out->n = 0;
    if (path)
        return read_file(out, path);
    if (n && (n < SECRET_MIN || n > SECRET_MAX))
        FAIL(ST_RANGE, "a secret has %d to %d bytes, not %zu", SECRET_MIN, SECRET_MAX, n);
    if (n)
        memcpy(out->bytes, text, n);
    out->n = n;
    return ST_OK;
}

bool secret_equal(const struct secret *s, const void *data, size_t n)
{
    const unsigned char *p = data;
    unsigned differs = s->n != n || n == 0;
    for (size_t i = 0; i < s->n; i++)
        differs |= (unsigned char)s->bytes[i] ^ (i < n ? p[i] : 0U);
    return differs == 0;
}
