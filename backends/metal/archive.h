/* Compiled kernels that a start takes from a binary archive in the user's cache folder, and adds to
 * it.  Nothing of it stops a start: without a folder, without room or with a damaged file there is one
 * log line, and pipelines are compiled. */
#ifndef BACKENDS_METAL_ARCHIVE_H
#define BACKENDS_METAL_ARCHIVE_H

#include "backends/metal/archive_files.h"
#include "backends/metal/objc.h"

/* Opens it, or begins a new one; the library is made already. */
void metal_open_archive(struct backend *be);

/* The pipeline of a function of the library, from the archive or compiled; NULL: *error says why not. */
id metal_new_pipeline(struct backend *be, id function, id *error);

/* Writes what was added, if anything was. */
void metal_keep_archive(struct backend *be);

/* What the compiled kernels depend on: the text, the options, the system and the GPU. */
void metal_archive_key(const struct backend *be, const char *source, char out[ARCHIVE_DIGITS + 1]);

#endif
