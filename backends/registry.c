#include "backends/backend.h"

#include <string.h>

#include "backends/cpu/cpu.h"

static const struct backend_ops *const registry[] = {
    &cpu_ops,
};

const char *backend_names(void)
{
    return "cpu";
}

enum status backend_open(struct backend **out, const char *name, const struct backend_config *cfg)
{
    for (size_t i = 0; i < ARRAY_LEN(registry); i++)
        if (strcmp(registry[i]->name, name) == 0)
            return registry[i]->open(out, cfg);
    FAIL(ST_UNSUPPORTED, "no backend '%s' in this build (it has: %s)", name, backend_names());
}
