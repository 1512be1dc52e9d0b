#include "worker/quantize/gguf_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/text/text_buf.h"

enum { ALIGNMENT = 32 };

struct gguf_writer {
    const char *path;
    char *temp; /* name of the file while it grows; NULL: none yet */
    int fd;
    struct text_buf keys, table;
    uint64_t n_keys, n_tensors, n_data; /* bytes of data that the table promises */
    uint64_t *end;                      /* [n_tensors] of each tensor's data, unpadded */
    size_t cap;
    uint64_t i_tensor, at; /* being written; bytes of data so far */
};

static uint64_t padded(uint64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

enum status gguf_writer_create(struct gguf_writer **out, const char *path)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        FAIL(ST_NOMEM, "no memory");
    (*out)->path = path;
    (*out)->fd = -1;
    return ST_OK;
}

void gguf_writer_destroy(struct gguf_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->temp)
        unlink(w->temp);
    free(w->temp);
    free(w->end);
    text_buf_free(&w->keys);
    text_buf_free(&w->table);
    free(w);
}

static enum status put_int(struct text_buf *b, uint64_t v, size_t n)
{
    char bytes[8];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(unsigned char)(v >> 8 * i);
    return text_buf_append(b, bytes, n);
}

static enum status put_text(struct text_buf *b, const char *s, size_t n)
{
    TRY(put_int(b, n, 8));
    return text_buf_append(b, s, n);
}

/* ---- keys ---- */

static enum status begin_key(struct gguf_writer *w, const char *key, enum gguf_type type)
{
    w->n_keys++;
    TRY(put_text(&w->keys, key, strlen(key)));
    return put_int(&w->keys, type, 4);
}

enum status gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v)
{
    TRY(begin_key(w, key, GGUF_U32));
    return put_int(&w->keys, v, 4);
}

enum status gguf_put_f32(struct gguf_writer *w, const char *key, float v)
{
    TRY(begin_key(w, key, GGUF_F32));
    return put_int(&w->keys, bits_of_f32(v), 4);
}

enum status gguf_put_bool(struct gguf_writer *w, const char *key, bool v)
{
    TRY(begin_key(w, key, GGUF_BOOL));
    return put_int(&w->keys, v, 1);
}

enum status gguf_put_str(struct gguf_writer *w, const char *key, const char *s, size_t n)
{
    TRY(begin_key(w, key, GGUF_STRING));
    return put_text(&w->keys, s, n);
}

enum status gguf_begin_array(struct gguf_writer *w, const char *key, enum gguf_type type, size_t n)
{
    TRY(begin_key(w, key, GGUF_ARRAY));
    TRY(put_int(&w->keys, type, 4));
    return put_int(&w->keys, n, 8);
}

enum status gguf_item_str(struct gguf_writer *w, const char *s, size_t n)
{
    return put_text(&w->keys, s, n);
}

enum status gguf_item_32(struct gguf_writer *w, uint32_t bits)
{
    return put_int(&w->keys, bits, 4);
}

enum status gguf_item_bool(struct gguf_writer *w, bool v)
{
    return put_int(&w->keys, v, 1);
}

enum status gguf_put_raw(struct gguf_writer *w, struct gguf_str key, enum gguf_type type,
                         const void *value, size_t n)
{
    w->n_keys++;
    TRY(put_text(&w->keys, key.data, key.len));
    TRY(put_int(&w->keys, type, 4));
    return text_buf_append(&w->keys, value, n);
}

/* ---- tensors ---- */

static enum status add_end(struct gguf_writer *w, uint64_t end)
{
    if (w->n_tensors == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 256;
        uint64_t *p = realloc(w->end, cap * sizeof *p);
        if (!p)
            FAIL(ST_NOMEM, "no memory for %zu tensors", cap);
        w->end = p;
        w->cap = cap;
    }
    w->end[w->n_tensors++] = end;
    return ST_OK;
}

enum status gguf_put_tensor(struct gguf_writer *w, const char *name, enum ggml_type type,
                            int32_t n_dims, const uint64_t *shape)
{
    const struct ggml_type_info *info = ggml_type_info(type);
    uint64_t n = 1;
    TRY(put_text(&w->table, name, strlen(name)));
    TRY(put_int(&w->table, (uint64_t)n_dims, 4));
    for (int32_t i = n_dims; i-- > 0; n *= shape[i])
        TRY(put_int(&w->table, shape[i], 8));
    if (!info || n_dims < 1 || shape[n_dims - 1] % info->block)
        FAIL(ST_BUG, "tensor %s: rows are not whole blocks", name);
    TRY(put_int(&w->table, type, 4));
    TRY(put_int(&w->table, w->n_data, 8));
    uint64_t end = w->n_data + n / info->block * info->bytes;
    w->n_data = padded(end);
    return add_end(w, end);
}

static uint64_t head_size(const struct gguf_writer *w)
{
    return padded(24 + w->keys.len + w->table.len);
}

uint64_t gguf_writer_size(const struct gguf_writer *w)
{
    return head_size(w) + w->n_data;
}

/* ---- data ---- */

static enum status write_all(struct gguf_writer *w, const void *data, size_t n)
{
    for (const char *p = data; n;) {
        ssize_t k = write(w->fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            FAIL(ST_IO, "cannot write %s: %s", w->path, k < 0 ? strerror(errno) : "no progress");
        p += k;
        n -= (size_t)k;
    }
    return ST_OK;
}

static enum status write_zeros(struct gguf_writer *w, size_t n)
{
    static const char zeros[ALIGNMENT];
    return write_all(w, zeros, n);
}

/* A file of its own beside the path, with the permissions of a plain new file. */
static enum status open_temp(struct gguf_writer *w)
{
    size_t n = strlen(w->path) + 12;
    char *temp = malloc(n);
    if (!temp)
        FAIL(ST_NOMEM, "no memory");
    snprintf(temp, n, "%s.tmpXXXXXX", w->path);
    w->fd = mkstemp(temp);
    if (w->fd < 0) {
        free(temp);
        FAIL(ST_IO, "cannot create a file beside %s: %s", w->path, strerror(errno));
    }
    w->temp = temp;
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(w->fd, 0666 & ~mask) != 0)
        FAIL(ST_IO, "cannot set the permissions of %s: %s", w->temp, strerror(errno));
    return ST_OK;
}

enum status gguf_begin_data(struct gguf_writer *w)
{
    struct text_buf head = {0};
    enum status st = text_buf_append(&head, "GGUF", 4);
    if (st == ST_OK)
        st = put_int(&head, 3, 4);
    if (st == ST_OK)
        st = put_int(&head, w->n_tensors, 8);
    if (st == ST_OK)
        st = put_int(&head, w->n_keys, 8);
    if (st == ST_OK)
        st = open_temp(w);
    if (st == ST_OK)
        st = write_all(w, head.data, head.len);
    text_buf_free(&head);
    TRY(st);
    TRY(write_all(w, w->keys.data, w->keys.len));
    TRY(write_all(w, w->table.data, w->table.len));
    return write_zeros(w, head_size(w) - 24 - w->keys.len - w->table.len);
}

enum status gguf_write_data(struct gguf_writer *w, const void *data, size_t n)
{
    w->at += n;
    return write_all(w, data, n);
}

enum status gguf_end_tensor(struct gguf_writer *w)
{
    if (w->i_tensor == w->n_tensors || w->at != w->end[w->i_tensor])
        FAIL(ST_BUG, "tensor %llu: its data is not as long as its shape says",
             (unsigned long long)w->i_tensor);
    size_t gap = (size_t)(padded(w->at) - w->at);
    w->i_tensor++;
    w->at += gap;
    return write_zeros(w, gap);
}

enum status gguf_finish(struct gguf_writer *w)
{
    if (w->i_tensor != w->n_tensors)
        FAIL(ST_BUG, "%llu of %llu tensors were written", (unsigned long long)w->i_tensor,
             (unsigned long long)w->n_tensors);
    if (fsync(w->fd) != 0)
        FAIL(ST_IO, "cannot write %s: %s", w->path, strerror(errno));
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0)
        FAIL(ST_IO, "cannot write %s: %s", w->path, strerror(errno));
    if (rename(w->temp, w->path) != 0)
        FAIL(ST_IO, "cannot rename %s to %s: %s", w->temp, w->path, strerror(errno));
    free(w->temp);
    w->temp = NULL;
    return ST_OK;
}
