#include "coordinator/tokenizer/stop.h"

#include <stdlib.h>

#include "common/utf8.h"

struct stop_node {
    uint16_t depth;      /* bytes of the prefix that this state stands for */
    uint16_t fail;       /* the longest proper suffix that is a prefix, too */
    int16_t match;       /* longest string that ends here, -1: none */
    uint16_t next[256];  /* complete: a state for every byte */
    unsigned char bytes; /* the byte that leads here */
    uint16_t parent;
};

struct stop_set {
    uint16_t n;
    uint16_t lengths[STOP_MAX_STRINGS]; /* bytes */
    struct stop_node nodes[];
};

static enum status check(const struct tok_text *strings, size_t n, size_t *total)
{
    *total = 0;
    if (n > STOP_MAX_STRINGS)
        FAIL(ST_RANGE, "stop: %zu strings are more than %d", n, STOP_MAX_STRINGS);
    for (size_t i = 0; i < n; i++) {
        if (strings[i].len == 0)
            FAIL(ST_RANGE, "stop[%zu] is empty", i);
        if (strings[i].len > STOP_MAX_BYTES - *total)
            FAIL(ST_RANGE, "stop[%zu]: the strings have more than %d bytes", i, STOP_MAX_BYTES);
        if (!utf8_valid(strings[i].data, strings[i].len))
            FAIL(ST_FORMAT, "stop[%zu] is not UTF-8", i);
        *total += strings[i].len;
    }
    return ST_OK;
}

static void insert(struct stop_set *s, struct tok_text string, int16_t index)
{
    uint16_t node = 0;
    for (size_t i = 0; i < string.len; i++) {
        unsigned char c = (unsigned char)string.data[i];
        if (!s->nodes[node].next[c]) {
            struct stop_node *child = &s->nodes[s->n];
            child->depth = (uint16_t)(i + 1);
            child->match = -1;
            child->bytes = c;
            child->parent = node;
            s->nodes[node].next[c] = s->n++;
        }
        node = s->nodes[node].next[c];
    }
    if (s->nodes[node].match < 0)
        s->nodes[node].match = index;
}

/* Nodes in order of depth: failure links, and a next state for every byte. */
static enum status complete(struct stop_set *s)
{
    uint16_t *queue = malloc(s->n * sizeof *queue), head = 0, tail = 0;
    if (!queue)
        FAIL(ST_NOMEM, "no memory for stop strings");
    for (int c = 0; c < 256; c++)
        if (s->nodes[0].next[c])
            queue[tail++] = s->nodes[0].next[c];
    while (head < tail) {
        struct stop_node *node = &s->nodes[queue[head++]];
        if (node->match < 0)
            node->match = s->nodes[node->fail].match;
        for (int c = 0; c < 256; c++) {
            uint16_t child = node->next[c], other = s->nodes[node->fail].next[c];
            if (child) {
                s->nodes[child].fail = other;
                queue[tail++] = child;
            } else {
                node->next[c] = other;
            }
        }
    }
    free(queue);
    return ST_OK;
}

enum status stop_set_create(struct stop_set **out, const struct tok_text *strings, size_t n)
{
    size_t total;
    *out = NULL;
    TRY(check(strings, n, &total));
    struct stop_set *s = calloc(1, sizeof *s + (total + 1) * sizeof s->nodes[0]);
    if (!s)
        FAIL(ST_NOMEM, "no memory for %zu stop strings", n);
    s->n = 1;
    s->nodes[0].match = -1;
    for (size_t i = 0; i < n; i++) {
        s->lengths[i] = (uint16_t)strings[i].len;
        insert(s, strings[i], (int16_t)i);
    }
    enum status st = complete(s);
    if (st != ST_OK)
        free(s);
    else
        *out = s;
    return st;
}

void stop_set_destroy(struct stop_set *s)
{
    free(s);
}

/* Appends the first n bytes of the prefix that state stands for. */
static enum status put_held(const struct stop_set *set, uint16_t state, size_t n,
                            struct text_buf *out)
{
    TRY(text_buf_reserve(out, n));
    for (uint16_t at = state; at; at = set->nodes[at].parent)
        if (set->nodes[at].depth <= n)
            out->data[out->len + set->nodes[at].depth - 1] = (char)set->nodes[at].bytes;
    out->len += n;
    return ST_OK;
}

enum status stop_push(struct stop_stream *s, const char *text, size_t n, struct text_buf *out)
{
    if (s->done)
        return ST_OK;
    if (!s->set)
        return text_buf_append(out, text, n);
    const struct stop_node *nodes = s->set->nodes;
    /* What was held and the new text are one: the old state's prefix, then text[0, i]. */
    uint16_t old = s->state;
    size_t held = nodes[old].depth;
    for (size_t i = 0; i < n; i++) {
        s->state = nodes[s->state].next[(unsigned char)text[i]];
        const struct stop_node *node = &nodes[s->state];
        bool hit = node->match >= 0 && !s->asleep;
        size_t keep = hit ? (s->include ? 0 : s->set->lengths[node->match]) : node->depth;
        size_t pending = held + i + 1;
        if (!hit && i + 1 < n)
            continue;
        size_t give = pending - keep, from_held = give < held ? give : held;
        /* The held bytes are the front of the old state's prefix. */
        TRY(put_held(s->set, old, from_held, out));
        TRY(text_buf_append(out, text, give - from_held));
        if (hit) {
            s->done = true;
            s->matched = node->match;
            s->state = 0;
            return ST_OK;
        }
    }
    return ST_OK;
}

enum status stop_flush(struct stop_stream *s, struct text_buf *out)
{
    uint16_t state = s->state;
    s->state = 0;
    return s->done || !s->set ? ST_OK : put_held(s->set, state, s->set->nodes[state].depth, out);
}
