/* What real chat templates say of their model's answers, and calls as these templates write them into a
 * conversation, read back in every cut. */
#include <criterion/criterion.h>

#include "chat_data.h"
#include "common/text/output_marks.h"
#include "common/text/output_parser.h"
#include "common/text/text_buf.h"

static const char call[] = "get_weather {\"city\": \"Paris\", \"unit\": \"celsius\"}\n",
                  call_of_gemma[] = "get_weather {\"city\":\"Paris\",\"unit\":\"celsius\"}\n";

static const struct row {
    const char *name; /* of the template */
    enum output_tools tools;
    const char *think; /* opening mark, or NULL */
    const char *from,
        *end; /* around the answer in the case tool_call_last; NULL: it shows no call */
} rows[] = {
    {"HuggingFaceTB-SmolLM3-3B", OUTPUT_TOOLS_AUTO, "<think>", NULL, NULL},
    {"hf-SmolLM3-3B", OUTPUT_TOOLS_HERMES, "<think>", NULL, NULL},
    {"openai-gpt-oss-120b", OUTPUT_TOOLS_HARMONY, "<|channel|>analysis<|message|>",
     "<|start|>assistant", ""},
    {"moonshotai-Kimi-K2", OUTPUT_TOOLS_KIMI, NULL, "<|im_assistant|>assistant<|im_middle|>",
     "<|im_end|>"},
    {"Kimi-K2-Instruct", OUTPUT_TOOLS_KIMI, NULL, NULL, NULL},
    {"mistralai-Mistral-Nemo-Instruct-2407", OUTPUT_TOOLS_MISTRAL, NULL, "[/INST]", "</s>"},
    {"unsloth-mistral-Devstral-Small-2507", OUTPUT_TOOLS_MISTRAL, NULL, "[/INST]", "</s>"},
    {"deepseek-ai-DeepSeek-V3.1", OUTPUT_TOOLS_DEEPSEEK, "<think>",
     "\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c>",
     "<\xef\xbd\x9c"
     "end\xe2\x96\x81of"},
    {"llama-cpp-deepseek-r1", OUTPUT_TOOLS_DEEPSEEK, "<think>", NULL, NULL},
    {"Qwen-Qwen2.5-7B-Instruct", OUTPUT_TOOLS_HERMES, NULL, "<|im_start|>assistant\n",
     "<|im_end|>"},
    {"Qwen-Qwen3-0.6B", OUTPUT_TOOLS_HERMES, "<think>", "<|im_start|>assistant\n", "<|im_end|>"},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", OUTPUT_TOOLS_HERMES, NULL,
     "<|im_start|>assistant\n", "<|im_end|>"},
    {"meta-llama-Llama-3.1-8B-Instruct", OUTPUT_TOOLS_LLAMA3, NULL, "<|end_header_id|>\n\n",
     "<|eot_id|>"},
    {"google-gemma-4-31B-it-interleaved", OUTPUT_TOOLS_GEMMA4, "<|channel>thought\n",
     "<|turn>model\n", "<turn|>"},
    {"hf-gemma-4", OUTPUT_TOOLS_GEMMA4, "<|channel>thought\n", "<|turn>model\n",
     "<|tool_response>"},
    {"google-gemma-2-2b-it", OUTPUT_TOOLS_AUTO, NULL, NULL, NULL},
    {"microsoft-Phi-3.5-mini-instruct", OUTPUT_TOOLS_AUTO, NULL, NULL, NULL},
    {"hf-phi-4", OUTPUT_TOOLS_AUTO, NULL, NULL, NULL},
};

static const char *last(const char *text, const char *mark)
{
    const char *at = NULL;
    for (const char *p = text; (p = strstr(p, mark)); p++)
        at = p;
    return at;
}

/* The calls of a text, a line each; other text that is not blank begins with '!'. */
static struct text_buf calls_of(const struct row *r, const char *text, size_t n, size_t cut)
{
    struct output_options o = {.tools = r->tools,
                               .reasoning = r->think != NULL,
                               .think_open = r->think,
                               .think_close = r->tools == OUTPUT_TOOLS_HARMONY ? "<|end|>" : NULL};
    struct text_buf out = {0};
    struct output_parser *p;
    struct output_event e;
    cr_assert_eq(output_parser_create(&p, &o), ST_OK);
    for (size_t at = 0, step; at <= n; at += step) {
        step = cut && cut < n - at ? cut : n - at;
        cr_assert_eq(at < n ? output_parser_push(p, text + at, step) : output_parser_finish(p),
                     ST_OK);
        while (output_parser_next(p, &e)) {
            bool other = e.kind == OUT_REASONING || e.kind == OUT_CONTENT;
            if (other && strspn(e.text, " \n") >= e.n_text)
                continue;
            const char *s = e.kind == OUT_CALL_BEGIN ? e.name
                            : e.kind == OUT_CALL_END ? "\n"
                                                     : e.text;
            size_t k = e.kind == OUT_CALL_BEGIN ? e.n_name : e.kind == OUT_CALL_END ? 1 : e.n_text;
            cr_assert_eq(text_buf_append(&out, "!", other), ST_OK);
            cr_assert_eq(text_buf_append(&out, s, k), ST_OK);
            cr_assert_eq(text_buf_append(&out, " ", e.kind == OUT_CALL_BEGIN), ST_OK);
        }
        if (at == n)
            break;
    }
    output_parser_destroy(p);
    cr_assert_eq(text_buf_append(&out, "", 1), ST_OK);
    return out;
}

static void reads_back(const struct row *r)
{
    char path[300];
    snprintf(path, sizeof path, "chat_templates/expected/%s/tool_call_last.txt", r->name);
    struct bytes b = read_file(shared_data(path));
    cr_assert_not_null(b.data, "%s", path);
    const char *from = last(b.data, r->from);
    cr_assert_not_null(from, "%s", r->name);
    from += strlen(r->from);
    const char *end = *r->end ? strstr(from, r->end) : from + strlen(from);
    cr_assert_not_null(end, "%s", r->name);
    for (size_t cut = 0; cut < 12; cut++) {
        struct text_buf got = calls_of(r, from, (size_t)(end - from), cut);
        cr_expect_str_eq(got.data, r->tools == OUTPUT_TOOLS_GEMMA4 ? call_of_gemma : call,
                         "%s, cut %zu: %s", r->name, cut, got.data);
        text_buf_free(&got);
    }
    free(b.data);
}

Test(output_templates, formats_and_calls)
{
    if (!shared_data("chat_templates/templates/hf-phi-4.jinja"))
        cr_skip("no shared data: chat_templates");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct row *r = &rows[i];
        struct bytes source = read_data("chat_templates/templates/%s.jinja", r->name);
        cr_assert_not_null(source.data, "%s", r->name);
        enum output_tools tools = output_tools_of_template(source.data, source.n);
        const struct output_think *think = output_think_of_template(source.data, source.n);
        cr_expect_eq(tools, r->tools, "%s: %s", r->name, output_tools_name(tools));
        cr_expect(r->think ? think && strcmp(think->open, r->think) == 0 : !think, "%s: %s",
                  r->name, think ? think->open : "no thinking");
        free(source.data);
        if (r->from)
            reads_back(r);
    }
}
