/* Where the running program's file is. */
#ifndef COMMON_PROGRAM_PATH_H
#define COMMON_PROGRAM_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the path of the program's file, 0-terminated, into path[size]; false: it is not known or does not fit. */
bool program_path(char *path, size_t size);

#endif
