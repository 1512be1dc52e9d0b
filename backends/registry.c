/* The table of backends of this build, and the opening of one by name. */
#include "backends/backend.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#ifdef INGOT_HAVE_CUDA
#include "backends/cuda/cuda.h"
#endif
#ifdef INGOT_HAVE_METAL
#include "backends/metal/metal.h"
#endif

static const struct backend_ops *const registry[] = {
    &cpu_ops,
#ifdef INGOT_HAVE_CUDA
    &cuda_ops,
#endif
#ifdef INGOT_HAVE_METAL
    &metal_ops,
#endif
};

const char *backend_names(void)
{
    return "cpu"
#ifdef INGOT_HAVE_CUDA
           " cuda"
#endif
#ifdef INGOT_HAVE_METAL
           " metal"
#endif
        ;
}

enum status backend_open(struct backend **out, const char *name, const struct backend_config *cfg)
{
    for (size_t i = 0; i < ARRAY_LEN(registry); i++)
        if (strcmp(registry[i]->name, name) == 0)
            return registry[i]->open(out, cfg);
    FAIL(ST_UNSUPPORTED, "no backend '%s' in this build (it has: %s)", name, backend_names());
}
