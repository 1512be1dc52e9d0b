/* Vocabularies that list the bytes of each token in the order in which they merge, as tiktoken has them: tekken.json
 * (Mistral) and tiktoken.model (Kimi).  Two neighbours merge when their bytes are a token, the lowest first, and a
 * piece that is a token is not cut.  Sources: mistral-common's Tekkenizer, tiktoken. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/json_get.h"
#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/tok_json.h"
#include "coordinator/tokenizer/unicode.h"

enum { MAX_TOKEN = 1024 /* bytes */, MAX_FILE = 128 << 20 };

/* A token's bytes in base64, as id. */
static enum status set_token(struct tokenizer *t, int32_t id, const char *text, size_t n)
{
    struct text_buf bytes = {0}, spelled = {0};
    enum status st = decode_base64(text, n, &bytes);
    if (st == ST_OK && (bytes.len == 0 || bytes.len > MAX_TOKEN))
        st = status_fail(ST_FORMAT, __FILE__, __LINE__, "token %d has %zu bytes, not 1 to %d", id,
                         bytes.len, MAX_TOKEN);
    for (size_t i = 0; i < bytes.len && st == ST_OK; i++) {
        char c[4];
        st = text_buf_append(&spelled, c, u8_put(c, byte_to_char((unsigned char)bytes.data[i])));
    }
    if (st == ST_OK)
        st = vocab_set(&t->vocab, id, spelled.data, spelled.len, TF_MODEL);
    text_buf_free(&bytes);
    text_buf_free(&spelled);
    return st;
}

/* Every way to cut a token into two tokens; into NULL: they are counted. */
static uint32_t cut_tokens(const struct tokenizer *t, struct merge_map *into)
{
    uint32_t n = 0;
    for (int32_t id = 0; id < t->vocab.n_ids; id++) {
        if (!(t->vocab.flags[id] & TF_MODEL))
            continue;
        struct tok_text s = vocab_raw(&t->vocab, id);
        for (size_t at = 1; at < s.len; at++) {
            int32_t left = vocab_find_raw(&t->vocab, s.data, at);
            int32_t right = left < 0 ? -1 : vocab_find_raw(&t->vocab, s.data + at, s.len - at);
            if (right < 0)
                continue;
            n++;
            if (into)
                merge_map_put(into, (struct merge){left, right, id, (uint32_t)id});
        }
    }
    return n;
}

/* After the last token. */
static enum status finish_model(struct tokenizer *t, const char *pattern)
{
    struct pre_step *pre;
    struct dec_step *dec;
    t->model.kind = MODEL_BPE;
    t->model.unk = -1;
    t->model.ignore_merges = true;
    TRY(vocab_finish(&t->vocab, true));
    TRY(merge_map_init(&t->model.merges, cut_tokens(t, NULL)));
    (void)cut_tokens(t, &t->model.merges);
    TRY(bpe_prepare(t));
    TRY(add_split(t, pattern));
    TRY(add_pre(t, &pre, PRE_BYTE_LEVEL));
    TRY(add_dec(t, &dec, DEC_BYTE_LEVEL));
    return decoder_prepare(t, true);
}

static enum status add_special(struct tokenizer *t, int32_t id, const char *text)
{
    if (!text || !*text)
        FAIL(ST_FORMAT, "special token %d has no text", id);
    if (id < t->vocab.n_ids && t->vocab.flags[id])
        FAIL(ST_FORMAT, "two tokens have the id %d", id);
    TRY(vocab_set(&t->vocab, id, text, strlen(text), TF_ADDED));
    return tokenizer_add_token(t, (struct added_token){.id = id, .special = true}, text,
                               strlen(text));
}

/* ---- tekken.json ---- */

static int32_t special_named(const struct tokenizer *t, const char *text)
{
    for (size_t i = 0; i < t->n_added; i++) {
        if (tok_text_is(vocab_text(&t->vocab, t->added[i].id), text))
            return t->added[i].id;
    }
    return -1;
}

/* Files before version 7 of the format do not list them. */
static enum status tekken_specials(struct tokenizer *t, const cJSON *list, int32_t n)
{
    static const char *const first[] = {"<unk>",
                                        "<s>",
                                        "</s>",
                                        "[INST]",
                                        "[/INST]",
                                        "[AVAILABLE_TOOLS]",
                                        "[/AVAILABLE_TOOLS]",
                                        "[TOOL_RESULTS]",
                                        "[/TOOL_RESULTS]",
                                        "[TOOL_CALLS]",
                                        "[IMG]",
                                        "<pad>",
                                        "[IMG_BREAK]",
                                        "[IMG_END]",
                                        "[PREFIX]",
                                        "[MIDDLE]",
                                        "[SUFFIX]",
                                        "[SYSTEM_PROMPT]",
                                        "[/SYSTEM_PROMPT]",
                                        "[TOOL_CONTENT]"};
    const cJSON *item;
    char filler[32];
    bool *given = calloc((size_t)n + 1, sizeof *given);
    enum status st =
        given ? ST_OK : status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for %d tokens", n);
    for (int32_t i = 0; !list && st == ST_OK && i < n && i < (int32_t)ARRAY_LEN(first); i++) {
        given[i] = true;
        st = add_special(t, i, first[i]);
    }
    cJSON_ArrayForEach(item, list)
    {
        int32_t id = -1;
        const char *text = NULL;
        if (st == ST_OK)
            st = json_i32(item, "rank", 0, n - 1, &id);
        if (st == ST_OK)
            st = json_string(item, "token_str", &text);
        if (st == ST_OK && (id < 0 || given[id]))
            st = status_fail(ST_FORMAT, __FILE__, __LINE__,
                             "tekken.json: a special token has no rank of its own");
        if (st == ST_OK) {
            given[id] = true;
            st = add_special(t, id, text);
        }
    }
    for (int32_t i = 0; st == ST_OK && i < n; i++) {
        snprintf(filler, sizeof filler, "<SPECIAL_%d>", i);
        st = given[i] ? ST_OK : add_special(t, i, filler);
    }
    free(given);
    return st;
}

struct tekken { /* the members that are read */
    struct tok_text config, vocab, special_tokens;
};

static enum status walk_tekken(struct tok_json *r, struct tekken *f)
{
    struct tok_text key;
    bool first, more;
    TRY(tok_json_open(r, '{', &first));
    for (;;) {
        TRY(tok_json_key(r, &first, &more, &key));
        if (!more)
            return tok_json_end(r);
        struct tok_text text, *to = tok_text_is(key, "config")           ? &f->config
                                    : tok_text_is(key, "vocab")          ? &f->vocab
                                    : tok_text_is(key, "special_tokens") ? &f->special_tokens
                                                                         : &text;
        char kind = tok_json_peek(r);
        TRY(kind == '{' || kind == '[' ? tok_json_block(r, to) : tok_json_value(r, to));
    }
}

static enum status tekken_token(struct tokenizer *t, struct tok_json *r, int32_t n_special,
                                int32_t at)
{
    struct tok_text key, bytes = {NULL, 0};
    bool first, more;
    long rank = -1;
    TRY(tok_json_open(r, '{', &first));
    for (;;) {
        TRY(tok_json_key(r, &first, &more, &key));
        if (!more)
            break;
        if (tok_text_is(key, "rank"))
            TRY(tok_json_index(r, TOK_MAX_VOCAB, &rank));
        else if (tok_text_is(key, "token_bytes"))
            TRY(tok_json_value(r, &bytes)); /* with its quotation marks; base64 has no escapes */
        else
            TRY(tok_json_value(r, &key));
    }
    if (rank != at || bytes.len < 2 || bytes.data[0] != '"')
        FAIL(ST_FORMAT, "tekken.json: vocab[%d] has the rank %ld, or no token_bytes", at, rank);
    return set_token(t, n_special + at, bytes.data + 1, bytes.len - 2);
}

/* The first n of the list. */
static enum status tekken_vocab(struct tokenizer *t, struct tok_text list, int32_t n_special,
                                int32_t n)
{
    struct tok_json r;
    bool first, more = true;
    int32_t at = 0;
    tok_json_init(&r, list.data, list.len);
    enum status st = tok_json_open(&r, '[', &first);
    while (st == ST_OK && at < n) {
        st = tok_json_item(&r, &first, &more);
        if (st == ST_OK && !more)
            st = status_fail(ST_FORMAT, __FILE__, __LINE__,
                             "tekken.json: vocab has %d tokens, not %d", at, n);
        if (st == ST_OK)
            st = tekken_token(t, &r, n_special, at++);
    }
    tok_json_fini(&r);
    return st;
}

static enum status set_bos(struct tokenizer *t)
{
    t->specials.bos = special_named(t, "<s>");
    t->specials.eos = special_named(t, "</s>");
    t->specials.pad = special_named(t, "<pad>");
    t->specials.unk = special_named(t, "<unk>");
    if (t->specials.bos < 0)
        return ST_OK;
    t->head = malloc(sizeof *t->head);
    if (!t->head)
        FAIL(ST_NOMEM, "no memory for a token");
    t->head[0] = t->specials.bos;
    t->n_head = 1;
    return ST_OK;
}

static enum status read_tekken(struct tokenizer *t, const struct tekken *f, const cJSON *config,
                               const cJSON *special)
{
    const char *pattern = NULL;
    int32_t size = 0, n_special = 0;
    TRY(json_string(config, "pattern", &pattern));
    TRY(json_i32(config, "default_vocab_size", 2, TOK_MAX_VOCAB, &size));
    TRY(json_i32(config, "default_num_special_tokens", 0, TOK_MAX_VOCAB, &n_special));
    if (!pattern || n_special >= size || !f->vocab.data)
        FAIL(ST_FORMAT, "tekken.json: no vocab, config.pattern or config.default_vocab_size");
    TRY(tekken_vocab(t, f->vocab, n_special, size - n_special));
    TRY(finish_model(t, pattern));
    TRY(tekken_specials(t, special, n_special));
    return set_bos(t);
}

static enum status parse(cJSON **out, struct tok_text text, const char *what)
{
    *out = NULL;
    return text.data ? json_parse(out, text.data, text.len, MAX_FILE, what) : ST_OK;
}

enum status load_tekken(struct tokenizer *t, const char *data, size_t len)
{
    struct tekken f = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    cJSON *config = NULL, *special = NULL;
    struct tok_json r;
    tok_json_init(&r, data, len);
    enum status st = walk_tekken(&r, &f);
    tok_json_fini(&r);
    if (st == ST_OK)
        st = parse(&config, f.config, "tekken.json: config");
    if (st == ST_OK)
        st = parse(&special, f.special_tokens, "tekken.json: special_tokens");
    if (st == ST_OK)
        st = read_tekken(t, &f, config, special);
    cJSON_Delete(config);
    cJSON_Delete(special);
    return st;
}

/* ---- tiktoken.model ---- */

/* Lines of base64, a blank, the rank. */
static enum status read_lines(struct tokenizer *t, const char *data, size_t len)
{
    int32_t line = 0;
    for (const char *p = data, *end = data + len; p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        const char *blank = memchr(p, ' ', (size_t)(stop - p));
        int32_t rank = 0;
        bool good = blank && blank + 1 < stop;
        for (const char *d = good ? blank + 1 : stop; good && d < stop; d++) {
            good = *d >= '0' && *d <= '9' && rank < TOK_MAX_VOCAB;
            rank = good ? rank * 10 + (*d - '0') : rank;
        }
        if (!good || rank >= TOK_MAX_VOCAB)
            FAIL(ST_FORMAT, "tiktoken.model: line %d is no token and rank below %d", line + 1,
                 (int)TOK_MAX_VOCAB);
        TRY(set_token(t, rank, p, (size_t)(blank - p)));
        p = stop < end ? stop + 1 : end;
    }
    return line ? ST_OK : status_fail(ST_FORMAT, __FILE__, __LINE__, "tiktoken.model is empty");
}

static enum status tiktoken_specials(struct tokenizer *t, const cJSON *config)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, json_member(config, "added_tokens_decoder"))
    {
        const cJSON *text = json_member(item, "content");
        char *end;
        long id = strtol(item->string, &end, 10);
        if (*end || end == item->string || id < 0 || id >= TOK_MAX_VOCAB || !cJSON_IsString(text))
            FAIL(ST_FORMAT, "tokenizer_config.json: added_tokens_decoder.%.40s is no token",
                 item->string);
        TRY(add_special(t, (int32_t)id, text->valuestring));
    }
    return ST_OK;
}

enum status load_tiktoken(struct tokenizer *t, const char *data, size_t len, const char *config,
                          size_t config_len)
{
    cJSON *root;
    const char *class = NULL;
    TRY(json_parse(&root, config, config_len, MAX_FILE, "tokenizer_config.json"));
    enum status st = json_string(root, "tokenizer_class", &class);
    /* the file does not say how text is cut: the model's own code does */
    if (st == ST_OK && (!class || strcmp(class, "TikTokenTokenizer") != 0))
        st = status_fail(ST_UNSUPPORTED, __FILE__, __LINE__,
                         "tiktoken.model: the tokenizer_class \"%.60s\" is not supported (Kimi's "
                         "TikTokenTokenizer is)",
                         class ? class : "");
    if (st == ST_OK)
        st = read_lines(t, data, len);
    if (st == ST_OK)
        st = finish_model(t, gguf_pre_kimi());
    if (st == ST_OK)
        st = tiktoken_specials(t, root);
    cJSON_Delete(root);
    return st == ST_OK ? load_config(t, config, config_len) : st;
}
