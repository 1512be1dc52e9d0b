#include "client/gateway/prometheus.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

enum { MAX_LINE = 2048, NUMBER_SIZE = 32 };

__attribute__((format(printf, 2, 3))) static void put(struct prometheus *p, const char *format, ...)
{
    char line[MAX_LINE];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (p->status == ST_OK && (n < 0 || (size_t)n >= sizeof line))
        p->status = ST_RANGE;
    if (p->status == ST_OK)
        p->status = text_buf_append(p->out, line, (size_t)n);
}

void prometheus_family(struct prometheus *p, const char *prefix, const char *stem, const char *type,
                       const char *help)
{
    int n = snprintf(p->name, sizeof p->name, "%s%s", prefix, stem);
    if (n < 0 || (size_t)n >= sizeof p->name)
        p->status = ST_RANGE;
    put(p, "# HELP %s %s\n# TYPE %s %s\n", p->name, help, p->name, type);
}

static void sample(struct prometheus *p, const char *labels, const char *value)
{
    if (*labels)
        put(p, "%s{%s} %s\n", p->name, labels, value);
    else
        put(p, "%s %s\n", p->name, value);
}

void prometheus_u64(struct prometheus *p, const char *labels, uint64_t value)
{
    char text[NUMBER_SIZE];
    snprintf(text, sizeof text, "%" PRIu64, value);
    sample(p, labels, text);
}

/* Exact: 1500000 is "1.5", 2000000 is "2.0". */
static const char *seconds(char text[NUMBER_SIZE], uint64_t us)
{
    int n = snprintf(text, NUMBER_SIZE, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
    while (n > 2 && text[n - 1] == '0' && text[n - 2] != '.')
        text[--n] = '\0';
    return text;
}

void prometheus_seconds(struct prometheus *p, const char *labels, uint64_t us)
{
    char text[NUMBER_SIZE];
    sample(p, labels, seconds(text, us));
}

void prometheus_double(struct prometheus *p, const char *labels, double value)
{
    char text[NUMBER_SIZE];
    snprintf(text, sizeof text, "%.9g", value);
    sample(p, labels, text);
}

/* As a number of floating point, which the label le has. */
static const char *number(char text[NUMBER_SIZE], uint64_t value, enum prometheus_unit unit)
{
    if (unit == PROMETHEUS_US)
        return seconds(text, value);
    snprintf(text, NUMBER_SIZE, "%" PRIu64 ".0", value);
    return text;
}

void prometheus_histogram(struct prometheus *p, const char *labels, const struct ingot_histogram *h,
                          enum prometheus_unit unit)
{
    const char *comma = *labels ? "," : "";
    char text[NUMBER_SIZE], braced[MAX_LINE / 2] = "";
    uint64_t below = 0;
    if (!h->n)
        return;
    for (uint32_t i = 0; i < h->n; i++) {
        below += h->count[i];
        put(p, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", p->name, labels, comma,
            number(text, h->bound[i], unit), below);
    }
    below += h->count[h->n];
    put(p, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", p->name, labels, comma, below);
    if (*labels && snprintf(braced, sizeof braced, "{%s}", labels) >= (int)sizeof braced)
        p->status = ST_RANGE;
    put(p, "%s_sum%s %s\n", p->name, braced, number(text, h->sum, unit));
    put(p, "%s_count%s %" PRIu64 "\n", p->name, braced, below);
}

const char *prometheus_escape(char *out, size_t n, const char *value)
{
    size_t at = 0, len = strlen(value), valid = utf8_valid_prefix(value, len);
    for (size_t i = 0; i < len && at + 3 <= n; i++) {
        char c = value[i];
        if (c == '\\' || c == '"' || c == '\n')
            out[at++] = '\\';
        out[at++] = c == '\n' ? 'n' : i >= valid && (c & 0x80) ? '?' : c;
    }
    out[utf8_valid_prefix(out, at)] = '\0'; /* it may have been cut within a character */
    return out;
}

bool prometheus_is_name(const char *s)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:",
                      others[] = "0123456789";
    if (!*s || !strchr(first, *s))
        return false;
    for (; *s; s++)
        if (!strchr(first, *s) && !strchr(others, *s))
            return false;
    return true;
}
