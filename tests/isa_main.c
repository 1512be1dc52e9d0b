/* main of test programs that CTest runs once for each instruction set, named by INGOT_ISA: one that
 * the machine cannot execute is skipped. */
#include <stdio.h>
#include <stdlib.h>

#include "isas.h"

static bool known(const char *isa)
{
    for (size_t i = 0; i < ARRAY_LEN(all_isas); i++)
        if (strcmp(all_isas[i], isa) == 0)
            return true;
    return false;
}

static int skip(const char *program, const char *isa)
{
    const char *tap = getenv("INGOT_TAP");
    FILE *f = tap ? fopen(tap, "w") : NULL;
    const char *name = strrchr(program, '/');
    if (f) {
        fprintf(f, "1..1\nok - %s on %s # SKIP %s\n", name ? name + 1 : program, isa,
                status_detail());
        fclose(f);
    }
    printf("skipped: %s\n", status_detail());
    return 77;
}

int main(int argc, char **argv)
{
    const char *isa = getenv("INGOT_ISA");
    if (isa && !known(isa)) {
        fprintf(stderr, "INGOT_ISA: there is no '%s'\n", isa);
        return 2;
    }
    if (isa && !has_isa(isa))
        return skip(argv[0], isa);
    struct criterion_test_set *tests = criterion_initialize();
    bool good = true;
    if (criterion_handle_args(argc, argv, true))
        good = criterion_run_all_tests(tests) != 0;
    criterion_finalize(tests);
    return good ? 0 : 1;
}
