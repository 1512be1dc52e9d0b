/* The inside of a tokenizer: the five parts as flat lists of steps, and the state of one encode
 * call.  For this folder's files only. */
#ifndef COORDINATOR_TOKENIZER_IMPL_H
#define COORDINATOR_TOKENIZER_IMPL_H

#include <stdatomic.h>

#include "coordinator/tokenizer/regex.h"
#include "coordinator/tokenizer/tokenizer.h"
#include "coordinator/tokenizer/vocab.h"

#define MAX_STEPS 32 /* of a normalizer, pre-tokenizer or decoder */

/* ---- normalizer ---- */

enum norm_kind {
    NORM_FORM, /* form */
    NORM_LOWERCASE,
    NORM_STRIP, /* left, right */
    NORM_STRIP_ACCENTS,
    NORM_STRIP_NONSPACING, /* BERT's */
    NORM_REPLACE,          /* find or regex -> with */
    NORM_PREPEND,          /* with */
    NORM_CLEAN,            /* BERT: controls out, every blank a space */
    NORM_SPACE_CJK,        /* BERT: blanks around ideographs */
    NORM_NMT,
    NORM_PRECOMPILED, /* find: the character map of SentencePiece */
    NORM_BYTE_LEVEL,
};

struct norm_step {
    enum norm_kind kind;
    int form; /* enum uc_form */
    bool left, right;
    struct text_buf find, with;
    struct regex *regex;
};

/* ---- pre-tokenizer ---- */

enum pre_kind {
    PRE_SPLIT,       /* regex or literal; behavior, invert */
    PRE_BYTE_LEVEL,  /* add_prefix_space, use_regex */
    PRE_METASPACE,   /* literal (the replacement), scheme, split */
    PRE_PUNCTUATION, /* behavior */
    PRE_DIGITS,      /* individual */
    PRE_WHITESPACE,  /* \w+|[^\w\s]+ */
    PRE_WHITESPACE_SPLIT,
    PRE_BERT,
    PRE_FIXED_LENGTH, /* length, characters */
};

enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS,
};

enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER };

/* Regular expressions with a matcher written by hand (scan.c). */
enum scan_kind { SCAN_NONE, SCAN_GPT2, SCAN_LLAMA3 };

struct pre_step {
    enum pre_kind kind;
    enum split_behavior behavior;
    enum prepend_scheme scheme;
    enum scan_kind scan;
    int scan_digits; /* SCAN_LLAMA3: digits of a number piece at most: 1 or 3 */
    bool invert, add_prefix_space, use_regex, split, individual;
    size_t length;
    struct text_buf literal;
    struct regex *regex;
};

/* ---- model ---- */

enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDPIECE, MODEL_WORDLEVEL };

struct trie_edge { /* of the unigram trie: hashed (node, byte) -> node */
    uint32_t node, next;
    uint8_t byte;
};

struct trie {
    struct trie_edge *slots; /* node UINT32_MAX: free */
    int32_t *id;             /* by node; -1: no token ends here */
    uint32_t mask, n_nodes;
};

struct model {
    enum model_kind kind;
    int32_t unk; /* -1: none */
    bool fuse_unk, byte_fallback, ignore_merges;
    struct text_buf prefix, suffix; /* continuing_subword_prefix, end_of_word_suffix */
    struct merge_map merges;
    bool cut_at_blocks; /* no merge reaches from another character over a following U+2581 */
    int32_t start[256]; /* byte-level: id of the token of one byte; -1: none */
    _Atomic unsigned char *alone; /* by id, ALONE_*: is this token's text encoded as this token? */
    double *scores;               /* unigram, by id */
    double unk_score;
    struct trie trie;
    size_t max_word_chars; /* WordPiece */
};

enum { ALONE_UNKNOWN, ALONE_YES, ALONE_NO };

/* ---- added tokens ---- */

struct added_token {
    int32_t id;
    struct tok_text text; /* borrowed from the vocabulary's arena, or own when normalized */
    bool single_word, lstrip, rstrip, normalized, special;
};

struct matcher { /* leftmost-longest search for a set of strings */
    struct trie trie;
    bool first[256]; /* a string begins with this byte */
    bool empty;
};

/* ---- decoder ---- */

enum dec_kind {
    DEC_REPLACE, /* find -> with, within a token */
    DEC_STRIP,   /* character in find; start, stop; within a token */
    DEC_BYTE_LEVEL,
    DEC_BYTE_FALLBACK,
    DEC_FUSE,
    DEC_METASPACE, /* find (the replacement), drop_first */
    DEC_WORDPIECE, /* find (the prefix), cleanup */
    DEC_BPE,       /* find (the suffix) */
};

struct dec_step {
    enum dec_kind kind;
    struct text_buf find, with;
    uint32_t start, stop;
    bool drop_first, cleanup;
};

struct decoder {
    struct dec_step steps[MAX_STEPS]; /* those within a token, before byte fallback */
    int n_steps;
    bool spaced;        /* no decoder: tokens are joined by blanks */
    bool byte_fallback; /* runs of <0xNN> become bytes */
    bool byte_level;
    bool holds_last; /* DEC_BPE: a token's text depends on whether another follows */
    bool strips;     /* after Fuse: strip_char at the ends of the whole text */
    uint32_t strip_char, strip_start, strip_stop;
};

/* ---- the tokenizer ---- */

/* A part of a pair: a token, or one of the texts. */
struct pair_piece {
    int32_t id;    /* -1: a text */
    int text;      /* 0, 1 */
    uint32_t type; /* of its tokens */
};

struct tokenizer {
    struct vocab vocab;
    struct norm_step norm[MAX_STEPS];
    struct pre_step pre[MAX_STEPS];
    int n_norm, n_pre;
    struct model model;
    struct added_token *added;
    size_t n_added;
    int32_t *added_of; /* by id: index into added, -1 none; as long as vocab.n_ids */
    struct matcher raw_added, norm_added;
    int32_t *head, *tail; /* what the post-processor puts before and after */
    size_t n_head, n_tail;
    struct pair_piece *pair; /* [n_pair] how it joins two texts; 0: one behind the other */
    size_t n_pair;
    bool odd_pair; /* it does so in a way that is not supported */
    struct decoder decoder;
    struct tokenizer_specials specials;
    char describe[128];
    struct text_buf chat_template;
    bool needs_map; /* the pre-tokenizer asks where a piece came from */
};

/* ---- one encode call ---- */

struct tmap { /* by byte of a text: the bytes of the input it came from */
    uint32_t begin, end;
};

struct ttext { /* a text on its way through normalizer and pre-tokenizer */
    struct text_buf own;
    const char *p; /* own.data, or borrowed */
    size_t n;
    struct tmap *map; /* n entries when work.mapping and !plain */
    size_t map_cap;
    bool plain;  /* byte i came from input byte base + i */
    size_t base; /* of the input */
};

struct span {
    size_t begin, end; /* bytes of the current text */
};

struct spans {
    struct span *v;
    size_t n, cap;
};

struct cache_slot;
struct bpe_symbol;
struct bpe_pair;
struct unigram_node;

struct work {
    const struct tokenizer *t;
    const char *text; /* the input */
    size_t n;
    const char *content; /* [n], or NULL: see tokenizer_encode_marked */
    unsigned flags;
    bool mapping;      /* keep maps */
    bool chars;        /* the text is spelled in the byte-level alphabet */
    struct ttext a, b; /* the normalizer's */
    struct ttext view; /* the pre-tokenizer's input: a part of the normalized text, borrowed */
    struct ttext c, d; /* the pre-tokenizer's */
    struct ttext *cur, *other;
    size_t max_text, written; /* bytes: of a rewritten text, and of all so far; see ttext.c */
    struct spans spans, next;
    struct regex_scratch *regex; /* made when first needed */
    struct text_buf word;        /* bytes of a piece that was spelled in characters */
    struct span piece;           /* the piece being tokenized, in cur */
    size_t raw_at, char_at;      /* explain: byte raw_at of the piece is spelled at char_at */
    struct bpe_symbol *symbols;
    size_t symbols_cap;
    struct bpe_pair *heap;
    size_t heap_n, heap_cap;
    struct cache_slot *cache; /* of this call: pieces already merged */
    struct unigram_node *nodes;
    size_t nodes_cap;
    struct token_list *out;
};

/* emit.c: appends a token that covers bytes [begin, end) of the piece (of its bytes, not of their
 * spelling in characters).  Tokens of a piece come in order. */
MUST_CHECK enum status emit(struct work *w, int32_t id, enum token_source source, size_t begin,
                            size_t end);
/* The same, for bytes [begin, end) of the input. */
MUST_CHECK enum status emit_at(struct work *w, int32_t id, enum token_source source, size_t begin,
                               size_t end);

/* ttext.c: building a new text beside w->cur: begin, put bytes that came from cur[from, to), then
 * swap. */
void ttext_begin(struct work *w);
/* Sets how much the rewriting of w->n bytes of input may take. */
void ttext_set_bounds(struct work *w);
MUST_CHECK enum status ttext_put(struct work *w, const char *p, size_t n, size_t from, size_t to);
/* The same bytes as cur[from, to), each with its own origin. */
MUST_CHECK enum status ttext_keep(struct work *w, size_t from, size_t to);
void ttext_swap(struct work *w);
/* Input bytes that [from, to) of x came from. */
struct tmap ttext_origin(const struct ttext *x, size_t from, size_t to);
/* Makes w->regex when it is not there yet. */
MUST_CHECK enum status work_regex(struct work *w);

/* normalize.c: normalises input[begin, end) into w->cur. */
MUST_CHECK enum status normalize(struct work *w, size_t begin, size_t end);
MUST_CHECK enum status normalize_text(const struct tokenizer *t, const char *p, size_t n,
                                      struct text_buf *out);
void norm_step_fini(struct norm_step *s);

/* pretokenize.c: splits cur into w->spans, possibly rewriting cur. */
MUST_CHECK enum status pretokenize(struct work *w);
void pre_step_fini(struct pre_step *s);
MUST_CHECK enum status spans_add(struct spans *s, size_t begin, size_t end);

/* scan.c: the end of the piece that begins at text[at] (at < n). */
size_t scan_gpt2(const char *text, size_t n, size_t at);
size_t scan_llama3(const char *text, size_t n, size_t at, int max_digits);

/* The models: p[0, n) is one piece, not empty. */
MUST_CHECK enum status bpe_encode(struct work *w, const char *p, size_t n);
MUST_CHECK enum status bpe_prepare(struct tokenizer *t); /* after vocabulary and merges */
MUST_CHECK enum status unigram_encode(struct work *w, const char *p, size_t n);
MUST_CHECK enum status unigram_prepare(struct tokenizer *t);
MUST_CHECK enum status wordpiece_encode(struct work *w, const char *p, size_t n);
MUST_CHECK enum status wordlevel_encode(struct work *w, const char *p, size_t n);

/* trie.c */
MUST_CHECK enum status trie_init(struct trie *t, size_t total_bytes);
void trie_put(struct trie *t, const char *p, size_t n, int32_t id,
              bool replace); /* within total_bytes */
uint32_t trie_next(const struct trie *t, uint32_t node, unsigned char byte); /* UINT32_MAX: none */
void trie_fini(struct trie *t);

/* added.c */
MUST_CHECK enum status added_prepare(struct tokenizer *t);
void added_fini(struct tokenizer *t);
struct added_match {
    int32_t id;        /* -1: text between tokens */
    size_t begin, end; /* bytes */
};
/* Walks over x: begin with {0}, each call gives the next piece or token; false at the end.  Flags, content and map of
 * w hold; x need not be its text at hand. */
struct added_walk {
    size_t at;   /* where the search goes on */
    size_t done; /* what has been given out ends here */
    struct added_match held;
    bool has_held;
};
bool added_next(const struct work *w, const struct matcher *m, const struct ttext *x,
                struct added_walk *walk, struct added_match *out);

/* tokenizer.c: an empty tokenizer, which the loaders fill. */
MUST_CHECK enum status tokenizer_create(struct tokenizer **out);
/* The loaders' common end: added tokens, maps, specials, description. */
MUST_CHECK enum status tokenizer_finish(struct tokenizer *t);
/* Adds a token.  With a.id -1 as HuggingFace does: the model's id when the model has it, else the
 * next free one. */
MUST_CHECK enum status tokenizer_add_token(struct tokenizer *t, struct added_token a,
                                           const char *text, size_t n);
bool tokenizer_is_byte_level(const struct tokenizer *t); /* as normalizer and pre-tokenizer say */

/* json_model.c: the whole of a tokenizer.json. */
MUST_CHECK enum status load_json(struct tokenizer *t, const char *data, size_t len);
MUST_CHECK enum status load_config(struct tokenizer *t, const char *data, size_t len);
/* gguf_merges.c: merges out of model.scores, once the vocabulary is finished. */
MUST_CHECK enum status merges_from_scores(struct tokenizer *t);
/* gguf_pre.c: the pre-tokenizer that GGUF files name. */
MUST_CHECK enum status gguf_pre(struct tokenizer *t, struct tok_text name, bool *adds_bos);
const char *gguf_pre_kimi(void); /* the expression of Kimi K2 */
/* ranks.c: the whole of a tekken.json, and of a tiktoken.model with its tokenizer_config.json. */
MUST_CHECK enum status load_tekken(struct tokenizer *t, const char *data, size_t len);
MUST_CHECK enum status load_tiktoken(struct tokenizer *t, const char *data, size_t len,
                                     const char *config, size_t config_len);
/* gguf.c: the whole of a GGUF file's tokenizer. */
MUST_CHECK enum status load_gguf(struct tokenizer *t, const struct gguf *g);

struct cJSON;
/* parts_json.c: the parts of a tokenizer.json but the model.  NULL or null: the part is absent. */
MUST_CHECK enum status load_normalizer(struct tokenizer *t, const struct cJSON *j);
MUST_CHECK enum status load_pre_tokenizer(struct tokenizer *t, const struct cJSON *j);
MUST_CHECK enum status load_post_processor(struct tokenizer *t, const struct cJSON *j);
MUST_CHECK enum status load_decoder(struct tokenizer *t, const struct cJSON *j);
/* For the GGUF loader too. */
MUST_CHECK enum status add_norm(struct tokenizer *t, struct norm_step **step, enum norm_kind kind);
MUST_CHECK enum status add_pre(struct tokenizer *t, struct pre_step **step, enum pre_kind kind);
MUST_CHECK enum status add_split(struct tokenizer *t, const char *pattern);
MUST_CHECK enum status add_dec(struct tokenizer *t, struct dec_step **step, enum dec_kind kind);
MUST_CHECK enum status decoder_prepare(struct tokenizer *t, bool present);
MUST_CHECK enum status decode_base64(const char *s, size_t len, struct text_buf *out);
MUST_CHECK enum status set_precompiled(struct norm_step *s, const char *map, size_t n);

#endif
