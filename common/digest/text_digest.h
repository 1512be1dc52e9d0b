/* The text digest of a model: 32 bytes that are equal only where texts become the same tokens and
 * answers end at the same ones.  It covers, of a HuggingFace folder:
 *
 *   the tokenizer    tokenizer.json; where there is none tekken.json, tiktoken.model,
 *                    tokenizer.model, vocab.json, merges.txt, vocab.txt (their bytes) and the metadata of the first .gguf file
 *   the templates    chat_template.jinja and additional_chat_templates/tool_use.jinja (their bytes),
 *                    chat_template.json, chat_template of tokenizer_config.json
 *   special tokens   bos_token, eos_token, ... of tokenizer_config.json
 *   the defaults     generation_config.json, but for names and versions of programs
 *   the ids          bos_token_id and eos_token_id as the configuration resolves them
 *
 * and of a GGUF model the metadata whose keys begin with "tokenizer.", and the ids.  JSON counts by
 * its values (json_digest), or by its bytes where it cannot be parsed.  Blocking, any thread. */
#ifndef COMMON_DIGEST_TEXT_DIGEST_H
#define COMMON_DIGEST_TEXT_DIGEST_H

#include <stdbool.h>

#include "common/sha256.h"
#include "common/status.h"

/* *has = false: a folder without a tokenizer and templates, as a worker's may be; out is not set. */
MUST_CHECK enum status text_digest(const char *model, bool *has, uint8_t out[SHA256_BYTES]);

#endif
