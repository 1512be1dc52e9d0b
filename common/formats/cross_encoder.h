/* A reranker as the CrossEncoder class of sentence-transformers reads it: an encoder with a head for
 * classification that has one label, and a sigmoid behind it unless config.json names another function.
 * Called by sentence_modules.c. */
#ifndef COMMON_FORMATS_CROSS_ENCODER_H
#define COMMON_FORMATS_CROSS_ENCODER_H

#include "common/formats/model_config.h"

/* Is there a sigmoid, or nothing, behind the head of the model in dir?  ST_UNSUPPORTED and ST_FORMAT
 * name the field of config.json. */
MUST_CHECK enum status cross_encoder_load(bool *sigmoid, const char *dir,
                                          const struct model_config *mc);
/* The same from config.json's text: *sigmoid stays where it names no function. */
MUST_CHECK enum status cross_encoder_act(bool *sigmoid, const void *text, size_t n);

#endif
