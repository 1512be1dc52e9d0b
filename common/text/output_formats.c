#include "common/text/output_formats.h"

#include "common/text/output_deepseek.h"

static const struct output_format formats[] = {
    [OUTPUT_TOOLS_NONE] = {.run = output_run_json},
    [OUTPUT_TOOLS_HERMES] = {.marks = {"<tool_call>"}, .run = output_run_hermes},
    [OUTPUT_TOOLS_LLAMA3] = {.marks = {"<|python_tag|>"}, .plain = true, .run = output_run_json},
    [OUTPUT_TOOLS_MISTRAL] = {.marks = {"[TOOL_CALLS]"}, .run = output_run_mistral},
    [OUTPUT_TOOLS_DEEPSEEK] = {.marks = {DS_CALLS_BEGIN, DS_CALL_BEGIN},
                               .run = output_run_deepseek},
    [OUTPUT_TOOLS_QWEN3_CODER] = {.marks = {"<tool_call>", "<seed:tool_call>", "<function="}},
    [OUTPUT_TOOLS_GLM] = {.marks = {"<tool_call>"}},
    [OUTPUT_TOOLS_JSON] = {.plain = true, .run = output_run_json},
    [OUTPUT_TOOLS_AUTO] = {.plain = true, .run = output_run_json},
};

const struct output_format *output_format_of(enum output_tools tools)
{
    return &formats[tools];
}
