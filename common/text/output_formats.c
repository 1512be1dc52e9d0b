#include "common/text/output_formats.h"

#include "common/text/output_deepseek.h"

static const struct output_format formats[] = {
    [OUTPUT_TOOLS_NONE] = {.run = output_run_json},
    [OUTPUT_TOOLS_HERMES] = {.marks = {"<tool_call>"}, .run = output_run_hermes},
    [OUTPUT_TOOLS_LLAMA3] = {.marks = {"<|python_tag|>"}, .plain = true, .run = output_run_json},
    [OUTPUT_TOOLS_MISTRAL] = {.marks = {"[TOOL_CALLS]"}, .run = output_run_mistral},
    [OUTPUT_TOOLS_DEEPSEEK] = {.marks = {DS_CALLS_BEGIN, DS_CALL_BEGIN},
                               .close = DS_CALLS_END,
                               .run = output_run_deepseek},
    [OUTPUT_TOOLS_QWEN3_CODER] = {.marks = {"<tool_call>", "<seed:tool_call>", "<function="}},
    [OUTPUT_TOOLS_GLM45] = {.marks = {"<tool_call>"}},
    [OUTPUT_TOOLS_GRANITE] = {.marks = {GRANITE_CALL, "functools["}, .run = output_run_granite},
    [OUTPUT_TOOLS_KIMI] = {.marks = {KIMI_CALLS_BEGIN, KIMI_CALL_BEGIN},
                           .close = KIMI_CALLS_END,
                           .run = output_run_kimi},
    [OUTPUT_TOOLS_GLM4] = {.plain = true, .run = output_run_glm4},
    [OUTPUT_TOOLS_HARMONY] = {.run = output_run_harmony},
    [OUTPUT_TOOLS_JSON] = {.plain = true, .run = output_run_json},
    [OUTPUT_TOOLS_AUTO] = {.plain = true, .run = output_run_json},
};

const struct output_format *output_format_of(enum output_tools tools)
{
    return &formats[tools];
}
