/* What a chat template and a prompt say of the output: the format of tool calls, the marks of thinking. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/text/output_marks.h"

#define DS(word) "<\xef\xbd\x9ctool\xe2\x96\x81" word "\xef\xbd\x9c>"
#define CALLS_BEGIN                                                                                \
    DS("calls\xe2\x96\x81"                                                                         \
       "begin")
#define CALL_BEGIN                                                                                 \
    DS("call\xe2\x96\x81"                                                                          \
       "begin")

Test(output_marks, formats_of_templates)
{
    static const struct {
        const char *source;
        enum output_tools format;
        const char *think; /* the opening mark */
    } rows[] = {
        {"", OUTPUT_TOOLS_AUTO, NULL},
        {"{{ messages }}", OUTPUT_TOOLS_AUTO, NULL},
        {"within <tool_call></tool_call> tags, <think>", OUTPUT_TOOLS_HERMES, "<think>"},
        {"[TOOL_CALLS] [THINK]", OUTPUT_TOOLS_MISTRAL, "[THINK]"},
        {"Environment: ipython", OUTPUT_TOOLS_LLAMA3, NULL},
        {"<|python_tag|> Environment: ipython", OUTPUT_TOOLS_LLAMA3, NULL},
        {"'<|header_start|>' + role, Environment: ipython", OUTPUT_TOOLS_LLAMA4, NULL},
        {"<|tool_call|> followed by a JSON list", OUTPUT_TOOLS_GRANITE, NULL},
        {"'<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>'", OUTPUT_TOOLS_GRANITE, NULL},
        {"<|tool_calls_section_begin|><|tool_call_begin|>", OUTPUT_TOOLS_KIMI, NULL},
        {"<|channel|>analysis<|message|> <|end|>", OUTPUT_TOOLS_HARMONY,
         "<|channel|>analysis<|message|>"},
        {"<|end|>", OUTPUT_TOOLS_AUTO, NULL},
        {CALLS_BEGIN CALL_BEGIN "content.split('</think>')", OUTPUT_TOOLS_DEEPSEEK, "<think>"},
        {"<tool_call>\n<function=f>\n<parameter=p> <think>", OUTPUT_TOOLS_QWEN3_CODER, "<think>"},
        {"<seed:tool_call><function=f><parameter=p> <seed:think>", OUTPUT_TOOLS_QWEN3_CODER,
         "<seed:think>"},
        {"<tool_call>{name}<arg_key>{key}</arg_key> </think>", OUTPUT_TOOLS_GLM45, "<think>"},
        {"{%- set begin = '<minimax:tool_call>' %} <think>", OUTPUT_TOOLS_MINIMAX, "<think>"},
        {"'<|tool_call>call:' + name + '}<tool_call|>' '<|channel>thought\\n' '<channel|>'",
         OUTPUT_TOOLS_GEMMA4, "<|channel>thought\n"},
        {"<tool_call> and [TOOL_CALLS]", OUTPUT_TOOLS_AUTO, NULL},
        {"<tool_cal", OUTPUT_TOOLS_AUTO, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t n = strlen(rows[i].source);
        const struct output_think *think = output_think_of_template(rows[i].source, n);
        cr_expect_eq(output_tools_of_template(rows[i].source, n), rows[i].format, "row %zu", i);
        cr_expect(rows[i].think ? think && strcmp(think->open, rows[i].think) == 0 : !think,
                  "row %zu", i);
    }
}

/* Special tokens are parts of the marks around Gemma 4's thinking and gpt-oss' messages. */
Test(output_marks, marks_of_channels)
{
    static const struct {
        const char *source, *first;
    } rows[] = {{"<channel|>", "<|channel>"},
                {"<|channel|>analysis<|message|>", "<|start|>"},
                {"<think>", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct output_think *think =
            output_think_of_template(rows[i].source, strlen(rows[i].source));
        const char *mark = output_message_mark(think, 0);
        cr_expect(rows[i].first ? mark && strcmp(mark, rows[i].first) == 0 : !mark, "row %zu", i);
        cr_expect_null(output_message_mark(think, 7), "row %zu", i);
    }
}

Test(output_marks, prompts_that_end_inside_thinking)
{
    static const struct {
        const char *prompt;
        bool generation,
            continues; /* is it open after the generation prompt, and in a turn that goes on? */
    } rows[] = {
        {"", false, false},
        {"assistant\n", false, false},
        {"assistant\n<think>", true, true},
        {"assistant\n<think>\n", true, true},
        {"assistant\n<think>\n\n</think>\n\n", false, false},
        {"What is <think>?<|im_end|>assistant\n", false, true},
        {"assistant\n<think>I guess", false, true},
        {"<think>a</think>b<|im_end|>assistant\n<think>\n", true, true},
    };
    const struct output_think *think = output_think_pair(0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t n = strlen(rows[i].prompt);
        cr_expect_eq(output_think_is_open(think, rows[i].prompt, n, false), rows[i].generation,
                     "row %zu", i);
        cr_expect_eq(output_think_is_open(think, rows[i].prompt, n, true), rows[i].continues,
                     "row %zu", i);
    }
}
