/* The names under which the model is served. */
#ifndef CLIENT_GATEWAY_MODEL_NAMES_H
#define CLIENT_GATEWAY_MODEL_NAMES_H

#include <stdbool.h>

#include "common/options.h"

enum { MAX_MODEL_NAMES = 64 };

struct model_names {
    char *text; /* all names, each ended by NUL */
    const char *name[MAX_MODEL_NAMES];
    size_t n; /* 0: the coordinator's own name */
};

/* served: values "A,B" of --served-model-name.  ST_RANGE: an empty name, or too many; ST_NOMEM. */
MUST_CHECK enum status model_names_init(struct model_names *m, const struct option_list *served);
void model_names_fini(struct model_names *m);

/* Does the client mean the model?  NAME, ORG/NAME and NAME:latest are the same. */
bool model_names_equal(const char *served, const char *asked);
/* The served name that it means, or NULL; "" means the first one.  own: the coordinator's name. */
const char *model_names_find(const struct model_names *m, const char *own, const char *asked);

#endif
