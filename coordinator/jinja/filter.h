/* What the files of filters share: the table's row, and how filters take their arguments. */
#ifndef COORDINATOR_JINJA_FILTER_H
#define COORDINATOR_JINJA_FILTER_H

#include "coordinator/jinja/run.h"

typedef enum status jfilter_fn(struct jrun *r, const struct jval *in, const struct jargs *args,
                               struct jval *out);

struct jfilter {
    const char *name;
    jfilter_fn *call;
};

#define FILTER(name)                                                                               \
    static enum status name(struct jrun *r, const struct jval *in, const struct jargs *args,       \
                            struct jval *out)

/* The filters of filters_seq.c and filters_text.c; NULL name ends each. */
extern const struct jfilter j_seq_filters[];
extern const struct jfilter j_text_filters[];

/* "a.b.0" or a number, looked up with v[part] one after the other. */
MUST_CHECK enum status j_attribute_path(struct jrun *r, const struct jval *v,
                                        const struct jval *path, struct jval *out);

/* v in lower case when it is a string and case does not matter. */
MUST_CHECK enum status j_sort_key(struct jrun *r, const struct jval *v, bool case_sensitive,
                                  struct jval *out);

/* Sorts items by keys (same length), stable. */
MUST_CHECK enum status j_sort(struct jrun *r, struct jval *items, struct jval *keys, size_t n,
                              bool reverse);

/* A generator over the items. */
MUST_CHECK enum status j_iter(struct jrun *r, struct jlist *items, struct jval *out);

static inline bool j_flag(const struct jval *v, bool missing)
{
    return v->type == J_MISSING ? missing : jval_truth(v);
}

#endif
