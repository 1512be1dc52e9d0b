/* Tokenizers: text to token ids and back, id for id and byte for byte as the HuggingFace tokenizers
 * library does it.  A tokenizer is five parts (normalizer, pre-tokenizer, model, post-processor,
 * decoder) that come from a tokenizer.json or from the metadata of a GGUF file.  An unknown part is
 * refused by name.
 *
 * Callers: the coordinator, the ingot-text command, tests.
 * Threads: a tokenizer does not change after it was made; any number of threads may encode and
 * decode with it at once.  Scratch memory belongs to the call.
 * Text is UTF-8 and may contain NUL; other bytes are refused (ST_FORMAT, with the place). */
#ifndef COORDINATOR_TOKENIZER_TOKENIZER_H
#define COORDINATOR_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "common/text/text_buf.h"
#include "coordinator/tokenizer/tok_text.h"

struct tokenizer;
struct gguf;

/* Flags of encode and decode. */
enum {
    TOK_ADD_SPECIAL = 1,      /* encode: add the post-processor's tokens (BOS, EOS, [CLS], ...) */
    TOK_NO_PARSE_SPECIAL = 2, /* encode: special tokens spelled out in the text stay plain text */
    TOK_EXPLAIN = 4,          /* encode: fill token_list.origins too */
    TOK_SKIP_SPECIAL = 8,     /* decode: leave special tokens out */
};

enum token_source {
    TOKEN_MODEL,    /* the model's vocabulary (merges, a vocabulary word, the best path) */
    TOKEN_BYTE,     /* a byte-fallback token */
    TOKEN_UNKNOWN,  /* the unknown token */
    TOKEN_ADDED,    /* an added token spelled out in the text */
    TOKEN_TEMPLATE, /* put there by the post-processor */
    TOKEN_SOURCE_N
};

/* "model", "byte", "unknown", "added", "template"; never NULL. */
const char *token_source_name(enum token_source s);

struct token_origin {
    size_t begin, end; /* the bytes [begin, end) of the text; equal for TOKEN_TEMPLATE */
    enum token_source source;
};

/* Begin with {0}; free with token_list_free.
 * Encoding replaces what it held and keeps its memory. */
struct token_list {
    int32_t *ids;
    struct token_origin *origins; /* as many as ids with TOK_EXPLAIN, else undefined */
    size_t n, cap, origins_cap;
};
void token_list_free(struct token_list *l);

#define TOK_MAX_TEXT ((size_t)1 << 30) /* bytes of one text */

/* path: a tokenizer.json, a .gguf file, or a model directory: its tokenizer.json with
 * tokenizer_config.json where there is one, else tekken.json (Mistral), tiktoken.model (Kimi) or its single .gguf.
 * ST_NOT_FOUND, ST_IO, ST_FORMAT, ST_UNSUPPORTED, ST_NOMEM. */
MUST_CHECK enum status tokenizer_open(struct tokenizer **out, const char *path);
/* The same from memory (copied).  config, the text of tokenizer_config.json, may be NULL. */
MUST_CHECK enum status tokenizer_from_json(struct tokenizer **out, const char *data, size_t len,
                                           const char *config, size_t config_len);
MUST_CHECK enum status tokenizer_from_tekken(struct tokenizer **out, const char *data, size_t len);
MUST_CHECK enum status tokenizer_from_tiktoken(struct tokenizer **out, const char *data, size_t len,
                                               const char *config, size_t config_len);
/* Nothing of g is kept. */
MUST_CHECK enum status tokenizer_from_gguf(struct tokenizer **out, const struct gguf *g);
void tokenizer_destroy(struct tokenizer *t);

/* flags: TOK_ADD_SPECIAL, TOK_NO_PARSE_SPECIAL, TOK_EXPLAIN.  Time is O(n log n) for any text.
 *   ST_FORMAT       not UTF-8
 *   ST_RANGE        longer than TOK_MAX_TEXT, or the normalizer makes too much of it: 64 times as many bytes and 64 KiB,
 *                   at most 64 MiB or 8 times as many
 *   ST_UNSUPPORTED  the vocabulary cannot spell a character and has no unknown token
 *   ST_NOMEM
 * After an error the contents of out are undefined; it can be freed or reused. */
MUST_CHECK enum status tokenizer_encode(const struct tokenizer *t, const char *text, size_t n,
                                        unsigned flags, struct token_list *out);

/* The same; special tokens are not parsed where they have a byte of content: content[i] of byte i is 1, else 0
 * (chat_template.h).  content NULL: nothing is. */
MUST_CHECK enum status tokenizer_encode_marked(const struct tokenizer *t, const char *text,
                                               size_t n, const char *content, unsigned flags,
                                               struct token_list *out);

/* A pair of texts as the post-processor joins them; types: [out->n] of the tokens, freed by the caller.
 * ST_UNSUPPORTED: it does not have each of the texts once.  Otherwise as tokenizer_encode. */
MUST_CHECK enum status tokenizer_encode_pair(const struct tokenizer *t,
                                             const struct tok_text text[2], struct token_list *out,
                                             uint32_t **types);

/* Appends the text of the n ids to out: always UTF-8, bytes that are not come out as U+FFFD.
 * flags: TOK_SKIP_SPECIAL.  An id that no token has gives no text (models pad their vocabularies;
 * ask tokenizer_piece to tell); a negative one is ST_RANGE. */
MUST_CHECK enum status tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                                        unsigned flags, struct text_buf *out);

struct token_piece {
    /* As the vocabulary spells it ("Ġthe", "<0x0A>", "▁a"); data NULL: no token has this id. */
    struct tok_text text;
    /* The bytes it stands for (" the", "\n", " a"); may be a part of a UTF-8 sequence. */
    struct tok_text bytes;
    bool special, added, byte;
};
/* Borrowed from t, except that bytes may point into scratch.  Never fails: an unused or foreign id
 * has text NULL. */
struct token_piece tokenizer_piece(const struct tokenizer *t, int32_t id, struct text_buf *scratch);

/* The id of a token given as the vocabulary spells it, or -1. */
int32_t tokenizer_find(const struct tokenizer *t, const char *text, size_t n);

int32_t tokenizer_vocab_size(const struct tokenizer *t); /* tokens, added ones included */
int32_t tokenizer_max_id(const struct tokenizer *t);     /* the largest id in use */
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);

struct tokenizer_specials {
    int32_t bos, eos, pad, unk; /* -1: none */
    struct tok_text bos_text, eos_text, pad_text, unk_text;
    bool adds_bos, adds_eos; /* TOK_ADD_SPECIAL puts them at the ends of a text */
};
const struct tokenizer_specials *tokenizer_specials(const struct tokenizer *t);

/* One line: "BPE, 151669 tokens, byte-level", for inspect and logs.  Valid as long as t. */
const char *tokenizer_describe(const struct tokenizer *t);

/* The chat template that a GGUF file carries ("tokenizer.chat_template"), copied; data NULL: none.
 * That of a HuggingFace model is read by chat_template_from_model. */
struct tok_text tokenizer_chat_template(const struct tokenizer *t);

#endif
