/* Writes Prometheus' text format, version 0.0.4.  Families are written one after the other:
 *
 *     struct prometheus p = {.out = &body};
 *     prometheus_family(&p, "ingot_", "steps_total", "counter", "Steps.");
 *     prometheus_u64(&p, "engine=\"0\"", 17);
 *
 * The first failure stays in status, and nothing is written after it. */
#ifndef CLIENT_GATEWAY_PROMETHEUS_H
#define CLIENT_GATEWAY_PROMETHEUS_H

#include "client/lib/ingot.h"
#include "common/text/text_buf.h"

struct prometheus {
    struct text_buf *out;
    enum status status;
    char name[96]; /* of the family */
};

/* What a histogram's whole numbers are in the text. */
enum prometheus_unit { PROMETHEUS_PLAIN, PROMETHEUS_US /* written as seconds */ };

/* HELP and TYPE.  prefix and stem make the name; type: "counter", "gauge", "histogram". */
void prometheus_family(struct prometheus *p, const char *prefix, const char *stem, const char *type,
                       const char *help);
/* One sample of the family; labels: NAME="VALUE",... without braces, "" for none. */
void prometheus_u64(struct prometheus *p, const char *labels, uint64_t value);
void prometheus_seconds(struct prometheus *p, const char *labels, uint64_t us);
void prometheus_double(struct prometheus *p, const char *labels, double value);
/* Its buckets, sum and count; nothing when it is absent. */
void prometheus_histogram(struct prometheus *p, const char *labels, const struct ingot_histogram *h,
                          enum prometheus_unit unit);

/* The value of a label: '\', '"' and newlines are escaped, what is not UTF-8 becomes '?', and it is cut to fit n
 * bytes.  Returns out. */
const char *prometheus_escape(char *out, size_t n, const char *value);
/* Is it a name, or the beginning of one? */
bool prometheus_is_name(const char *s);

#endif
