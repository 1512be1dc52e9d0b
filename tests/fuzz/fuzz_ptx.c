/* The PTX machine of the tests: any text is refused, or its kernels run for a while, end or fail. */
#include <string.h>

#include "ptx/ptx_machine.h"

enum { MAX_ENTRIES = 4, MOST_INSTRS = 3000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(struct ptx_machine *m, const struct ptx_module *module,
                const struct ptx_entry *entry)
{
    static const uint8_t params[1 << 16]; /* more than an entry may have */
    struct ptx_launch l = {.module = module,
                           .entry = entry,
                           .grid = {2, 1, 1},
                           .block = {40, 1, 1},
                           .dynamic_bytes = 256,
                           .params = params};
    if (ptx_enqueue(m, &l) == ST_OK && ptx_run(m) != ST_OK)
        return; /* a failure is as good as an end */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ptx_module *module;
    struct ptx_machine *m;
    struct ptx_config cfg = {.seed = size, .max_instrs = MOST_INSTRS};
    if (ptx_parse(&module, (const char *)data, size) != ST_OK)
        return 0;
    if (ptx_machine_create(&m, &cfg) == ST_OK) {
        for (int32_t i = 0; i < module->n_entries && i < MAX_ENTRIES; i++)
            run(m, module, &module->entry[i]);
        ptx_machine_destroy(m);
    }
    ptx_module_destroy(module);
    return 0;
}
