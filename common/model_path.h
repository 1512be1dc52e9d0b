/* Whether a path that a user gave can be a model, before anything of it is read: the errors say
 * where a model comes from.  Any thread. */
#ifndef COMMON_MODEL_PATH_H
#define COMMON_MODEL_PATH_H

#include <stdbool.h>

#include "common/status.h"

#define MODEL_SOURCES                                                                              \
    "give a folder in HuggingFace layout (config.json, tokenizer.json, *.safetensors), a .gguf "   \
    "file, or the name ORG/NAME of a model that `ingot pull` has downloaded"

/* ST_NOT_FOUND: nothing is there.  ST_IO: it cannot be looked at. */
MUST_CHECK enum status model_path_exists(const char *path);

/* The same; ST_NOT_FOUND also: a folder without config.json. */
MUST_CHECK enum status model_path_check(const char *path);

/* The first .gguf file of a folder in the order of names; false: there is none. */
enum { MODEL_FILE_SIZE = 256 };
bool model_path_gguf(const char *dir, char name[MODEL_FILE_SIZE]);

#endif
