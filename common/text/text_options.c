#include "common/text/text_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) .at = offsetof(struct text_options, member)
#define EXIT_CODES                                                                                 \
    "Exit codes: 0 done, 1 failure (a file, a format), 2 wrong options; with --connect 3 no "      \
    "server\nanswers or it went away, 4 the request was refused."

#define TOKENIZER_ROW                                                                              \
    {                                                                                              \
        .name = "tokenizer", .type = OPT_STRING, AT(tokenizer), .arg = "FILE",                     \
        .help = "A tokenizer.json or a .gguf file instead of MODEL."                               \
    }
#define CONNECT_ROW                                                                                \
    {                                                                                              \
        .name = "connect", .type = OPT_STRING, AT(connect), .arg = "EP",                           \
        .help = "Ask the running server there instead of reading a model."                         \
    }

static const struct option_row tokenize_rows[] = {
    TOKENIZER_ROW,
    CONNECT_ROW,
    {.name = "text",
     .type = OPT_STRING,
     AT(text),
     .arg = "TEXT",
     .may_be_empty = true,
     .help = "The text."},
    {.name = "text-file",
     .type = OPT_STRING,
     AT(text_file),
     .arg = "FILE",
     .help = "Read the text from a file, byte for byte; - is standard input."},
    {.name = "no-special",
     .type = OPT_FLAG,
     AT(no_special),
     .help = "Do not add what the model puts around a text (BOS, EOS, [CLS] ...).  For a text that "
             "comes from `ingot template`, which carries its own."},
    {.name = "no-parse-special",
     .type = OPT_FLAG,
     AT(no_parse_special),
     .help = "Special tokens that are spelled out in the text stay plain text."},
    {.name = "json", .type = OPT_FLAG, AT(json), .help = "Print {\"ids\": [...], \"count\": N}."},
    {.name = "explain",
     .type = OPT_FLAG,
     AT(explain),
     .help = "One line a token: its place, id, the bytes of the text it covers, where it came from "
             "(model, byte, unknown, added, template), how the vocabulary spells it, and its "
             "text."},
};

const struct option_set text_tokenize_options = {
    .program = "ingot tokenize",
    .usage = "(MODEL | --tokenizer FILE | --connect EP) (--text T | --text-file F) [options]",
    .summary = "Prints the token ids of a text, exactly those that the model's own library gives.",
    .epilog = "Examples:\n"
              "  ingot tokenize models/Qwen3-0.6B --text 'Hello, world'\n"
              "  ingot tokenize model.gguf --text-file prompt.txt --explain\n" EXIT_CODES,
    .rows = tokenize_rows,
    .n_rows = ARRAY_LEN(tokenize_rows),
    .max_args = 1,
};

static const struct option_row detokenize_rows[] = {
    TOKENIZER_ROW,
    CONNECT_ROW,
    {.name = "ids",
     .type = OPT_STRING,
     AT(ids),
     .may_be_empty = true,
     .arg = "IDS",
     .help = "Token ids between blanks or commas, \"1 2 3\" or \"[1, 2, 3]\"."},
    {.name = "ids-file",
     .type = OPT_STRING,
     AT(ids_file),
     .arg = "FILE",
     .help = "Read the ids from a file; - is standard input."},
    {.name = "skip-special",
     .type = OPT_FLAG,
     AT(skip_special),
     .help = "Leave special tokens out."},
};

const struct option_set text_detokenize_options = {
    .program = "ingot detokenize",
    .usage = "(MODEL | --tokenizer FILE | --connect EP) (--ids IDS | --ids-file F) [options]",
    .summary = "Prints the text of token ids, byte for byte; on a terminal a newline follows.",
    .epilog = "Example:\n"
              "  ingot detokenize models/Qwen3-0.6B --ids '9707 11 1879'\n" EXIT_CODES,
    .rows = detokenize_rows,
    .n_rows = ARRAY_LEN(detokenize_rows),
    .max_args = 1,
};

static const char *source_conflict(const struct text_options *o, int n_args)
{
    if (o->connect && (o->tokenizer || n_args))
        return "give either --connect EP or a model";
    if (!o->connect && (o->tokenizer != NULL) == (n_args == 1))
        return "give either MODEL or --tokenizer FILE, or --connect EP to ask a server";
    return NULL;
}

const char *text_tokenize_conflict(const struct text_options *o, int n_args)
{
    if ((o->text != NULL) == (o->text_file != NULL))
        return "give either --text or --text-file";
    if (o->json && o->explain)
        return "--json and --explain exclude each other";
    if (o->connect && (o->explain || o->no_parse_special))
        return "--explain and --no-parse-special need the model itself, not --connect";
    return source_conflict(o, n_args);
}

const char *text_detokenize_conflict(const struct text_options *o, int n_args)
{
    if ((o->ids != NULL) == (o->ids_file != NULL))
        return "give either --ids or --ids-file";
    return source_conflict(o, n_args);
}

enum status text_parse_ids(const char *text, int32_t max_id, int32_t *ids, size_t *n)
{
    static const char between[] = " \t\r\n,[]";
    *n = 0;
    for (const char *p = text + strspn(text, between); *p; p += strspn(p, between)) {
        char *end;
        errno = 0;
        long long id = strtoll(p, &end, 10);
        if (end == p || (*end && !strchr(between, *end)))
            FAIL(ST_FORMAT, "'%.20s' is no token id", p);
        if (errno || id < 0 || id > max_id)
            FAIL(ST_RANGE, "%.20s: ids go from 0 to %d", p, (int)max_id);
        ids[(*n)++] = (int32_t)id;
        p = end;
    }
    return ST_OK;
}
