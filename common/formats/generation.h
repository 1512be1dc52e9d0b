/* The sampling that a model's generation_config.json recommends, for requests that leave it to the
 * server.  Pure but for generation_load. */
#ifndef COMMON_FORMATS_GENERATION_H
#define COMMON_FORMATS_GENERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct generation_defaults {
    bool has_temperature, has_top_p, has_min_p, has_top_k, has_repetition_penalty;
    float temperature, top_p, min_p, repetition_penalty;
    uint32_t top_k;   /* 0: all */
    uint32_t max_new; /* tokens of an answer; 0: not said */
};

/* ST_FORMAT, ST_RANGE name the field.  Keys that say nothing of these are passed over. */
MUST_CHECK enum status generation_parse(struct generation_defaults *out, const void *text,
                                        size_t len);
/* Of a model directory; nothing is set where the file is missing, and for a GGUF file. */
MUST_CHECK enum status generation_load(struct generation_defaults *out, const char *model);

#endif
