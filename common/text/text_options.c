#include "common/text/text_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) .at = offsetof(struct text_options, member)
#define EXIT_CODES                                                                                 \
    "Exit codes: 0 done, 1 failure (a file, a format), 2 wrong options; when a server is asked: "  \
    "3 "                                                                                           \
    "no\nserver answers or it went away, 4 the request was refused, 130 interrupted."

#define TOKENIZER_ROW                                                                              \
    {                                                                                              \
        .name = "tokenizer", .type = OPT_STRING, AT(tokenizer), .arg = "FILE",                     \
        .help = "A tokenizer.json or a .gguf file instead of MODEL."                               \
    }
#define CONNECT_ROW                                                                                \
    {.name = "connect",                                                                            \
     .type = OPT_STRING,                                                                           \
     AT(connect),                                                                                  \
     .arg = "EP",                                                                                  \
     .help = "Ask the running server there; the default without MODEL is "                         \
             "tcp://127.0.0.1:5555."},                                                             \
        {.name = "key",                                                                            \
         .type = OPT_STRING,                                                                       \
         AT(key),                                                                                  \
         .arg = "FILE",                                                                            \
         .help = "This program's own key, made by `ingot key new FILE`: TCP "                      \
                 "connections between a server and its clients and workers are "                   \
                 "encrypted, and each side proves its key."},                                      \
    {                                                                                              \
        .name = "server-key", .type = OPT_STRING, AT(server_key), .arg = "KEY|FILE",               \
        .help = "The coordinator's public key, or a file with it (FILE.pub of "                    \
                "its key): needed with --key."                                                     \
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
    .usage = "[MODEL] (--text TEXT | --text-file FILE) [options]",
    .summary = "Prints the token ids of a text, exactly those that the model's own library gives.  "
               "MODEL is a folder in HuggingFace layout or a .gguf file; without it a running "
               "server is asked.",
    .epilog = "Examples:\n"
              "  ingot tokenize demo-model --text 'Hello, world'\n"
              "  ingot tokenize demo-model --text-file README.md --explain\n"
              "  ingot tokenize --text 'Hello, world'             # asks the server\n" EXIT_CODES,
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
    .usage = "[MODEL] (ID ... | --ids IDS | --ids-file F) [options]",
    .summary =
        "Prints the text of token ids, byte for byte; on a terminal a newline follows.  MODEL "
        "is a folder in HuggingFace layout or a .gguf file (./7 is a folder, 7 is an id); "
        "without it a running server is asked.",
    .epilog = "Examples:\n"
              "  ingot detokenize demo-model 754 919 261 536\n"
              "  ingot detokenize 754 919 261 536                 # asks the server\n"
              "  ingot tokenize demo-model --text 'Hi' | ingot detokenize demo-model "
              "--ids-file -\n" EXIT_CODES,
    .rows = detokenize_rows,
    .n_rows = ARRAY_LEN(detokenize_rows),
    .max_args = -1,
};

static const char between_ids[] = " \t\r\n,[]";

static bool reads_as_ids(const char *s)
{
    size_t n = strspn(s, "0123456789 \t\r\n,[]");
    return n && !s[n];
}

void text_take_arguments(struct text_options *o, const struct option_result *res)
{
    o->model = NULL;
    o->id_args = res->args;
    o->n_id_args = res->n_args;
    if (res->n_args && !o->tokenizer && !o->connect && !reads_as_ids(res->args[0])) {
        o->model = res->args[0];
        o->id_args++;
        o->n_id_args--;
    }
}

bool text_asks_server(const struct text_options *o)
{
    return !o->model && !o->tokenizer;
}

const char *text_tokenize_conflict(const struct text_options *o)
{
    if (o->n_id_args)
        return o->connect || o->tokenizer ? "give one of MODEL, --tokenizer and --connect"
                                          : "a MODEL of digits alone is written ./MODEL";
    if (o->connect && o->tokenizer)
        return "give one of MODEL, --tokenizer and --connect";
    if ((o->text != NULL) == (o->text_file != NULL))
        return "give either --text or --text-file";
    if (o->json && o->explain)
        return "--json and --explain exclude each other";
    if (text_asks_server(o) && (o->explain || o->no_parse_special))
        return "--explain and --no-parse-special need MODEL or --tokenizer";
    return NULL;
}

const char *text_detokenize_conflict(const struct text_options *o)
{
    if (o->connect && o->tokenizer)
        return "give one of MODEL, --tokenizer and --connect";
    if (o->n_id_args && (o->ids || o->ids_file))
        return o->connect || o->tokenizer ? "give one of MODEL, --tokenizer and --connect"
                                          : "give ids as arguments, by --ids or by --ids-file";
    if (!o->n_id_args && (o->ids != NULL) == (o->ids_file != NULL))
        return "give ids as arguments, by --ids or by --ids-file";
    return NULL;
}

enum status text_join_ids(char **out, const struct text_options *o)
{
    size_t n = 1;
    for (int i = 0; i < o->n_id_args; i++)
        n += strlen(o->id_args[i]) + 1;
    char *at = *out = malloc(n);
    if (!at)
        FAIL(ST_NOMEM, "no memory for the ids");
    *at = '\0';
    for (int i = 0; i < o->n_id_args; i++)
        at += sprintf(at, "%s ", o->id_args[i]);
    return ST_OK;
}

/* of the word at p, for a message */
static int word_length(const char *p)
{
    size_t n = strcspn(p, between_ids);
    return n < 20 ? (int)n : 20;
}

enum status text_parse_ids(const char *text, int32_t max_id, int32_t *ids, size_t *n)
{
    *n = 0;
    for (const char *p = text + strspn(text, between_ids); *p; p += strspn(p, between_ids)) {
        char *end;
        errno = 0;
        long long id = strtoll(p, &end, 10);
        if (end == p || (*end && !strchr(between_ids, *end)))
            FAIL(ST_FORMAT, "'%.*s' is no token id", word_length(p), p);
        if (errno || id < 0 || id > max_id)
            FAIL(ST_RANGE, "%.*s: ids go from 0 to %d", word_length(p), p, (int)max_id);
        ids[(*n)++] = (int32_t)id;
        p = end;
    }
    return ST_OK;
}
