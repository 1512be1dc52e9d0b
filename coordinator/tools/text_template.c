/* ingot template: a conversation -> the prompt. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/formats/gguf_file.h"
#include "common/mapped_file.h"
#include "common/model_path.h"
#include "common/visible.h"
#include "coordinator/jinja/chat_template.h"
#include "coordinator/tools/text_tool.h"

struct args {
    const char *template_file, *name, *messages, *message, *system, *tools, *variables;
    bool no_generation_prompt, continue_final_message, allow_mutation, raw;
};

#define AT(member) .at = offsetof(struct args, member)

static const struct option_row ROWS[] = {
    {.name = "template",
     .type = OPT_STRING,
     AT(template_file),
     .arg = "FILE",
     .help = "A Jinja file instead of MODEL; the special tokens then come from --variables."},
    {.name = "name",
     .type = OPT_STRING,
     AT(name),
     .arg = "NAME",
     .help = "Which of the model's templates, such as tool_use; the default one when not given."},
    {.name = "messages",
     .type = OPT_STRING,
     AT(messages),
     .arg = "FILE",
     .help = "The conversation, a JSON list of {\"role\", \"content\", ...}; - is standard input."},
    {.name = "message",
     .type = OPT_STRING,
     AT(message),
     .arg = "TEXT",
     .may_be_empty = true,
     .help = "A conversation of one message, the user's."},
    {.name = "system",
     .type = OPT_STRING,
     AT(system),
     .arg = "TEXT",
     .may_be_empty = true,
     .help = "With --message: the system turn before it."},
    {.name = "tools",
     .type = OPT_STRING,
     AT(tools),
     .arg = "FILE",
     .help = "The tools, a JSON list of function descriptions."},
    {.name = "variables",
     .type = OPT_STRING,
     AT(variables),
     .arg = "FILE",
     .help = "A JSON object of further variables: bos_token, eos_token, enable_thinking ...  They "
             "win over "
             "the model's own."},
    {.name = "no-generation-prompt",
     .type = OPT_FLAG,
     AT(no_generation_prompt),
     .help = "Do not end with what opens the assistant's answer."},
    {.name = "continue-final-message",
     .type = OPT_FLAG,
     AT(continue_final_message),
     .help = "End with the content of the last message, so that the model goes on with it."},
    {.name = "allow-mutation",
     .type = OPT_FLAG,
     AT(allow_mutation),
     .help = "Let the template change lists in place (list.append), which HuggingFace refuses."},
    {.name = "raw",
     .type = OPT_FLAG,
     AT(raw),
     .help = "Exactly the bytes of the prompt: no colours, no newline at the end."},
};

static const struct option_set OPTIONS = {
    .program = "ingot template",
    .usage = "(MODEL | --template FILE) (--message TEXT | --messages FILE) [options]",
    .summary =
        "Prints the prompt that a model's chat template makes of a conversation, exactly that of "
        "HuggingFace's apply_chat_template.  On a terminal special tokens are coloured and control "
        "characters escaped.",
    .epilog = "Examples:\n"
              "  ingot template demo-model --message 'Hi' --system 'Be brief.'\n"
              "  echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | ingot template "
              "demo-model --messages -\n"
              "A template's own refusal goes to standard error.\n" TEXT_EXIT_CODES,
    .rows = ROWS,
    .n_rows = ARRAY_LEN(ROWS),
    .min_args = 0,
    .max_args = 1,
};

struct source {
    struct chat_template *chat;
    struct tokenizer *tok;     /* NULL: there is none, or none that could be read */
    struct text_buf variables; /* the special tokens as JSON */
};

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* --- where the template comes from --- */

static enum status named_gguf_template(const char *path, const char *name,
                                       struct chat_template **out)
{
    struct gguf_file *f;
    struct gguf_str s;
    char key[160] = "tokenizer.chat_template";
    if (name && strcmp(name, "default") != 0)
        snprintf(key, sizeof key, "tokenizer.chat_template.%.100s", name);
    TRY(gguf_file_open(&f, path));
    enum status st = gguf_get_str(gguf_file_model(f), key, &s);
    if (st == ST_OK)
        st = chat_template_create(out, s.data, s.len);
    gguf_file_close(f);
    return st;
}

static enum status put_variable(struct text_buf *out, const char *name, struct tok_text text)
{
    if (!text.data)
        return ST_OK;
    TRY(text_buf_append(out, out->len > 1 ? ", " : "", out->len > 1 ? 2 : 0));
    TRY(text_put_json(out, name, strlen(name)));
    TRY(text_buf_append(out, ": ", 2));
    return text_put_json(out, text.data, text.len);
}

static enum status special_variables(const struct tokenizer *t, struct text_buf *out)
{
    const struct tokenizer_specials *s = tokenizer_specials(t);
    TRY(text_buf_append(out, "{", 1));
    TRY(put_variable(out, "bos_token", s->bos_text));
    TRY(put_variable(out, "eos_token", s->eos_text));
    TRY(put_variable(out, "unk_token", s->unk_text));
    TRY(put_variable(out, "pad_token", s->pad_text));
    return text_buf_append(out, "}", 1);
}

static enum status open_source(const struct args *a, const char *model, struct source *s)
{
    struct text_buf text = {0};
    if (a->template_file) {
        enum status st = text_read(a->template_file, &text);
        if (st == ST_OK)
            st = chat_template_create(&s->chat, text.data ? text.data : "", text.len);
        text_buf_free(&text);
        return st;
    }
    TRY(model_path_exists(model));
    if (is_directory(model)) {
        TRY(chat_template_from_model(&s->chat, model, a->name));
        TRY(chat_special_tokens(model, &s->variables));
        if (tokenizer_open(&s->tok, model) != ST_OK) /* only for showing: the prompt does without */
            s->tok = NULL;
        return ST_OK;
    }
    TRY(named_gguf_template(model, a->name, &s->chat));
    TRY(tokenizer_open(&s->tok, model));
    return special_variables(s->tok, &s->variables);
}

/* --- showing --- */

/* The length of the longest special token at p, or 0; t NULL: none. */
static size_t special_at(const struct tokenizer *t, const char *p, size_t n)
{
    size_t most = !t ? 0 : n < 64 ? n : 64;
    for (size_t k = most; k >= 3; k--) {
        int32_t id = tokenizer_find(t, p, k);
        if (id >= 0 && tokenizer_is_special(t, id))
            return k;
    }
    return 0;
}

/* For a terminal: special tokens of t (NULL: none) coloured, control characters as escapes. */
static enum status put_for_people(const struct tokenizer *t, const struct text_buf *prompt,
                                  struct text_buf *out)
{
    for (size_t i = 0; i < prompt->len;) {
        char c = prompt->data[i];
        size_t n = c == '<' || c == '[' ? special_at(t, prompt->data + i, prompt->len - i) : 0;
        if (n) {
            TRY(text_buf_append(out, "\x1b[35m", 5));
            TRY(text_buf_append(out, prompt->data + i, n));
            TRY(text_buf_append(out, "\x1b[0m", 4));
        } else if (c == '\n' || c == '\t') {
            n = 1;
            TRY(text_buf_append(out, &c, 1));
        } else {
            char shown[VISIBLE_SIZE];
            size_t len = visible_char(prompt->data + i, prompt->len - i, &n, shown);
            TRY(text_buf_append(out, shown, len));
        }
        i += n;
    }
    return ST_OK;
}

static enum status show(const struct args *a, const struct source *s, const struct text_buf *prompt,
                        bool colour)
{
    struct text_buf out = {0};
    enum status st;
    if (a->raw)
        return text_write(prompt->data, prompt->len);
    if (isatty(STDOUT_FILENO))
        st = put_for_people(colour ? s->tok : NULL, prompt, &out);
    else
        st = text_buf_append(&out, prompt->data, prompt->len);
    if (st == ST_OK && (out.len == 0 || out.data[out.len - 1] != '\n'))
        st = text_buf_append(&out, "\n", 1);
    if (st == ST_OK)
        st = text_write(out.data, out.len);
    text_buf_free(&out);
    return st;
}

static void warn_of_two_bos(const struct source *s, const struct text_buf *prompt)
{
    const struct tokenizer_specials *sp = s->tok ? tokenizer_specials(s->tok) : NULL;
    size_t n = sp && sp->bos_text.data ? sp->bos_text.len : 0;
    if (!n || prompt->len < n || memcmp(prompt->data, sp->bos_text.data, n) != 0)
        return;
    if (prompt->len >= 2 * n && memcmp(prompt->data + n, sp->bos_text.data, n) == 0)
        text_warn("template", "BOS stands twice at the beginning of the prompt");
    else if (sp->adds_bos)
        text_warn("template",
                  "the prompt begins with BOS and the tokenizer adds another: tokenize it with "
                  "--no-special");
}

/* --- the command --- */

struct inputs {
    struct text_buf messages, tools, variables;
};

static enum status put_turn(struct text_buf *out, const char *role, const char *text)
{
    TRY(text_buf_append(out, out->len ? ", " : "[", out->len ? 2 : 1));
    TRY(text_buf_append(out, "{\"role\": ", 9));
    TRY(text_put_json(out, role, strlen(role)));
    TRY(text_buf_append(out, ", \"content\": ", 13));
    TRY(text_put_json(out, text, strlen(text)));
    return text_buf_append(out, "}", 1);
}

/* The conversation of --system and --message as JSON. */
static enum status put_messages(const struct args *a, struct text_buf *out)
{
    if (a->system)
        TRY(put_turn(out, "system", a->system));
    TRY(put_turn(out, "user", a->message));
    return text_buf_append(out, "]", 1);
}

static enum status read_inputs(const struct args *a, struct inputs *in)
{
    TRY(a->message ? put_messages(a, &in->messages) : text_read(a->messages, &in->messages));
    if (a->tools)
        TRY(text_read(a->tools, &in->tools));
    return a->variables ? text_read(a->variables, &in->variables) : ST_OK;
}

static struct chat_text text_of(const struct text_buf *b, bool given)
{
    return given ? (struct chat_text){b->data ? b->data : "", b->len} : (struct chat_text){NULL, 0};
}

static int render(const struct args *a, const struct source *s, const struct inputs *in,
                  bool colour)
{
    struct text_buf prompt = {0}, refusal = {0};
    enum chat_outcome outcome = CHAT_FAILED;
    struct chat_request q = {
        .messages = text_of(&in->messages, true),
        .tools = text_of(&in->tools, a->tools != NULL),
        .variables = text_of(&s->variables, s->variables.len > 0),
        .more = text_of(&in->variables, a->variables != NULL),
        .add_generation_prompt = !a->no_generation_prompt && !a->continue_final_message,
        .continue_final_message = a->continue_final_message,
        .allow_mutation = a->allow_mutation,
    };
    int code = TEXT_OK;
    enum status st =
        chat_template_render(s->chat, &q, &chat_limits_default, &prompt, &outcome, &refusal);
    if (outcome == CHAT_REFUSED) {
        char shown[4096];
        visible_text(shown, sizeof shown, refusal.data ? refusal.data : "", refusal.len);
        fprintf(stderr, "ingot template: the chat template refuses: %s\n", shown);
        code = TEXT_REFUSED;
    } else if (st != ST_OK) {
        text_fail("template");
        code = outcome == CHAT_FAILED ? TEXT_BROKEN : TEXT_FAILED;
    } else {
        st = show(a, s, &prompt, colour);
        code = st == ST_OK ? TEXT_OK : text_fail("template");
        warn_of_two_bos(s, &prompt);
    }
    text_buf_free(&prompt);
    text_buf_free(&refusal);
    return code;
}

int text_template(int argc, char **argv, bool colour)
{
    struct args a;
    struct option_result res;
    struct source s = {0};
    struct inputs in = {0};
    int code;
    if (!text_options(&OPTIONS, &a, argc, argv, &res, &code))
        return code;
    if ((a.template_file != NULL) == (res.n_args == 1))
        return text_usage("template", "give either MODEL or --template FILE");
    if ((a.message != NULL) == (a.messages != NULL))
        return text_usage("template", "give either --message TEXT or --messages FILE");
    if (a.system && !a.message)
        return text_usage("template", "--system goes with --message");
    enum status st = open_source(&a, res.n_args ? res.args[0] : NULL, &s);
    if (st == ST_OK)
        st = read_inputs(&a, &in);
    code = st == ST_OK ? render(&a, &s, &in, colour) : text_fail("template");
    chat_template_destroy(s.chat);
    tokenizer_destroy(s.tok);
    text_buf_free(&s.variables);
    text_buf_free(&in.messages);
    text_buf_free(&in.tools);
    text_buf_free(&in.variables);
    return code;
}
