/* The reason why a program could not start, in a file for the process that started it.  Written by
 * the programs' mains, read by the supervisor. */
#ifndef COMMON_FAILURE_FILE_H
#define COMMON_FAILURE_FILE_H

#include <stddef.h>

/* Writes status_text() to the file, unless path is NULL or another process has written it. */
void failure_file_write(const char *path);
/* Its text as a string in out [n]; "" when there is no such file. */
void failure_file_read(const char *path, char *out, size_t n);

#endif
