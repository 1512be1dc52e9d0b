#include "common/text/output_json.h"

#include <string.h>

enum state {
    VALUE,        /* a value must come */
    LIST_FIRST,   /* a value or ']' */
    OBJECT_FIRST, /* a key or '}' */
    KEY,          /* a key */
    COLON,
    AFTER, /* ',' or the end of the level */
    STRING,
    ESCAPE,
    HEX,
    LITERAL,
    MINUS, /* the states of a number */
    ZERO,
    DIGITS,
    POINT,
    FRACTION,
    EXPONENT,
    EXPONENT_SIGN,
    EXPONENT_DIGITS,
};

void output_json_init(struct output_json *j)
{
    *j = (struct output_json){.state = VALUE};
}

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

bool output_json_in_object(const struct output_json *j)
{
    unsigned level = j->depth - 1;
    return j->objects[level / 64] >> (level % 64) & 1;
}

static enum output_scan open_level(struct output_json *j, bool object)
{
    if (j->depth == OUTPUT_JSON_DEPTH)
        return SCAN_BAD;
    uint64_t bit = (uint64_t)1 << (j->depth % 64), *word = &j->objects[j->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    j->depth++;
    j->state = object ? OBJECT_FIRST : LIST_FIRST;
    return SCAN_MORE;
}

static enum output_scan close_level(struct output_json *j)
{
    j->state = AFTER;
    return --j->depth ? SCAN_MORE : SCAN_OK;
}

static enum output_scan to(struct output_json *j, enum state state)
{
    j->state = (uint8_t)state;
    return SCAN_MORE;
}

static enum output_scan begin_value(struct output_json *j, unsigned char c)
{
    if (c == '{' || c == '[')
        return open_level(j, c == '{');
    if (j->depth == 0)
        return SCAN_BAD;
    if (c == '"') {
        j->is_key = false;
        return to(j, STRING);
    }
    if (c == 't' || c == 'f' || c == 'n') {
        j->literal = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
        return to(j, LITERAL);
    }
    if (c == '-')
        return to(j, MINUS);
    return is_digit(c) ? to(j, c == '0' ? ZERO : DIGITS) : SCAN_BAD;
}

static enum output_scan after_value(struct output_json *j, unsigned char c)
{
    bool object = output_json_in_object(j);
    if (is_blank(c))
        return to(j, AFTER);
    if (c == ',')
        return to(j, object ? KEY : VALUE);
    return c == (object ? '}' : ']') ? close_level(j) : SCAN_BAD;
}

static enum output_scan string_byte(struct output_json *j, unsigned char c)
{
    if (c == '"')
        return to(j, j->is_key ? COLON : AFTER);
    if (c == '\\')
        return to(j, ESCAPE);
    return c < 0x20 ? SCAN_BAD : SCAN_MORE;
}

static enum output_scan escape_byte(struct output_json *j, unsigned char c)
{
    if (c == 'u') {
        j->count = 4;
        return to(j, HEX);
    }
    return c && strchr("\"\\/bfnrt", c) ? to(j, STRING) : SCAN_BAD;
}

static enum output_scan number_byte(struct output_json *j, unsigned char c)
{
    bool e = c == 'e' || c == 'E';
    switch ((enum state)j->state) {
    case MINUS:
        return is_digit(c) ? to(j, c == '0' ? ZERO : DIGITS) : SCAN_BAD;
    case ZERO:
        return c == '.' ? to(j, POINT) : e ? to(j, EXPONENT) : after_value(j, c);
    case DIGITS:
        return is_digit(c) ? SCAN_MORE
               : c == '.'  ? to(j, POINT)
               : e         ? to(j, EXPONENT)
                           : after_value(j, c);
    case POINT:
        return is_digit(c) ? to(j, FRACTION) : SCAN_BAD;
    case FRACTION:
        return is_digit(c) ? SCAN_MORE : e ? to(j, EXPONENT) : after_value(j, c);
    case EXPONENT:
        if (c == '+' || c == '-')
            return to(j, EXPONENT_SIGN);
        return is_digit(c) ? to(j, EXPONENT_DIGITS) : SCAN_BAD;
    case EXPONENT_SIGN:
        return is_digit(c) ? to(j, EXPONENT_DIGITS) : SCAN_BAD;
    default:
        return is_digit(c) ? SCAN_MORE : after_value(j, c);
    }
}

enum output_scan output_json_feed(struct output_json *j, unsigned char c)
{
    bool blank = is_blank(c);
    switch ((enum state)j->state) {
    case VALUE:
        return blank && j->depth ? SCAN_MORE : begin_value(j, c);
    case LIST_FIRST:
        return blank ? SCAN_MORE : c == ']' ? close_level(j) : begin_value(j, c);
    case OBJECT_FIRST:
    case KEY:
        if (blank)
            return SCAN_MORE;
        if (c == '}' && j->state == OBJECT_FIRST)
            return close_level(j);
        j->is_key = true;
        return c == '"' ? to(j, STRING) : SCAN_BAD;
    case COLON:
        return blank ? SCAN_MORE : c == ':' ? to(j, VALUE) : SCAN_BAD;
    case AFTER:
        return after_value(j, c);
    case STRING:
        return string_byte(j, c);
    case ESCAPE:
        return escape_byte(j, c);
    case HEX:
        if (!is_digit(c) && !((c | 32) >= 'a' && (c | 32) <= 'f'))
            return SCAN_BAD;
        return --j->count ? SCAN_MORE : to(j, STRING);
    case LITERAL:
        if (c != (unsigned char)*j->literal++)
            return SCAN_BAD;
        return *j->literal ? SCAN_MORE : to(j, AFTER);
    default:
        return number_byte(j, c);
    }
}

bool output_json_in_string(const struct output_json *j)
{
    return j->state == STRING || j->state == ESCAPE || j->state == HEX;
}

bool output_json_wants_value(const struct output_json *j)
{
    return j->state == VALUE || j->state == LIST_FIRST;
}

bool output_json_wants_key(const struct output_json *j)
{
    return j->state == KEY || j->state == OBJECT_FIRST;
}

/* --- looking into an accepted value --- */

static const char *skip_marks(const char *p, const char *end)
{
    while (p < end && (is_blank((unsigned char)*p) || *p == ',' || *p == ':'))
        p++;
    return p;
}

/* The end of the value at p, which is well-formed. */
static const char *value_end(const char *p, const char *end)
{
    unsigned depth = 0;
    while (p < end) {
        char c = *p++;
        if (c == '"') {
            for (; p < end && *p != '"'; p++)
                p += *p == '\\';
            p++;
        } else if (c == '[' || c == '{') {
            depth++;
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (depth == 0) { /* a number or a literal */
            while (p < end && !is_blank((unsigned char)*p) && !strchr(",]}", *p))
                p++;
        }
        if (depth == 0)
            break;
    }
    return p;
}

struct output_span output_json_item(struct output_span list, size_t i)
{
    const char *end = list.p + list.n - 1, *p = skip_marks(list.p + 1, end);
    for (; p < end; i--) {
        const char *q = value_end(p, end);
        if (i == 0)
            return (struct output_span){p, (size_t)(q - p)};
        p = skip_marks(q, end);
    }
    return (struct output_span){NULL, 0};
}

static bool next_member(const char **p, const char *end, struct output_span *key,
                        struct output_span *value)
{
    *p = skip_marks(*p, end);
    if (*p >= end)
        return false;
    const char *q = value_end(*p, end);
    *key = (struct output_span){*p + 1, (size_t)(q - *p) - 2};
    *p = skip_marks(q, end);
    q = value_end(*p, end);
    *value = (struct output_span){*p, (size_t)(q - *p)};
    *p = q;
    return true;
}

static bool is(struct output_span s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

struct output_span output_json_member(struct output_span object, const char *name)
{
    const char *p = object.p + 1, *end = object.p + object.n - 1;
    struct output_span key, value, found = {NULL, 0};
    while (next_member(&p, end, &key, &value))
        if (is(key, name))
            found = value;
    return found;
}

bool output_json_only(struct output_span object, const char *const *names)
{
    const char *p = object.p + 1, *end = object.p + object.n - 1;
    struct output_span key, value;
    while (next_member(&p, end, &key, &value)) {
        const char *const *n = names;
        while (*n && !is(key, *n))
            n++;
        if (!*n)
            return false;
    }
    return true;
}

static uint32_t hex4(const char *p)
{
    uint32_t c = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char d = (unsigned char)p[i];
        c = c << 4 | (uint32_t)(is_digit(d) ? d - '0' : (d | 32) - 'a' + 10);
    }
    return c;
}

static enum status append_char(struct text_buf *out, uint32_t c)
{
    char b[4];
    if (c < 0x80) {
        b[0] = (char)c;
        return text_buf_append(out, b, 1);
    }
    if (c < 0x800) {
        b[0] = (char)(0xc0 | c >> 6);
        b[1] = (char)(0x80 | (c & 0x3f));
        return text_buf_append(out, b, 2);
    }
    if (c < 0x10000) {
        b[0] = (char)(0xe0 | c >> 12);
        b[1] = (char)(0x80 | (c >> 6 & 0x3f));
        b[2] = (char)(0x80 | (c & 0x3f));
        return text_buf_append(out, b, 3);
    }
    b[0] = (char)(0xf0 | c >> 18);
    b[1] = (char)(0x80 | (c >> 12 & 0x3f));
    b[2] = (char)(0x80 | (c >> 6 & 0x3f));
    b[3] = (char)(0x80 | (c & 0x3f));
    return text_buf_append(out, b, 4);
}

/* \uXXXX at p (behind the backslash), with its other half where it has one; *p moves behind it. */
static uint32_t unicode_escape(const char **p, const char *end)
{
    uint32_t c = hex4(*p + 1), low;
    *p += 5;
    if (c < 0xd800 || c >= 0xe000)
        return c;
    if (c < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        low = hex4(*p + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            *p += 6;
            return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    return 0xfffd;
}

enum status output_json_text(struct output_span string, struct text_buf *out)
{
    static const char names[] = "bfnrt", values[] = "\b\f\n\r\t";
    const char *p = string.p + 1, *end = string.p + string.n - 1;
    while (p < end) {
        const char *from = p;
        while (p < end && *p != '\\')
            p++;
        TRY(text_buf_append(out, from, (size_t)(p - from)));
        if (p == end)
            break;
        p++;
        if (*p == 'u') {
            TRY(append_char(out, unicode_escape(&p, end)));
        } else {
            const char *simple = strchr(names, *p);
            TRY(append_char(out, (unsigned char)(simple ? values[simple - names] : *p)));
            p++;
        }
    }
    return ST_OK;
}
