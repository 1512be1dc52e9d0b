#include "common/build_info.h"

const char *build_info(void)
{
    return INGOT_VERSION " (" INGOT_BUILD ")";
}

void build_info_print(FILE *f, const char *program)
{
    fprintf(f, "%s %s\nbuild: %s\n", program, INGOT_VERSION, INGOT_BUILD);
}
