#include "client/gateway/model_names.h"

#include <stdlib.h>
#include <string.h>

enum status model_names_init(struct model_names *m, const struct option_list *served)
{
    size_t size = 1;
    char *at;
    for (size_t i = 0; i < served->n; i++)
        size += strlen(served->item[i]) + 1;
    *m = (struct model_names){.text = calloc(size, 1)};
    if (!m->text)
        FAIL(ST_NOMEM, "no memory for names");
    at = m->text;
    for (size_t i = 0; i < served->n; i++) {
        const char *p = served->item[i];
        for (bool more = true; more;) {
            size_t n = strcspn(p, ",");
            if (n == 0 || m->n == MAX_MODEL_NAMES)
                FAIL(ST_RANGE, "--served-model-name %s: %s", served->item[i],
                     n ? "there are too many names" : "a name is empty");
            memcpy(at, p, n);
            m->name[m->n++] = at;
            at += n + 1;
            more = p[n] == ',';
            p += n + 1;
        }
    }
    return ST_OK;
}

void model_names_fini(struct model_names *m)
{
    free(m->text);
    *m = (struct model_names){0};
}

/* Bytes of a name without ":latest". */
static size_t length_of(const char *name)
{
    static const char latest[] = ":latest";
    size_t n = strlen(name), k = sizeof latest - 1;
    return n > k && strcmp(name + n - k, latest) == 0 ? n - k : n;
}

bool model_names_equal(const char *served, const char *asked)
{
    size_t n = length_of(served), n_asked = length_of(asked);
    const char *org = memchr(served, '/', n), *org_asked = memchr(asked, '/', n_asked);
    if (org && !org_asked) {
        n -= (size_t)(org + 1 - served);
        served = org + 1;
    } else if (org_asked && !org) {
        n_asked -= (size_t)(org_asked + 1 - asked);
        asked = org_asked + 1;
    }
    return n == n_asked && memcmp(served, asked, n) == 0;
}

const char *model_names_find(const struct model_names *m, const char *own, const char *asked)
{
    if (m->n == 0)
        return !*asked || model_names_equal(own, asked) ? own : NULL;
    for (size_t i = 0; i < m->n; i++)
        if (!*asked || model_names_equal(m->name[i], asked))
            return m->name[i];
    return NULL;
}
