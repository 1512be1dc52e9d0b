#include "coordinator/model_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/formats/model_config.h"
#include "common/model_path.h"
#include "common/plan.h"

static void add_eos(struct model_text *mt, int32_t id)
{
    for (uint32_t i = 0; i < mt->n_eos; i++)
        if (mt->eos[i] == id)
            return;
    if (id >= 0 && mt->n_eos < MAX_STOP_IDS)
        mt->eos[mt->n_eos++] = id;
}

/* The configuration first: a model of another kind is refused for that, not for its tokenizer. */
static enum status load_tokenizer(struct model_text *mt, const char *path,
                                  struct modules_asked asked)
{
    mt->eos = calloc(MAX_STOP_IDS, sizeof *mt->eos);
    struct model_config *mc = calloc(1, sizeof *mc);
    if (!mt->eos || !mc) {
        free(mc);
        FAIL(ST_NOMEM, "no memory for the model's configuration");
    }
    enum status st = model_config_load(mc, path);
    if (st == ST_OK)
        st = tokenizer_open(&mt->tok, path);
    if (st == ST_OK)
        add_eos(mt, tokenizer_specials(mt->tok)->eos);
    for (int32_t i = 0; st == ST_OK && i < mc->n_eos; i++)
        add_eos(mt, mc->eos_id[i]);
    if (st == ST_OK)
        st = sentence_modules_load(&mt->modules, path, mc, asked);
    mt->has_states = st == ST_OK && model_n_delta(mc) > 0;
    free(mc);
    return st;
}

/* {"bos_token": "...", "eos_token": "..."} from the tokenizer itself, for GGUF files */
static enum status variables_of_tokenizer(struct model_text *mt)
{
    const struct tokenizer_specials *sp = tokenizer_specials(mt->tok);
    const struct {
        const char *name;
        struct tok_text text;
    } rows[] = {{"bos_token", sp->bos_text}, {"eos_token", sp->eos_text}};
    struct text_buf *v = &mt->variables;
    TRY(text_buf_append(v, "{", 1));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "%s\"%s\":\"", i ? "," : "", rows[i].name);
        TRY(text_buf_append(v, key, (size_t)n));
        for (size_t k = 0; k < rows[i].text.len; k++) {
            char c = rows[i].text.data[k];
            if (c == '"' || c == '\\')
                TRY(text_buf_append(v, "\\", 1));
            if ((unsigned char)c >= 0x20)
                TRY(text_buf_append(v, &c, 1));
        }
        TRY(text_buf_append(v, "\"", 1));
    }
    return text_buf_append(v, "}", 1);
}

static enum status load_chat(struct model_text *mt, const char *path, bool is_dir)
{
    enum status st;
    if (is_dir) {
        TRY(chat_special_tokens(path, &mt->variables));
        st = chat_template_from_model(&mt->chat, path, NULL);
        if (st == ST_OK && chat_template_from_model(&mt->chat_tools, path, "tool_use") != ST_OK)
            mt->chat_tools = NULL; /* the one template does it all */
    } else {
        struct tok_text t = tokenizer_chat_template(mt->tok);
        TRY(variables_of_tokenizer(mt));
        if (!t.data) {
            snprintf(mt->no_chat, sizeof mt->no_chat, "the file has no tokenizer.chat_template");
            return ST_OK;
        }
        st = chat_template_create(&mt->chat, t.data, t.len);
    }
    if (st == ST_OK)
        return ST_OK;
    /* a model without a usable template still serves text; chat requests are told why not */
    snprintf(mt->no_chat, sizeof mt->no_chat, "%s", status_text());
    mt->chat = NULL;
    mt->bad_chat = st != ST_NOT_FOUND;
    return st == ST_NOMEM ? st : ST_OK;
}

/* ---- how answers are written ---- */

static void add_mark(struct model_text *mt, const char *text)
{
    int32_t id = tokenizer_find(mt->tok, text, strlen(text));
    if (id >= 0 && tokenizer_is_special(mt->tok, id) && mt->n_marks < MODEL_MAX_MARKS)
        mt->mark[mt->n_marks++] = id;
}

/* The template knows its model's marks; thinking that it leaves out is known from the tokens. */
static void find_marks(struct model_text *mt)
{
    const struct output_think *pair;
    const char *mark;
    mt->tool_format = OUTPUT_TOOLS_AUTO;
    for (int i = 0; i < 2; i++) {
        const struct chat_template *t = i ? mt->chat_tools : mt->chat;
        if (!t)
            continue;
        struct chat_text s = chat_template_source(t);
        if (mt->tool_format == OUTPUT_TOOLS_AUTO)
            mt->tool_format = output_tools_of_template(s.data, s.len);
        if (!mt->think)
            mt->think = output_think_of_template(s.data, s.len);
    }
    for (size_t i = 0; !mt->think && (pair = output_think_pair(i)); i++)
        if (tokenizer_find(mt->tok, pair->open, strlen(pair->open)) >= 0)
            mt->think = pair;
    for (size_t i = 0; (mark = output_call_mark(i)); i++)
        add_mark(mt, mark);
    for (size_t i = 0; (mark = output_message_mark(mt->think, i)); i++)
        add_mark(mt, mark);
    if (mt->think) {
        add_mark(mt, mt->think->open);
        add_mark(mt, mt->think->close);
    }
}

enum status model_text_open(struct model_text *mt, const char *path, const char *name,
                            struct modules_asked asked)
{
    struct stat sb;
    *mt = (struct model_text){.name = name};
    TRY(model_path_check(path));
    bool is_dir = stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
    enum status st = load_tokenizer(mt, path, asked);
    if (st == ST_OK)
        st = load_chat(mt, path, is_dir);
    if (st == ST_OK && mt->modules.scores)
        st = pair_text_open(&mt->pair, &mt->modules, mt->chat, mt->bad_chat, mt->no_chat,
                            (struct chat_text){mt->variables.data, mt->variables.len});
    if (st == ST_OK)
        find_marks(mt);
    else
        model_text_close(mt);
    return st;
}

void model_text_close(struct model_text *mt)
{
    tokenizer_destroy(mt->tok);
    chat_template_destroy(mt->chat);
    chat_template_destroy(mt->chat_tools);
    pair_text_close(&mt->pair);
    text_buf_free(&mt->variables);
    sentence_modules_free(&mt->modules);
    free(mt->eos);
    *mt = (struct model_text){0};
}
