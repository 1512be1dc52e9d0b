#include "client/cli/request_options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/json_write.h"
#include "common/utf8.h"

#define PAT(member, kind) .type = (kind), .at = offsetof(struct prompt_args, member)
#define SAT(member, kind) .type = (kind), .at = offsetof(struct sampling_args, member)

/* Values that have a range in the protocol are judged by the server, which names the field. */
#define ANY .min = (double)-INFINITY, .max = (double)INFINITY
#define U32 .max = 4294967295.0

static const struct option_row prompt_table[] = {
    {.help = "Prompt (exactly one of the first five)"},
    {.name = "prompt",
     PAT(prompt, OPT_STRING),
     .arg = "TEXT",
     .may_be_empty = true,
     .help = "A text for the model to continue."},
    {.name = "prompt-file",
     PAT(prompt_file, OPT_STRING),
     .arg = "FILE",
     .help = "The text in a file, byte for byte; - is standard input."},
    {.name = "tokens",
     PAT(tokens, OPT_STRING),
     .arg = "IDS",
     .help = "Token ids to continue, separated by blanks or commas."},
    {.name = "message",
     PAT(message, OPT_STRING),
     .arg = "TEXT",
     .help = "A message to a chat model; its chat template makes the prompt."},
    {.name = "chat",
     PAT(chat, OPT_STRING),
     .arg = "FILE|JSON",
     .help = "A conversation, a JSON list of {\"role\", \"content\", ...}: given here or in a "
             "file; - is "
             "standard input."},
    {.name = "system",
     PAT(system, OPT_STRING),
     .arg = "TEXT",
     .help = "With --message: the system turn before it."},
    {.name = "tools",
     PAT(tools, OPT_STRING),
     .arg = "FILE|JSON",
     .help = "With --message or --chat: tools that the model may call, a JSON list."},
    {.name = "tool-choice",
     PAT(tool_choice, OPT_STRING),
     .arg = "auto|required|NAME",
     .def = "auto",
     .help =
         "With --tools.  auto: the model decides whether it calls one.  required: the answer is "
         "calls only, whose arguments satisfy the tools' schemas.  NAME: calls of that tool."},
    {.name = "one-call",
     PAT(one_call, OPT_FLAG),
     .help = "With --tool-choice required or NAME, and with strict tools: at most one call."},
    {.name = "variables",
     PAT(variables, OPT_STRING),
     .arg = "FILE|JSON",
     .help =
         "With --message or --chat: a JSON object of further variables of the chat template, such "
         "as {\"enable_thinking\": false}."},
    {.name = "add-special",
     PAT(add_special, OPT_FLAG),
     .def = "true",
     .help = "Begin a --prompt with the tokens that the model expects there (BOS)."},
};

static const struct option_row sampling_table[] = {
    {.help = "Sampling and length"},
    {.name = "max-tokens",
     SAT(max_tokens, OPT_INT),
     .arg = "N",
     .def = "0",
     U32,
     .help = "Greatest number of tokens in the answer; 0: as many as the context has room for."},
    {.name = "min-tokens",
     SAT(min_tokens, OPT_INT),
     .arg = "N",
     .def = "0",
     U32,
     .help = "Least number of tokens in the answer."},
    {.name = "thinking-budget",
     SAT(thinking_budget, OPT_INT),
     .arg = "N",
     .def = "-1",
     .min = -1,
     .max = UINT32_MAX,
     .help = "With --message or --chat, of a model that thinks: tokens of thinking, then it is "
             "closed and the model answers; 0 closes it as it begins.  -1: any number."},
    {.name = "temperature",
     SAT(temperature, OPT_FLOAT),
     .arg = "X",
     .def = "-1",
     ANY,
     .help = "Temperature of the softmax; 0 always takes the most probable token (greedy).  -1: "
             "the model's."},
    {.name = "top-k",
     SAT(top_k, OPT_INT),
     .arg = "K",
     .def = "-1",
     .min = -1,
     .max = UINT32_MAX - 1.0,
     .help = "Sample from the K most probable tokens; 0: from all.  -1: the model's."},
    {.name = "top-p",
     SAT(top_p, OPT_FLOAT),
     .arg = "P",
     .def = "-1",
     ANY,
     .help = "Sample from the smallest set of most probable tokens whose probabilities add up to "
             "P.  -1: the model's."},
    {.name = "min-p",
     SAT(min_p, OPT_FLOAT),
     .arg = "P",
     .def = "-1",
     ANY,
     .help = "Sample from tokens with at least P times the probability of the most probable one.  "
             "-1: the model's."},
    {.name = "repetition-penalty",
     SAT(repetition_penalty, OPT_FLOAT),
     .arg = "X",
     .def = "-1",
     ANY,
     .help = "Divide positive and multiply negative logits of tokens that the prompt or the answer "
             "has.  -1: the model's."},
    {.name = "presence-penalty",
     SAT(presence_penalty, OPT_FLOAT),
     .arg = "X",
     .def = "0",
     ANY,
     .help = "Subtract X from the logits of tokens that the answer has."},
    {.name = "frequency-penalty",
     SAT(frequency_penalty, OPT_FLOAT),
     .arg = "X",
     .def = "0",
     ANY,
     .help = "Subtract X from the logit of a token for each time that the answer has it."},
    {.name = "logit-bias",
     SAT(logit_bias, OPT_LIST),
     .arg = "ID=X",
     .help = "Add X (-100 to 100) to the logit of a token; may be given several times."},
    {.name = "seed",
     SAT(seed, OPT_STRING),
     .arg = "N",
     .help =
         "Seed of the random numbers: the same request with the same seed has the same answer.  "
         "Without it one is chosen and reported."},
    {.name = "stop",
     SAT(stop, OPT_LIST),
     .arg = "TEXT",
     .help = "Stop before this text; may be given up to 16 times."},
    {.name = "stop-id",
     SAT(stop_id, OPT_LIST),
     .arg = "ID",
     .help = "Stop at this token; may be given several times."},
    {.name = "include-stop",
     SAT(include_stop, OPT_FLAG),
     .help = "Leave the text of --stop in the answer."},
    {.name = "ignore-eos",
     SAT(ignore_eos, OPT_FLAG),
     .help = "Do not stop at the model's end-of-sequence tokens."},
    {.name = "skip-special",
     SAT(skip_special, OPT_FLAG),
     .def = "true",
     .help = "Leave special tokens out of the answer's text."},
    {.name = "logprobs",
     SAT(logprobs, OPT_FLAG),
     .help = "Report the log probability of each token (seen with --json)."},
    {.name = "top-logprobs",
     SAT(top_logprobs, OPT_INT),
     .arg = "K",
     .def = "0",
     U32,
     .help = "Report the K most probable tokens at each position too; implies --logprobs."},
    {.name = "prompt-logprobs",
     SAT(prompt_logprobs, OPT_INT),
     .arg = "K",
     .def = "-1",
     .min = -1,
     .max = 20,
     .help = "Report the log probability of each token of the prompt and of the K most probable "
             "ones there "
             "(seen with --json); -1: none."},
    {.name = "n",
     SAT(n, OPT_INT),
     .arg = "N",
     .def = "1",
     U32,
     .help = "Number of answers to the same prompt, each with its own seed."},
    {.help = "Form of the answer (at most one)"},
    {.name = "json-schema",
     SAT(json_schema, OPT_STRING),
     .arg = "FILE|JSON",
     .help = "The answer is JSON that satisfies this JSON Schema, given here or in a file."},
    {.name = "json-object", SAT(json_object, OPT_FLAG), .help = "The answer is a JSON object."},
    {.name = "regex",
     SAT(regex, OPT_STRING),
     .arg = "RE",
     .help = "The whole answer matches this regular expression."},
    {.name = "grammar",
     SAT(grammar, OPT_STRING),
     .arg = "FILE",
     .help = "The answer is a text of this context-free grammar (GBNF, as in llama.cpp)."},
    {.name = "choice",
     SAT(choice, OPT_LIST),
     .arg = "TEXT",
     .help = "The answer is one of the texts given in this way."},
    {.help = "Request"},
    {.name = "model",
     SAT(model, OPT_STRING),
     .arg = "NAME",
     .help = "Name of the model on the server; default: the only one."},
    {.name = "request-id",
     SAT(request_id, OPT_STRING),
     .arg = "ID",
     .help = "Name of the request, at most 64 bytes; the same request sent again attaches to its "
             "answer."},
    {.name = "deadline-ms",
     SAT(deadline_ms, OPT_INT),
     .arg = "MS",
     .def = "0",
     U32,
     .help = "Stop the answer after that time; 0: no limit."},
    {.name = "priority",
     SAT(priority, OPT_INT),
     .arg = "N",
     .def = "0",
     .min = -100,
     .max = 100,
     .help = "Priority; greater is more urgent."},
    {.name = "wait-ms",
     SAT(wait_ms, OPT_INT),
     .arg = "MS",
     .def = "10000",
     U32,
     .help = "How long to wait for a server that does not answer, is busy or whose workers still "
             "load."},
};

void prompt_rows(struct row_list *l, size_t base)
{
    rows_add(l, prompt_table, ARRAY_LEN(prompt_table), base);
}

void sampling_rows(struct row_list *l, size_t base)
{
    rows_add(l, sampling_table, ARRAY_LEN(sampling_table), base);
}

bool sampling_has(const char *name, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(sampling_table); i++) {
        const char *has = sampling_table[i].name;
        if (has && strlen(has) == n && memcmp(has, name, n) == 0)
            return true;
    }
    return false;
}

/* ---- sampling ---- */

static enum status parse_id(const char *option, const char *text, char **end, int32_t *id)
{
    errno = 0;
    long long v = strtoll(text, end, 10);
    if (*end == text)
        FAIL(ST_RANGE, "--%s %.40s: not a token id", option, text);
    if (errno || v < 0 || v > INT32_MAX)
        FAIL(ST_RANGE, "--%s %.40s: token ids are 0 to %d", option, text, INT32_MAX);
    *id = (int32_t)v;
    return ST_OK;
}

static enum status parse_lists(struct built_request *b, const struct sampling_args *a)
{
    char *end;
    for (size_t i = 0; i < a->stop_id.n; i++) {
        TRY(parse_id("stop-id", a->stop_id.item[i], &end, &b->stop_ids[i]));
        if (*end)
            FAIL(ST_RANGE, "--stop-id %s: not a token id", a->stop_id.item[i]);
    }
    for (size_t i = 0; i < a->logit_bias.n; i++) {
        const char *text = a->logit_bias.item[i];
        TRY(parse_id("logit-bias", text, &end, &b->bias[i].id));
        const char *value = end + 1;
        if (*end != '=')
            FAIL(ST_RANGE, "--logit-bias %s: write ID=X, such as 13=-100", text);
        b->bias[i].bias = strtof(value, &end);
        if (end == value || *end || !isfinite(b->bias[i].bias))
            FAIL(ST_RANGE, "--logit-bias %s: not a number after =", text);
    }
    b->r.stop_ids = b->stop_ids;
    b->r.n_stop_ids = a->stop_id.n;
    b->r.bias = b->bias;
    b->r.n_bias = a->logit_bias.n;
    b->r.stops = a->stop.item;
    b->r.n_stops = a->stop.n;
    return ST_OK;
}

static enum status parse_seed(struct ingot_request *r, const char *text)
{
    char *end;
    if (!text)
        return ST_OK;
    errno = 0;
    r->seed = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno)
        FAIL(ST_RANGE, "--seed %s: a seed is a whole number from 0 to 18446744073709551615", text);
    r->has_seed = true;
    return ST_OK;
}

/* -1 leaves it to the server. */
static float number_or_unset(double v)
{
    return v == -1 ? NAN : (float)v;
}

/* ---- the form of the answer ---- */

/* JSON on the command line as it stands, else the contents of a file */
static enum status take_json(const char *value, char **data, size_t *n)
{
    const char *first = value + strspn(value, " \t\r\n");
    if (*first != '[' && *first != '{')
        return cli_read_file(value, data, n);
    *n = strlen(value);
    *data = strdup(value);
    if (!*data)
        FAIL(ST_NOMEM, "no memory for %zu bytes of JSON", *n);
    return ST_OK;
}

static enum status take_choices(struct built_request *b, const struct option_list *list)
{
    struct text_buf out = {0};
    struct json_writer w = {.out = &out};
    json_write_array(&w);
    for (size_t i = 0; i < list->n; i++) {
        if (!utf8_valid(list->item[i], strlen(list->item[i]))) {
            text_buf_free(&out);
            FAIL(ST_RANGE, "--choice: a text that is not UTF-8");
        }
        json_write_string(&w, list->item[i]);
    }
    json_write_end_array(&w);
    b->grammar = out.data;
    b->r.n_grammar = out.len;
    return w.status;
}

static enum status take_grammar(struct built_request *b, const struct sampling_args *a)
{
    struct ingot_request *r = &b->r;
    free(b->grammar);
    b->grammar = NULL;
    r->grammar_kind = INGOT_GRAMMAR_NONE;
    r->n_grammar = 0;
    if ((a->json_schema != NULL) + a->json_object + (a->regex != NULL) + (a->grammar != NULL) +
            (a->choice.n > 0) >
        1)
        FAIL(ST_RANGE,
             "at most one of --json-schema, --json-object, --regex, --grammar and --choice");
    if (a->json_schema) {
        r->grammar_kind = INGOT_GRAMMAR_JSON_SCHEMA;
        TRY(take_json(a->json_schema, &b->grammar, &r->n_grammar));
    } else if (a->json_object) {
        r->grammar_kind = INGOT_GRAMMAR_JSON_OBJECT;
    } else if (a->regex) {
        r->grammar_kind = INGOT_GRAMMAR_REGEX;
        r->n_grammar = strlen(a->regex);
        b->grammar = strdup(a->regex);
        if (!b->grammar)
            FAIL(ST_NOMEM, "no memory for --regex");
    } else if (a->grammar) {
        r->grammar_kind = INGOT_GRAMMAR_GBNF;
        TRY(cli_read_file(a->grammar, &b->grammar, &r->n_grammar));
    } else if (a->choice.n > 0) {
        r->grammar_kind = INGOT_GRAMMAR_CHOICE;
        TRY(take_choices(b, &a->choice));
    }
    r->grammar = b->grammar;
    return ST_OK;
}

enum status request_sampling(struct built_request *b, const struct sampling_args *a)
{
    struct ingot_request *r = &b->r;
    r->temperature = number_or_unset(a->temperature);
    r->top_p = number_or_unset(a->top_p);
    r->min_p = number_or_unset(a->min_p);
    r->top_k = a->top_k < 0 ? INGOT_TOP_K_UNSET : (uint32_t)a->top_k;
    r->repetition_penalty = number_or_unset(a->repetition_penalty);
    r->presence_penalty = (float)a->presence_penalty;
    r->frequency_penalty = (float)a->frequency_penalty;
    r->min_tokens = (uint32_t)a->min_tokens;
    r->max_tokens = (uint32_t)a->max_tokens;
    r->has_thinking_budget = a->thinking_budget >= 0;
    r->thinking_budget = a->thinking_budget < 0 ? 0 : (uint32_t)a->thinking_budget;
    r->ignore_eos = a->ignore_eos;
    r->include_stop = a->include_stop;
    r->skip_special = a->skip_special;
    r->logprobs = a->logprobs || a->top_logprobs > 0;
    r->top_logprobs = (uint32_t)a->top_logprobs;
    r->prompt_logprobs = a->prompt_logprobs >= 0;
    r->prompt_top = a->prompt_logprobs > 0 ? (uint32_t)a->prompt_logprobs : 0;
    r->n = (uint32_t)a->n;
    r->deadline_ms = (uint32_t)a->deadline_ms;
    r->priority = (int32_t)a->priority;
    r->request_id = a->request_id;
    r->model = a->model;
    if (a->request_id && strlen(a->request_id) >= INGOT_ID_SIZE)
        FAIL(ST_RANGE, "--request-id: longer than %d bytes", INGOT_ID_SIZE - 1);
    TRY(parse_seed(r, a->seed));
    TRY(take_grammar(b, a));
    return parse_lists(b, a);
}

/* ---- prompt ---- */

static enum status take_ids(struct built_request *b, const char *text)
{
    static const char between[] = " \t\r\n,[]";
    b->ids = malloc((strlen(text) + 1) * sizeof *b->ids);
    if (!b->ids)
        FAIL(ST_NOMEM, "no memory for the tokens");
    size_t n = 0;
    for (const char *p = text + strspn(text, between); *p; p += strspn(p, between)) {
        char *end;
        TRY(parse_id("tokens", p, &end, &b->ids[n]));
        if (*end && !strchr(between, *end))
            FAIL(ST_RANGE, "--tokens: '%.20s' is not a token id", p);
        n++;
        p = end;
    }
    if (n == 0)
        FAIL(ST_RANGE, "--tokens: there are no ids in it");
    b->r.ids = b->ids;
    b->r.n_ids = n;
    return ST_OK;
}

/* The end of the JSON value that begins at s, by its brackets and strings alone: the server reads
 * the rest. */
static const char *value_end(const char *s, const char *end)
{
    int depth = 0;
    for (; s < end; s++) {
        if (*s == '"') {
            for (s++; s < end && *s != '"'; s++)
                s += *s == '\\';
            if (s >= end)
                return NULL;
        } else if (*s == '{' || *s == '[') {
            depth++;
        } else if ((*s == '}' || *s == ']') && --depth == 0) {
            return s + 1;
        }
        if (depth == 0)
            return NULL; /* not an object */
    }
    return NULL;
}

static const char *skip_blanks(const char *s, const char *end)
{
    while (s < end && strchr(" \t\r\n", *s) && *s)
        s++;
    return s;
}

/* The messages of b->text, a JSON list, one turn each. */
static enum status split_messages(struct built_request *b, size_t n)
{
    static const char bad[] = "--chat: not a JSON list of messages such as "
                              "[{\"role\": \"user\", \"content\": \"Hi\"}]";
    const char *end = b->text + n, *s = skip_blanks(b->text, end);
    if (s == end || *s++ != '[')
        FAIL(ST_FORMAT, "%s", bad);
    b->turns = calloc(n / 2 + 1, sizeof *b->turns); /* "{}" is the shortest */
    if (!b->turns)
        FAIL(ST_NOMEM, "no memory for the conversation");
    s = skip_blanks(s, end);
    while (s < end && *s == '{') {
        const char *after = value_end(s, end);
        if (!after)
            FAIL(ST_FORMAT, "%s", bad);
        b->turns[b->n_turns++] = (struct ingot_turn){.json = s, .n_json = (size_t)(after - s)};
        s = skip_blanks(after, end);
        if (s == end || *s != ',')
            break;
        s = skip_blanks(s + 1, end);
        if (s == end || *s != '{')
            FAIL(ST_FORMAT, "%s", bad);
    }
    if (s == end || *s != ']' || skip_blanks(s + 1, end) != end || b->n_turns == 0)
        FAIL(ST_FORMAT, "%s", bad);
    return ST_OK;
}

static enum status take_message(struct built_request *b, const struct prompt_args *a)
{
    b->turns = calloc(2, sizeof *b->turns);
    if (!b->turns)
        FAIL(ST_NOMEM, "no memory for the conversation");
    if (a->system)
        b->turns[b->n_turns++] = (struct ingot_turn){
            .role = "system", .content = a->system, .n_content = strlen(a->system)};
    b->turns[b->n_turns++] =
        (struct ingot_turn){.role = "user", .content = a->message, .n_content = strlen(a->message)};
    return ST_OK;
}

static enum status take_chat(struct built_request *b, const struct prompt_args *a)
{
    size_t n;
    if (a->chat) {
        TRY(take_json(a->chat, &b->text, &n));
        TRY(split_messages(b, n));
    } else {
        TRY(take_message(b, a));
    }
    if (a->tools)
        TRY(take_json(a->tools, &b->tools, &n));
    if (a->variables)
        TRY(take_json(a->variables, &b->variables, &n));
    b->r.turns = b->turns;
    b->r.n_turns = b->n_turns;
    b->r.tools_json = b->tools;
    b->r.one_call = a->one_call;
    if (strcmp(a->tool_choice, "required") == 0)
        b->r.tool_choice = INGOT_TOOL_REQUIRED;
    else if (strcmp(a->tool_choice, "auto") != 0)
        b->r.tool_choice = INGOT_TOOL_NAMED;
    if (b->r.tool_choice == INGOT_TOOL_NAMED)
        b->r.tool_name = a->tool_choice;
    b->r.variables_json = b->variables;
    return ST_OK;
}

enum status request_prompt(struct built_request *b, const struct prompt_args *a)
{
    int n = !!a->prompt + !!a->prompt_file + !!a->tokens + !!a->message + !!a->chat;
    bool is_chat = a->message || a->chat;
    if (n != 1)
        FAIL(ST_RANGE, "give %s of --prompt, --prompt-file, --tokens, --message and --chat",
             n ? "only one" : "one");
    if (a->system && !a->message)
        FAIL(ST_RANGE, "--system goes with --message");
    if ((a->tools || a->variables) && !is_chat)
        FAIL(ST_RANGE, "--tools and --variables go with --message or --chat");
    if (!a->tools && (strcmp(a->tool_choice, "auto") != 0 || a->one_call))
        FAIL(ST_RANGE, "--tool-choice and --one-call go with --tools");
    b->r = ingot_request_default();
    b->r.add_special = a->add_special;
    if (is_chat)
        return take_chat(b, a);
    if (a->tokens)
        return take_ids(b, a->tokens);
    if (a->prompt_file) {
        TRY(cli_read_file(a->prompt_file, &b->text, &b->r.n_text));
        b->r.text = b->text;
        return ST_OK;
    }
    b->r.text = a->prompt;
    b->r.n_text = strlen(a->prompt);
    return ST_OK;
}

void request_free(struct built_request *b)
{
    free(b->text);
    free(b->tools);
    free(b->variables);
    free(b->grammar);
    free(b->ids);
    free(b->turns);
    *b = (struct built_request){0};
}
