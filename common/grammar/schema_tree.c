#include "common/grammar/schema_tree.h"

#include <stdio.h>

#include "common/grammar/growing.h"
#include "common/hash.h"

enum { MAX_NODES = SCHEMA_MAX_BYTES };

/* ---- reading ---- */

static enum status read_value(struct schema_tree *t, struct json_cursor *c, uint32_t parent,
                              struct json_span key, uint32_t *out);

static enum status read_children(struct schema_tree *t, struct json_cursor *c, uint32_t node)
{
    bool object = t->nodes[node].type == JSON_OBJECT;
    uint32_t last = SCHEMA_NO_NODE, child;
    struct json_span key = {"", 0};
    TRY(object ? json_enter_object(c) : json_enter_array(c));
    while (object ? json_next_key(c, &key) : json_next_item(c)) {
        TRY(read_value(t, c, node, key, &child));
        if (last == SCHEMA_NO_NODE)
            t->nodes[node].first = child;
        else
            t->nodes[last].next = child;
        last = child;
        t->nodes[child].index = t->nodes[node].n++;
    }
    return ST_OK;
}

static enum status read_value(struct schema_tree *t, struct json_cursor *c, uint32_t parent,
                              struct json_span key, uint32_t *out)
{
    TRY(GROW(&t->nodes, &t->cap, (size_t)t->n + 1, MAX_NODES, "the values of a schema"));
    struct schema_node n = {.type = json_peek(c),
                            .key = key,
                            .first = SCHEMA_NO_NODE,
                            .next = SCHEMA_NO_NODE,
                            .parent = parent};
    bool holds = n.type == JSON_OBJECT || n.type == JSON_ARRAY;
    size_t begin = c->at;
    if (!holds)
        n.value = json_read_raw(c);
    if (n.type == JSON_STRING) {
        n.value.p++;
        n.value.n -= 2;
    }
    *out = t->n;
    t->nodes[t->n++] = n;
    work_spend(t->work, 8 + n.value.n / 16);
    TRY(work_check(t->work));
    if (holds)
        TRY(read_children(t, c, *out));
    if (holds) /* the cursor is behind what it has read to its end */
        t->nodes[*out].value = (struct json_span){c->text + begin, c->at - begin};
    return ST_OK;
}

/* ---- children by name or index ---- */

static void table_put(struct schema_tree *t, uint32_t node, const void *key, size_t n)
{
    uint32_t mask = t->n_table - 1;
    uint32_t at = (uint32_t)hash_bytes(t->nodes[node].parent, key, n) & mask;
    for (; t->table[at]; at = (at + 1) & mask)
        work_spend(t->work, 1);
    t->table[at] = node + 1;
    work_spend(t->work, 4 + n / 16);
}

static enum status index_node(struct schema_tree *t, uint32_t node, struct text_buf *scratch)
{
    scratch->len = 0;
    if (t->nodes[t->nodes[node].parent].type == JSON_OBJECT) {
        TRY(json_span_text(t->nodes[node].key, scratch));
        table_put(t, node, scratch->data, scratch->len);
    } else {
        table_put(t, node, &t->nodes[node].index, sizeof t->nodes[node].index);
    }
    return work_check(t->work);
}

static enum status index_nodes(struct schema_tree *t)
{
    struct text_buf scratch = {0};
    enum status st = ST_OK;
    t->n_table = 16;
    while (t->n_table < 2 * t->n)
        t->n_table *= 2;
    t->table = calloc(t->n_table, sizeof *t->table);
    if (!t->table)
        FAIL(ST_NOMEM, "no memory for the %u values of a schema", t->n);
    for (uint32_t i = 1; i < t->n && st == ST_OK; i++)
        st = index_node(t, i, &scratch);
    text_buf_free(&scratch);
    return st;
}

enum status schema_tree_read(struct schema_tree *t, const char *text, size_t n,
                             struct grammar_work *work)
{
    struct json_limits limits = {SCHEMA_MAX_BYTES, SCHEMA_MAX_DEPTH};
    struct json_cursor c;
    uint32_t root;
    *t = (struct schema_tree){.work = work};
    TRY(json_open(&c, text, n, &limits));
    enum status st = read_value(t, &c, SCHEMA_NO_NODE, (struct json_span){"", 0}, &root);
    if (st == ST_OK)
        st = index_nodes(t);
    if (st != ST_OK)
        schema_tree_free(t);
    return st;
}

void schema_tree_free(struct schema_tree *t)
{
    free(t->nodes);
    free(t->table);
    *t = (struct schema_tree){0};
}

/* ---- looking ---- */

/* The text of a string of the source; false: there is no memory, and the compile fails. */
static bool read_text(const struct schema_tree *t, struct json_span s, struct text_buf *out)
{
    if (json_span_text(s, out) == ST_OK)
        return true;
    work_no_memory(t->work);
    return false;
}

static bool key_is(const struct schema_tree *t, struct json_span key, const char *text, size_t n)
{
    if (!memchr(key.p, '\\', key.n)) /* without escapes */
        return key.n == n && (n == 0 || memcmp(key.p, text, n) == 0);
    struct text_buf b = {0};
    bool same = read_text(t, key, &b) && b.len == n && (n == 0 || memcmp(b.data, text, n) == 0);
    text_buf_free(&b);
    return same;
}

uint32_t schema_find(const struct schema_tree *t, uint32_t node, const char *text, size_t n)
{
    if (t->nodes[node].type != JSON_OBJECT)
        return SCHEMA_NO_NODE;
    uint32_t mask = t->n_table - 1, at = (uint32_t)hash_bytes(node, text, n) & mask;
    work_spend(t->work, 2 + n / 16);
    for (; t->table[at]; at = (at + 1) & mask) {
        uint32_t i = t->table[at] - 1;
        work_spend(t->work, 1);
        if (t->nodes[i].parent == node && key_is(t, t->nodes[i].key, text, n))
            return i;
    }
    return SCHEMA_NO_NODE;
}

uint32_t schema_item(const struct schema_tree *t, uint32_t node, uint32_t i)
{
    if (t->nodes[node].type != JSON_ARRAY)
        return SCHEMA_NO_NODE;
    uint32_t mask = t->n_table - 1, at = (uint32_t)hash_bytes(node, &i, sizeof i) & mask;
    work_spend(t->work, 2);
    for (; t->table[at]; at = (at + 1) & mask) {
        uint32_t item = t->table[at] - 1;
        work_spend(t->work, 1);
        if (t->nodes[item].parent == node && t->nodes[item].index == i)
            return item;
    }
    return SCHEMA_NO_NODE;
}

uint32_t schema_member(const struct schema_tree *t, uint32_t node, const char *name)
{
    return schema_find(t, node, name, strlen(name));
}

bool schema_is(const struct schema_tree *t, uint32_t node, const char *text)
{
    return t->nodes[node].type == JSON_STRING && json_span_is(t->nodes[node].value, text);
}

/* ---- references ---- */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* %XX becomes its byte. */
static size_t percent_decode(char *s, size_t n)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '%' && n - i > 2 && hex(s[i + 1]) >= 0 && hex(s[i + 2]) >= 0) {
            s[out++] = (char)(hex(s[i + 1]) << 4 | hex(s[i + 2]));
            i += 2;
        } else {
            s[out++] = s[i];
        }
    }
    return out;
}

/* One token of a pointer: ~0 and ~1 become ~ and /. */
static size_t token_decode(char *s, size_t n)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        bool escape = s[i] == '~' && i + 1 < n && (s[i + 1] == '0' || s[i + 1] == '1');
        s[out++] = escape ? (s[i + 1] == '0' ? '~' : '/') : s[i];
        i += escape;
    }
    return out;
}

static uint32_t child(const struct schema_tree *t, uint32_t node, const char *token, size_t n)
{
    uint32_t index = 0;
    if (t->nodes[node].type == JSON_OBJECT)
        return schema_find(t, node, token, n);
    if (n == 0 || n > 6)
        return SCHEMA_NO_NODE;
    for (size_t k = 0; k < n; k++) {
        if (token[k] < '0' || token[k] > '9')
            return SCHEMA_NO_NODE;
        index = index * 10 + (uint32_t)(token[k] - '0');
    }
    return schema_item(t, node, index);
}

static uint32_t find_anchor(const struct schema_tree *t, const char *name, size_t n)
{
    static const char *const keys[] = {"$anchor", "$dynamicAnchor"};
    for (uint32_t i = 0; i < t->n && work_check(t->work) == ST_OK; i++)
        for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
            uint32_t a = schema_member(t, i, keys[k]);
            if (a != SCHEMA_NO_NODE && t->nodes[a].type == JSON_STRING &&
                key_is(t, t->nodes[a].value, name, n))
                return i;
        }
    return SCHEMA_NO_NODE;
}

static uint32_t follow(const struct schema_tree *t, char *s, size_t n)
{
    uint32_t node = 0;
    for (size_t at = 0; at < n && node != SCHEMA_NO_NODE;) {
        size_t begin = ++at; /* behind the slash */
        while (at < n && s[at] != '/')
            at++;
        node = child(t, node, s + begin, token_decode(s + begin, at - begin));
    }
    return node;
}

uint32_t schema_resolve(const struct schema_tree *t, struct json_span ref)
{
    struct text_buf b = {0};
    uint32_t node = SCHEMA_NO_NODE;
    if (read_text(t, ref, &b) && b.len && b.data[0] == '#') {
        size_t n = percent_decode(b.data + 1, b.len - 1);
        if (n == 0)
            node = 0;
        else if (b.data[1] == '/')
            node = follow(t, b.data + 1, n);
        else
            node = find_anchor(t, b.data + 1, n);
    }
    text_buf_free(&b);
    return node;
}

/* ---- values ---- */

static bool equal_numbers(struct json_span a, struct json_span b)
{
    char x[64], y[64];
    if (a.n == b.n && memcmp(a.p, b.p, a.n) == 0)
        return true;
    if (a.n >= sizeof x || b.n >= sizeof y)
        return false;
    snprintf(x, sizeof x, "%.*s", (int)a.n, a.p);
    snprintf(y, sizeof y, "%.*s", (int)b.n, b.p);
    return strtod(x, NULL) == strtod(y, NULL);
}

static bool equal_texts(const struct schema_tree *t, struct json_span a, struct json_span b)
{
    struct text_buf x = {0};
    bool same = read_text(t, a, &x) && key_is(t, b, x.data, x.len);
    text_buf_free(&x);
    return same;
}

uint32_t schema_same_member(const struct schema_tree *t, uint32_t i, uint32_t b)
{
    struct text_buf key = {0};
    uint32_t found = SCHEMA_NO_NODE;
    if (read_text(t, t->nodes[i].key, &key))
        found = schema_find(t, b, key.data, key.len);
    text_buf_free(&key);
    return found;
}

static bool equal_members(const struct schema_tree *t, uint32_t a, uint32_t b)
{
    for (uint32_t i = t->nodes[a].first; i != SCHEMA_NO_NODE; i = t->nodes[i].next) {
        uint32_t k = schema_same_member(t, i, b);
        if (k == SCHEMA_NO_NODE || !schema_equal(t, i, k))
            return false;
    }
    return true;
}

bool schema_equal(const struct schema_tree *t, uint32_t a, uint32_t b)
{
    const struct schema_node *x = &t->nodes[a], *y = &t->nodes[b];
    work_spend(t->work, 2 + x->value.n / 16);
    if (x->type != y->type || x->n != y->n)
        return false;
    switch (x->type) {
    case JSON_STRING:
        return equal_texts(t, x->value, y->value);
    case JSON_NUMBER:
        return equal_numbers(x->value, y->value);
    case JSON_OBJECT:
        return equal_members(t, a, b);
    case JSON_ARRAY:
        for (uint32_t i = x->first, k = y->first; i != SCHEMA_NO_NODE;
             i = t->nodes[i].next, k = t->nodes[k].next)
            if (!schema_equal(t, i, k))
                return false;
        return true;
    default:
        return x->value.n == y->value.n && memcmp(x->value.p, y->value.p, x->value.n) == 0;
    }
}

typedef enum status write_fn(const struct schema_style *style, const char *text, size_t n,
                             struct text_buf *out);

static enum status write_span(const struct schema_style *style, write_fn *write, struct json_span s,
                              struct text_buf *out)
{
    struct text_buf text = {0};
    enum status st = json_span_text(s, &text);
    if (st == ST_OK)
        st = write(style, text.data, text.len, out);
    text_buf_free(&text);
    return st;
}

enum status schema_write(const struct schema_tree *t, const struct schema_style *style,
                         uint32_t node, struct text_buf *out)
{
    const struct schema_node *n = &t->nodes[node];
    bool object = n->type == JSON_OBJECT;
    if (n->type == JSON_STRING)
        return write_span(style, style_write_string, n->value, out);
    if (!object && n->type != JSON_ARRAY)
        return text_buf_append(out, n->value.p, n->value.n);
    TRY(text_buf_append(out, object ? "{" : "[", 1));
    for (uint32_t i = n->first; i != SCHEMA_NO_NODE; i = t->nodes[i].next) {
        if (i != n->first)
            TRY(text_buf_append(out, ",", 1));
        if (object) {
            TRY(write_span(style, style_write_name, t->nodes[i].key, out));
            TRY(text_buf_append(out, ":", 1));
        }
        TRY(schema_write(t, style, i, out));
    }
    return text_buf_append(out, object ? "}" : "]", 1);
}

/* ---- paths ---- */

/* What a pointer has for a node: its key, or its index, written to number. */
static struct json_span path_part(const struct schema_tree *t, uint32_t node, char number[16])
{
    if (t->nodes[t->nodes[node].parent].type != JSON_ARRAY)
        return t->nodes[node].key;
    size_t n = (size_t)snprintf(number, 16, "%u", t->nodes[node].index);
    return (struct json_span){.p = number, .n = n};
}

static size_t path_add(const struct schema_tree *t, uint32_t node, char *out, size_t at)
{
    char number[16];
    struct json_span part = path_part(t, node, number);
    out[at++] = '/';
    memcpy(out + at, part.p, part.n);
    return at + part.n;
}

const char *schema_path(const struct schema_tree *t, uint32_t node, char *out, size_t size)
{
    static const char gap[] = "/...";
    uint32_t up[SCHEMA_MAX_DEPTH + 1]; /* the node, its parent, ...; not the root */
    size_t n = 0, tail = 0, all = 1, at = 1, room;
    char number[16];
    for (uint32_t i = node; n < ARRAY_LEN(up) && t->nodes[i].parent != SCHEMA_NO_NODE;
         i = t->nodes[i].parent) {
        all += 1 + path_part(t, i, number).n;
        up[n++] = i;
    }
    out[0] = '#';
    room = all < size ? all : size / 3; /* of the beginning */
    while (n > 0 && at + 1 + path_part(t, up[n - 1], number).n <= room)
        at = path_add(t, up[--n], out, at);
    if (n > 0) {
        room = size - sizeof gap - at;
        while (tail < n && 1 + path_part(t, up[tail], number).n <= room)
            room -= 1 + path_part(t, up[tail++], number).n;
        memcpy(out + at, gap, sizeof gap - 1);
        at += sizeof gap - 1;
        while (tail > 0)
            at = path_add(t, up[--tail], out, at);
    }
    out[at] = '\0';
    return out;
}
