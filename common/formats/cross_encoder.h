/* A reranker as the CrossEncoder class of sentence-transformers reads it: a head for classification with one label, or
 * the logits of one or two tokens behind a text.  Called by sentence_folder.c. */
#ifndef COMMON_FORMATS_CROSS_ENCODER_H
#define COMMON_FORMATS_CROSS_ENCODER_H

#include "common/formats/sentence_modules.h"

/* Of a model with a head for classification: its matrices as modules behind the state of the first token (encoders) or
 * of the last one (decoders).  ST_UNSUPPORTED: it has not one label. */
MUST_CHECK enum status cross_encoder_head(struct sentence_modules *out,
                                          const struct model_config *mc);

/* The module LogitScore in that sub-folder of dir. */
MUST_CHECK enum status cross_encoder_logits(struct sentence_modules *out, const char *dir,
                                            const char *folder, const struct model_config *mc);
/* Its config.json: the tokens whose logits are compared; row[1] -1: there is one alone. */
MUST_CHECK enum status cross_encoder_logits_parse(int32_t row[2], const void *text, size_t n,
                                                  int32_t vocab);

/* What --rerank qwen3 says, with the tokens "yes" and "no" of dir's tokenizer.json where there is no head for
 * classification. */
MUST_CHECK enum status cross_encoder_asked(struct sentence_modules *out, const char *dir,
                                           const struct model_config *mc);
/* The ids of n words in the vocabulary of a tokenizer.json's text.  ST_NOT_FOUND: one is none of its tokens. */
MUST_CHECK enum status cross_encoder_words(const char *const *word, int32_t *id, size_t n,
                                           const void *text, size_t len);

/* The function behind the score, a sigmoid unless the folder's files name another one: set in the last module.
 * ST_UNSUPPORTED and ST_FORMAT name the field of config.json. */
MUST_CHECK enum status cross_encoder_act_load(struct sentence_modules *out, const char *dir);
/* From config.json's text: *act stays where it names no function. */
MUST_CHECK enum status cross_encoder_act(enum dense_act *act, const void *text, size_t n);

#endif
