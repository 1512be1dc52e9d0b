/* How quantization_config of a config.json asks for the inputs of quantised matrices to be rounded, which
 * --activations checkpoint does.  Pure; read by the loader beside the configuration. */
#ifndef COMMON_FORMATS_CONFIG_INPUTS_H
#define COMMON_FORMATS_CONFIG_INPUTS_H

#include "common/formats/model_config.h"

struct input_scheme {
    enum input_rounding rounding;
    int32_t group;     /* columns that share a scale; 0: a row */
    bool from_file;    /* a matrix's input has one scale, from the file: NAME.input_scale */
    char asked[80];    /* "int8, a scale for each token"; "" where something is refused */
    char refused[160]; /* what cannot be done, with its place in the JSON; "": nothing */
};

/* config: the text of config.json, which model_config_parse has accepted.  ST_FORMAT, ST_NOMEM. */
MUST_CHECK enum status input_scheme_parse(struct input_scheme *out, const void *config, size_t len);

/* Of a model's path.  A GGUF file says nothing of inputs, which is refused. */
MUST_CHECK enum status input_scheme_load(struct input_scheme *out, const char *path);

#endif
