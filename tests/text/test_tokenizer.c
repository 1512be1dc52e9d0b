/* Tokenizers against vectors of HuggingFace tokenizers, and properties that hold for any text. */
#include "tests/text/vectors.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>

#include "data.h"
#include "effort.h"

#ifndef UNPACK_DIR
#error "the build says where .xz files are unpacked"
#endif

static struct tokenizer *open_or_fail(const char *path)
{
    struct tokenizer *t = NULL;
    cr_assert_eq(tokenizer_open(&t, path), ST_OK, "%s: %s", path, status_text());
    return t;
}

/* ---- small tokenizers with every kind of part, checked against HuggingFace tokenizers
 * (make_vectors.py) ---- */

static struct tokenizer *own_tokenizer(const char *file, cJSON **all)
{
    char name[512];
    struct tokenizer *t = NULL;
    snprintf(name, sizeof name, "text/%s", file);
    *all = parse_cases(own_data(name));
    cr_assert_not_null(*all, "%s", name);
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(*all, "tokenizer"));
    cr_assert_eq(tokenizer_from_json(&t, text, strlen(text), NULL, 0), ST_OK, "%s: %s", name,
                 status_text());
    free(text);
    return t;
}

Test(tokenizer, small_vectors)
{
    DIR *d = opendir(INGOT_SOURCE_DIR "/tests/data/text");
    int files = 0;
    cr_assert_not_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        cJSON *all;
        if (!strstr(e->d_name, ".json"))
            continue;
        struct tokenizer *t = own_tokenizer(e->d_name, &all);
        cr_expect_eq(check_cases(t, cJSON_GetObjectItem(all, "cases"), e->d_name), 0);
        tokenizer_destroy(t);
        cJSON_Delete(all);
        files++;
    }
    closedir(d);
    cr_expect_geq(files, 27);
}

/* ---- special tokens in content ---- */

static void check_marked(const struct tokenizer *t, const char *text, const char *marks,
                         const char *want)
{
    struct token_list ids = {0};
    struct text_buf got = {0}, scratch = {0};
    char content[64];
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        content[i] = (char)(marks[i] - '0');
    cr_assert_eq(tokenizer_encode_marked(t, text, n, content, 0, &ids), ST_OK, "%s", status_text());
    for (size_t i = 0; i < ids.n; i++) {
        struct tok_text piece = tokenizer_piece(t, ids.ids[i], &scratch).text;
        cr_assert_eq(text_buf_append(&got, " ", i > 0), ST_OK);
        cr_assert_eq(text_buf_append(&got, piece.data, piece.len), ST_OK);
    }
    cr_expect(got.len == strlen(want) && memcmp(got.data, want, got.len) == 0, "%s: %.*s", text,
              (int)got.len, got.data);
    token_list_free(&ids);
    text_buf_free(&got);
    text_buf_free(&scratch);
}

/* A special token counts where none of its bytes is content, whatever content is beside it; so do those that are found
 * in the normalized text. */
Test(tokenizer, special_tokens_of_content_are_text)
{
    static const char json[] =
        "{\"normalizer\":{\"type\":\"Lowercase\"},\"model\":{\"type\":\"BPE\",\"vocab\":"
        "{\"<\":0,\"s\":1,\">\":2,\"x\":3},\"merges\":[]},\"added_tokens\":["
        "{\"id\":4,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"
        "{\"id\":5,\"content\":\"<s>>\",\"special\":true,\"normalized\":false},"
        "{\"id\":6,\"content\":\"<x>\",\"special\":true,\"normalized\":true},"
        "{\"id\":7,\"content\":\"xx\",\"special\":false,\"normalized\":false}]}";
    struct tokenizer *t = NULL;
    cr_assert_eq(tokenizer_from_json(&t, json, strlen(json), NULL, 0), ST_OK, "%s", status_text());
    check_marked(t, "<s><s>", "000111", "<s> < s >");
    check_marked(t, "<s><s>", "111000", "< s > <s>");
    check_marked(t, "<s>", "010", "< s >");
    check_marked(t, "<s>", "001", "< s >");
    check_marked(t, "<s>>x", "00000", "<s>> x");
    check_marked(t, "<s>>x", "00011", "<s> > x"); /* content takes no token of the template away */
    check_marked(t, "<<s>", "1000", "< <s>");
    check_marked(t, "<X><X>", "000111", "<x> < x >");
    check_marked(t, "xxX<x>", "111000", "xx x <x>");
    tokenizer_destroy(t);
}

/* ---- real tokenizers ---- */

/* The tokenizer.json of a folder of hf/, unpacked with the xz tool when it has to be; NULL: no
 * tool. */
static const char *hf_tokenizer(const char *name)
{
    static char path[1024];
    char rel[256], command[8192];
    struct stat st;
    snprintf(rel, sizeof rel, "tokenizers/hf/%s/tokenizer.json", name);
    const char *plain = shared_data(rel);
    if (plain)
        return plain;
    snprintf(rel, sizeof rel, "tokenizers/hf/%s/tokenizer.json.xz", name);
    const char *packed = shared_data(rel);
    if (!packed || system("command -v xz >/dev/null 2>&1") != 0)
        return NULL;
    mkdir(UNPACK_DIR, 0777);
    snprintf(path, sizeof path, "%s/%s.json", UNPACK_DIR, name);
    if (stat(path, &st) == 0 && st.st_size > 0)
        return path;
    snprintf(command, sizeof command, "xz -dkc '%s' > '%s.%ld' && mv '%s.%ld' '%s'", packed, path,
             (long)getpid(), path, (long)getpid(), path);
    return system(command) == 0 ? path : NULL;
}

static void check_real(const char *name)
{
    char rel[256];
    snprintf(rel, sizeof rel, "tokenizers/expected/%s.json", name);
    const char *expected = shared_data(rel);
    if (!expected)
        cr_skip_test("no shared data (set INGOT_DATA)");
    cJSON *all = parse_cases(expected);
    const char *path = hf_tokenizer(name);
    cr_assert_not_null(all);
    cr_assert_not_null(path, "the xz tool is missing (package xz-utils)");
    struct tokenizer *t = open_or_fail(path);
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(all, "cases")), 127);
    cr_expect_eq(check_cases(t, cJSON_GetObjectItem(all, "cases"), name), 0);
    tokenizer_destroy(t);
    cJSON_Delete(all);
}

Test(tokenizer, qwen2)
{
    check_real("qwen2");
}
Test(tokenizer, qwen3)
{
    check_real("qwen3");
}
Test(tokenizer, llama3)
{
    check_real("llama-3.1-8b-instruct");
}
Test(tokenizer, mistral)
{
    check_real("mistral-7b");
}
Test(tokenizer, tinyllama)
{
    check_real("tinyllama");
}
Test(tokenizer, tinyllama_pairs)
{
    check_real("tinyllama-merge-pairs");
}
Test(tokenizer, phi3)
{
    check_real("phi-3-mini");
}
Test(tokenizer, falcon)
{
    check_real("falcon");
}

Test(tokenizer, stories_directory_and_gguf)
{
    const char *expected = shared_data("models/stories260K/tokenizer_expected.json");
    if (!expected)
        cr_skip_test("no shared data (set INGOT_DATA)");
    cJSON *all = parse_cases(expected);
    struct tokenizer *t = open_or_fail(shared_data("models/stories260K"));
    cr_expect_eq(check_cases(t, cJSON_GetObjectItem(all, "cases"), "stories260K"), 0);
    cr_expect_eq(tokenizer_specials(t)->bos, 1);
    cr_expect(tokenizer_specials(t)->adds_bos);
    tokenizer_destroy(t);
    t = open_or_fail(shared_data("models/stories260K/model.gguf"));
    cr_expect_eq(check_cases(t, cJSON_GetObjectItem(all, "cases"), "model.gguf"), 0);
    cr_expect_eq(tokenizer_specials(t)->eos, 2);
    cr_expect_eq(tokenizer_vocab_size(t), 512);
    tokenizer_destroy(t);
    cJSON_Delete(all);
}

static void check_gguf(const char *name)
{
    static const char border[] = "\n__ggml_vocab_test__\n";
    char rel[3][128], *next, *line;
    static const char *const ends[] = {"", ".inp", ".out"};
    char *text[3] = {0};
    size_t n[3];
    struct token_list ids = {0};
    int cases = 0;
    for (int i = 0; i < 3; i++)
        snprintf(rel[i], sizeof rel[i], "tokenizers/gguf/ggml-vocab-%s.gguf%s", name, ends[i]);
    if (!shared_data(rel[0]))
        cr_skip_test("no shared data (set INGOT_DATA)");
    struct tokenizer *t = open_or_fail(shared_data(rel[0]));
    for (int i = 1; i < 3; i++)
        cr_assert_not_null(text[i] = read_all(shared_data(rel[i]), &n[i]));
    line = text[2];
    for (char *p = text[1]; (next = strstr(p, border)); p = next + sizeof border - 1, cases++) {
        cr_assert_eq(tokenizer_encode(t, p, (size_t)(next - p), 0, &ids), ST_OK, "%s",
                     status_text());
        char *end = line + strcspn(line, "\n");
        bool same = true;
        size_t i = 0;
        for (char *stop; line < end; line = stop, i++) {
            long id = strtol(line, &stop, 10);
            if (stop == line || stop > end)
                break;
            same &= i < ids.n && ids.ids[i] == id;
        }
        cr_expect(same && i == ids.n, "%s: text %d", name, cases);
        line = end + 1;
    }
    cr_expect_geq(cases, 45);
    token_list_free(&ids);
    tokenizer_destroy(t);
    free(text[1]);
    free(text[2]);
}

Test(gguf_vocabulary, llama_spm)
{
    check_gguf("llama-spm");
}
Test(gguf_vocabulary, phi3)
{
    check_gguf("phi-3");
}
Test(gguf_vocabulary, gpt2)
{
    check_gguf("gpt-2");
}
Test(gguf_vocabulary, starcoder)
{
    check_gguf("starcoder");
}
Test(gguf_vocabulary, refact)
{
    check_gguf("refact");
}
Test(gguf_vocabulary, falcon)
{
    check_gguf("falcon");
}
Test(gguf_vocabulary, deepseek_llm)
{
    check_gguf("deepseek-llm");
}
Test(gguf_vocabulary, bert_bge)
{
    check_gguf("bert-bge");
}

/* ---- properties ---- */

static size_t random_text(uint64_t *rng, char *out, size_t max)
{
    static const char *const parts[] = {
        "the",          " ", "  ",           "\n",     "a", "é",  "語", "😀", "'s",      "12",
        "<|im_start|>", "́",  "\xE2\x96\x81", "<0x0A>", ".", "\t", "ab", "W", "\xC2\xA0"};
    size_t n = 0;
    for (size_t k = below(rng, 40); k > 0; k--) {
        const char *p = parts[below(rng, ARRAY_LEN(parts))];
        if (n + strlen(p) > max)
            break;
        memcpy(out + n, p, strlen(p));
        n += strlen(p);
    }
    return n;
}

Test(tokenizer, byte_level_round_trip)
{
    cJSON *all;
    struct tokenizer *t = own_tokenizer("byte-level-llama3.json", &all);
    struct token_list ids = {0};
    struct text_buf out = {0};
    uint64_t rng = 1;
    char text[1024];
    for (int i = 0; i < 20000; i++) {
        size_t n = random_text(&rng, text, sizeof text);
        out.len = 0;
        cr_assert_eq(tokenizer_encode(t, text, n, 0, &ids), ST_OK);
        cr_assert_eq(tokenizer_decode(t, ids.ids, ids.n, 0, &out), ST_OK);
        cr_assert(out.len == n && (n == 0 || memcmp(out.data, text, n) == 0), "%.*s", (int)n, text);
    }
    token_list_free(&ids);
    text_buf_free(&out);
    tokenizer_destroy(t);
    cJSON_Delete(all);
}

/* Origins lie in the text, in order, and cover it (byte-level, no normalizer). */
Test(tokenizer, explain_covers_the_text)
{
    static const char *const files[] = {"byte-level-llama3.json", "byte-level-falcon.json"};
    for (size_t f = 0; f < ARRAY_LEN(files); f++) {
        cJSON *all;
        struct tokenizer *t = own_tokenizer(files[f], &all);
        struct token_list ids = {0}, plain = {0};
        uint64_t rng = 2;
        char text[1024];
        for (int i = 0; i < 5000; i++) {
            size_t n = random_text(&rng, text, sizeof text), at = 0;
            cr_assert_eq(tokenizer_encode(t, text, n, TOK_EXPLAIN | TOK_ADD_SPECIAL, &ids), ST_OK);
            cr_assert_eq(tokenizer_encode(t, text, n, TOK_ADD_SPECIAL, &plain), ST_OK);
            cr_assert(plain.n == ids.n &&
                      (ids.n == 0 || memcmp(plain.ids, ids.ids, ids.n * sizeof *ids.ids) == 0));
            for (size_t k = 0; k < ids.n; k++) {
                cr_assert_eq(ids.origins[k].begin, at);
                at = ids.origins[k].end;
            }
            cr_assert_eq(at, n);
        }
        token_list_free(&ids);
        token_list_free(&plain);
        tokenizer_destroy(t);
        cJSON_Delete(all);
    }
}

Test(tokenizer, explain_names_sources)
{
    cJSON *all;
    struct tokenizer *t = own_tokenizer("sentencepiece.json", &all);
    struct token_list ids = {0};
    const char *text = "the \xF0\x93\x82\x80</s>";
    cr_assert_eq(tokenizer_encode(t, text, strlen(text), TOK_EXPLAIN | TOK_ADD_SPECIAL, &ids),
                 ST_OK);
    cr_expect_eq(ids.origins[0].source, TOKEN_TEMPLATE);
    cr_expect_eq(ids.origins[1].source, TOKEN_MODEL);
    cr_expect_eq(ids.origins[ids.n - 2].source, TOKEN_BYTE);
    cr_expect_eq(ids.origins[ids.n - 2].end, 8);
    cr_expect_eq(ids.origins[ids.n - 1].source, TOKEN_ADDED);
    cr_expect_eq(ids.origins[ids.n - 1].begin, 8);
    cr_assert_eq(tokenizer_encode(t, "</s>", 4, TOK_NO_PARSE_SPECIAL, &ids), ST_OK);
    cr_expect_gt(ids.n, 1);
    token_list_free(&ids);
    tokenizer_destroy(t);
    cJSON_Delete(all);
}

/* A megabyte of one thing: with quadratic work this would not end within the test's time limit. */
Test(tokenizer, hostile_texts_end)
{
    static const char *const files[] = {"byte-level-qwen.json",
                                        "byte-level-gpt2.json",
                                        "byte-level-falcon.json",
                                        "deepseek-coder.json",
                                        "sentencepiece.json",
                                        "metaspace-first.json",
                                        "unigram.json",
                                        "bert.json",
                                        "clip.json"};
    static const char *const units[] = {"a",   " ", "\n",           "😀", "\xCC\x81\xCC\xA3",
                                        " \n", "'", "\xE2\x96\x81", "1", " x"};
    size_t size = (size_t)effort(1 << 20, 1 << 17);
    char *text = malloc(size + 8);
    cr_assert_not_null(text);
    for (size_t f = 0; f < ARRAY_LEN(files); f++) {
        cJSON *all;
        struct tokenizer *t = own_tokenizer(files[f], &all);
        struct token_list ids = {0};
        for (size_t u = 0; u < ARRAY_LEN(units); u++) {
            size_t k = strlen(units[u]), n = 0;
            for (; n + k < size; n += k)
                memcpy(text + n, units[u], k);
            text[n++] = 'z';
            cr_assert_eq(tokenizer_encode(t, text, n, 0, &ids), ST_OK, "%s", status_text());
        }
        token_list_free(&ids);
        tokenizer_destroy(t);
        cJSON_Delete(all);
    }
    free(text);
}

struct job {
    const struct tokenizer *t;
    const cJSON *cases;
    int wrong;
};

static void *run_job(void *arg)
{
    struct job *j = arg;
    for (int i = 0; i < 10; i++)
        j->wrong += check_cases(j->t, j->cases, "thread");
    return NULL;
}

Test(tokenizer, threads_share_one)
{
    cJSON *all;
    struct tokenizer *t = own_tokenizer("byte-level-qwen.json", &all);
    struct job jobs[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (struct job){t, cJSON_GetObjectItem(all, "cases"), 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_expect_eq(jobs[i].wrong, 0);
    }
    tokenizer_destroy(t);
    cJSON_Delete(all);
}

/* ---- refusals ---- */

#define MODEL                                                                                      \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

Test(tokenizer, refuses_by_name)
{
    static const struct {
        const char *json, *says;
        enum status st;
    } rows[] = {
        {"", "expected '{'", ST_FORMAT},
        {"{" MODEL "} x", "after the end", ST_FORMAT},
        {"{}", "no model", ST_FORMAT},
        {"{\"normalizer\":{\"type\":\"Wobble\"}," MODEL "}", "normalizer Wobble", ST_UNSUPPORTED},
        {"{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}," MODEL "}",
         "pre_tokenizer UnicodeScripts", ST_UNSUPPORTED},
        {"{\"decoder\":{\"type\":\"CTC\"}," MODEL "}", "decoder CTC", ST_UNSUPPORTED},
        {"{\"post_processor\":{\"type\":\"X\"}," MODEL "}", "post_processor X", ST_UNSUPPORTED},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":"
         "\"Isolated\"}," MODEL "}",
         "regular expression", ST_FORMAT},
        {"{\"model\":{\"type\":\"Wobble\",\"vocab\":{}}}", "model Wobble", ST_UNSUPPORTED},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "merge 0",
         ST_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}", "merge 0",
         ST_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "the id 0",
         ST_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999},\"merges\":[]}}", "too large",
         ST_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}",
         "dropout", ST_UNSUPPORTED},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"u\"}}",
         "unk_token", ST_FORMAT},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":1}}", "unk_id",
         ST_RANGE},
        {"{\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"s\",7],\"cls\":[\"c\",0]}"
         "," MODEL "}",
         "the id 7", ST_RANGE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct tokenizer *t;
        enum status st = tokenizer_from_json(&t, rows[i].json, strlen(rows[i].json), NULL, 0);
        cr_expect_eq(st, rows[i].st, "%s: %s %s", rows[i].json, status_name(st), status_text());
        cr_expect_null(t);
        cr_expect(strstr(status_text(), rows[i].says), "\"%s\" does not say \"%s\"", status_text(),
                  rows[i].says);
    }
}

/* A model with the steps (JSON, with commas behind) in its normalizer; % is 60,000 times x. */
static struct tokenizer *growing(const char *steps)
{
    static char json[1 << 18];
    size_t n = (size_t)snprintf(
        json, sizeof json,
        "{\"added_tokens\":[{\"id\":3,\"content\":\"|\",\"special\":true}],\"normalizer\":{"
        "\"type\":\"Sequence\",\"normalizers\":[");
    for (; *steps; steps++) {
        if (*steps == '%') {
            memset(json + n, 'x', 60000);
            n += 60000;
        } else {
            json[n++] = *steps;
        }
    }
    snprintf(json + n, sizeof json - n, "{\"type\":\"Lowercase\"}]}," MODEL "}");
    struct tokenizer *t;
    cr_assert_eq(tokenizer_from_json(&t, json, strlen(json), NULL, 0), ST_OK, "%s", status_text());
    return t;
}

#define GROW(from, to)                                                                             \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" from "\"},\"content\":\"" to "\"},"

/* A small text that the normalizer would make large, at once, step by step or part by part, is refused. */
Test(tokenizer, normalizers_are_bounded)
{
    static const struct {
        const char *steps, *text;
        int times;
        enum status st;
    } rows[] = {
        {GROW("a", "bbbbbbbbbbbbbbbb"), "a", 100000, ST_OK},
        {GROW("a", "bbbbbbbbbbbbbbbb") GROW("b", "cccccccccccccccc"), "a", 1000, ST_RANGE},
        {GROW("a", "%"), "a", 1, ST_OK},
        {GROW("a", "%"), "a", 1000, ST_RANGE},
        {GROW("a", "%") GROW("x", "%"), "a", 1, ST_RANGE},
        {"{\"type\":\"Prepend\",\"prepend\":\"%\"},", "b", 1000, ST_OK},
        {"{\"type\":\"Prepend\",\"prepend\":\"%\"},", "b|", 1000, ST_RANGE},
        {"{\"type\":\"Prepend\",\"prepend\":\"%\"}," GROW("%", ""), "b|", 1000, ST_RANGE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct tokenizer *t = growing(rows[i].steps);
        struct token_list ids = {0};
        size_t n = strlen(rows[i].text), all = n * (size_t)rows[i].times;
        char *text = malloc(all);
        for (size_t k = 0; k < all; k++)
            text[k] = rows[i].text[k % n];
        enum status st = tokenizer_encode(t, text, all, 0, &ids);
        bool spelled = st != ST_UNSUPPORTED; /* the model has no c and no x: the text was made */
        cr_expect_eq(spelled ? st : ST_OK, rows[i].st, "%zu: %s", i, status_text());
        cr_expect(st != ST_RANGE || strstr(status_text(), "the tokenizer makes more than"), "%s",
                  status_text());
        free(text);
        token_list_free(&ids);
        tokenizer_destroy(t);
    }
}

Test(tokenizer, refuses_text_that_is_not_utf8)
{
    struct tokenizer *t;
    struct token_list ids = {0};
    cr_assert_eq(tokenizer_from_json(&t, "{" MODEL "}", strlen("{" MODEL "}"), NULL, 0), ST_OK);
    cr_expect_eq(tokenizer_encode(t, "ab\xFF", 3, 0, &ids), ST_FORMAT);
    cr_expect(strstr(status_text(), "byte 2"));
    cr_expect_eq(tokenizer_encode(t, "abb", 3, 0, &ids), ST_OK);
    cr_expect(ids.n == 2 && ids.ids[0] == 2 && ids.ids[1] == 1);
    token_list_free(&ids);
    tokenizer_destroy(t);
    cr_expect_eq(tokenizer_open(&t, "/nowhere/at/all"), ST_NOT_FOUND);
    tokenizer_destroy(NULL);
}

Test(tokenizer, answers_questions)
{
    cJSON *all;
    struct tokenizer *t = own_tokenizer("byte-level-qwen.json", &all);
    struct text_buf scratch = {0};
    int32_t id = tokenizer_find(t, "<|im_start|>", 12);
    cr_assert_geq(id, 0);
    cr_expect(tokenizer_is_special(t, id));
    struct token_piece p = tokenizer_piece(t, tokenizer_find(t, "\xC4\xA0the", 5), &scratch);
    cr_expect(p.bytes.len == 4 && memcmp(p.bytes.data, " the", 4) == 0 && !p.special && !p.added);
    cr_expect_null(tokenizer_piece(t, tokenizer_max_id(t) + 1, &scratch).text.data);
    cr_expect_null(tokenizer_piece(t, -1, &scratch).text.data);
    cr_expect_eq(tokenizer_find(t, "no such token", 13), -1);
    cr_expect_eq(tokenizer_vocab_size(t), tokenizer_max_id(t) + 1);
    text_buf_free(&scratch);
    tokenizer_destroy(t);
    cJSON_Delete(all);
}
