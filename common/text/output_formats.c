#include "common/text/output_formats.h"

#include "common/text/output_deepseek_marks.h"
#include "common/text/output_gemma_marks.h"
#include "common/text/output_harmony_marks.h"

#define JSON_NAME "{\"name\": \""
#define JSON_ARGUMENTS "\", \"arguments\": "
#define PLAIN_JSON                                                                                 \
    {                                                                                              \
        {                                                                                          \
            .begin = "", .before = JSON_NAME, .middle = JSON_ARGUMENTS, .after = "}", .end = ""    \
        }                                                                                          \
    }

static const struct output_format formats[] = {
    [OUTPUT_TOOLS_NONE] = {.run = output_run_json},
    [OUTPUT_TOOLS_HERMES] = {.marks = {"<tool_call>"},
                             .forms = {{.begin = "",
                                        .before = "<tool_call>\n" JSON_NAME,
                                        .middle = JSON_ARGUMENTS,
                                        .after = "}\n</tool_call>",
                                        .between = "\n",
                                        .end = ""}},
                             .run = output_run_hermes},
    [OUTPUT_TOOLS_LLAMA3] = {.marks = {"<|python_tag|>"},
                             .plain = true,
                             .forms = {{.begin = "",
                                        .before = JSON_NAME,
                                        .middle = "\", \"parameters\": ",
                                        .after = "}",
                                        .between = "; ",
                                        .end = ""}},
                             .run = output_run_json},
    [OUTPUT_TOOLS_MISTRAL] = {.marks = {"[TOOL_CALLS]"},
                              .forms = {{.sign = "[ARGS]",
                                         .begin = "",
                                         .before = "[TOOL_CALLS]",
                                         .middle = "[ARGS]",
                                         .after = "",
                                         .between = "",
                                         .end = ""},
                                        {.begin = "[TOOL_CALLS][",
                                         .before = JSON_NAME,
                                         .middle = JSON_ARGUMENTS,
                                         .after = "}",
                                         .between = ", ",
                                         .end = "]"}},
                              .run = output_run_mistral},
    [OUTPUT_TOOLS_DEEPSEEK] = {.marks = {DS_CALLS_BEGIN, DS_CALL_BEGIN},
                               .close = DS_CALLS_END,
                               .forms = {{.sign = "```json",
                                          .begin = DS_CALLS_BEGIN,
                                          .before = DS_CALL_BEGIN "function" DS_SEP,
                                          .middle = "\n```json\n",
                                          .after = "\n```" DS_CALL_END,
                                          .between = "\n",
                                          .end = DS_CALLS_END},
                                         {.begin = DS_CALLS_BEGIN,
                                          .before = DS_CALL_BEGIN,
                                          .middle = DS_SEP,
                                          .after = DS_CALL_END,
                                          .between = "",
                                          .end = DS_CALLS_END}},
                               .run = output_run_deepseek},
    [OUTPUT_TOOLS_QWEN3_CODER] = {.marks = {"<tool_call>", "<seed:tool_call>", "<function="}},
    [OUTPUT_TOOLS_GLM45] = {.marks = {"<tool_call>"}},
    [OUTPUT_TOOLS_MINIMAX] = {.marks = {MINIMAX_CALLS_BEGIN, "<invoke name="},
                              .close = MINIMAX_CALLS_END},
    [OUTPUT_TOOLS_GRANITE] = {.marks = {GRANITE_CALL, "functools["},
                              .forms = {{.sign = PHI4_CALL_END,
                                         .begin = GRANITE_CALL "[",
                                         .before = JSON_NAME,
                                         .middle = JSON_ARGUMENTS,
                                         .after = "}",
                                         .between = ", ",
                                         .end = "]" PHI4_CALL_END},
                                        {.begin = GRANITE_CALL "[",
                                         .before = JSON_NAME,
                                         .middle = JSON_ARGUMENTS,
                                         .after = "}",
                                         .between = ", ",
                                         .end = "]"}},
                              .run = output_run_granite},
    [OUTPUT_TOOLS_KIMI] = {.marks = {KIMI_CALLS_BEGIN, KIMI_CALL_BEGIN},
                           .close = KIMI_CALLS_END,
                           .forms = {{.begin = KIMI_CALLS_BEGIN,
                                      .before = KIMI_CALL_BEGIN "functions.",
                                      .middle = ":0" KIMI_ARGUMENTS,
                                      .after = KIMI_CALL_END,
                                      .between = "",
                                      .end = KIMI_CALLS_END}},
                           .run = output_run_kimi},
    [OUTPUT_TOOLS_GLM4] =
        {.plain = true,
         .forms = {{.begin = "", .before = "", .middle = "\n", .after = "", .end = ""}},
         .run = output_run_glm4},
    [OUTPUT_TOOLS_HARMONY] = {.forms = {{.begin = "",
                                         .before = HARMONY_CHANNEL "commentary to=functions.",
                                         .middle = " " HARMONY_CONSTRAIN "json" HARMONY_MESSAGE,
                                         .after = "",
                                         .end = ""}},
                              .run = output_run_harmony},
    [OUTPUT_TOOLS_GEMMA4] = {.marks = {GEMMA_CALL_BEGIN}},
    [OUTPUT_TOOLS_JSON] = {.plain = true, .forms = PLAIN_JSON, .run = output_run_json},
    [OUTPUT_TOOLS_AUTO] = {.plain = true, .forms = PLAIN_JSON, .run = output_run_json},
};

const struct output_format *output_format_of(enum output_tools tools)
{
    return &formats[tools];
}
