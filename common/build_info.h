/* The build of this program, as --version prints it and a server tells it to its clients. */
#ifndef COMMON_BUILD_INFO_H
#define COMMON_BUILD_INFO_H

#include <stdio.h>

/* "0.1.0 (1a2b3c4, GNU 12.2.0, RelWithDebInfo, MPI, no CUDA)"; the first part, absent outside a git
 * checkout, is the commit that was configured. */
const char *build_info(void);

/* --version: a line "PROGRAM 0.1.0", then a line with the build. */
void build_info_print(FILE *f, const char *program);

#endif
