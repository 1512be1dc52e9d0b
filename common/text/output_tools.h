/* How a model writes its tool calls. */
#ifndef COMMON_TEXT_OUTPUT_TOOLS_H
#define COMMON_TEXT_OUTPUT_TOOLS_H

#include "common/status.h"

enum output_tools {
    OUTPUT_TOOLS_NONE, /* text only */

    /* <tool_call>{"name": .., "arguments": {..}}</tool_call>: Hermes, Qwen */
    OUTPUT_TOOLS_HERMES,

    /* The whole answer is {"name": .., "parameters": {..}}, after <|python_tag|> or without it. */
    OUTPUT_TOOLS_LLAMA3,

    /* [TOOL_CALLS][{"name": .., "arguments": {..}}, ..] or [TOOL_CALLS]name[ARGS]{..} */
    OUTPUT_TOOLS_MISTRAL,

    /* The begin and end marks of DeepSeek R1, V3 and V3.1. */
    OUTPUT_TOOLS_DEEPSEEK,

    /* <tool_call><function=NAME><parameter=KEY>VALUE</parameter>..</function></tool_call>, also in <seed:tool_call>:
     * Qwen3-Coder, Qwen3.5, Step 3.5, Seed-OSS */
    OUTPUT_TOOLS_QWEN3_CODER,

    /* <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>..</tool_call>: GLM-4.5 and later */
    OUTPUT_TOOLS_GLM45,

    /* <minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter>..</invoke>..</minimax:tool_call>:
     * MiniMax M2 */
    OUTPUT_TOOLS_MINIMAX,

    /* <|tool_call|>[{"name": .., "arguments": {..}}, ..]: Granite 3; with <|/tool_call|>: Phi-4 mini */
    OUTPUT_TOOLS_GRANITE,

    /* The begin and end marks of Kimi K2, which writes functions.NAME:0 as the call's id. */
    OUTPUT_TOOLS_KIMI,

    /* The whole answer is NAME, a newline, {..}: GLM-4. */
    OUTPUT_TOOLS_GLM4,

    /* Messages with channels: gpt-oss (output_harmony.h). */
    OUTPUT_TOOLS_HARMONY,

    /* <|tool_call>call:NAME{KEY:VALUE,..}<tool_call|>: Gemma 4 (output_gemma.h) */
    OUTPUT_TOOLS_GEMMA4,

    /* A list of Python calls (output_python.h), or JSON as Llama 3's, after <|python_start|> or without it: Llama 4 */
    OUTPUT_TOOLS_LLAMA4,

    /* The whole answer is a call or a list of calls in plain JSON; in a fence only calls of functions that there are. */
    OUTPUT_TOOLS_JSON,

    /* Any of the above but GLM-4's and harmony, told apart by the beginning of the answer. */
    OUTPUT_TOOLS_AUTO,
};

/* The names are those of the table in output_tools.c, "hermes" and so on.  ST_NOT_FOUND lists
 * the names. */
MUST_CHECK enum status output_tools_from_name(const char *name, enum output_tools *tools);
const char *output_tools_name(enum output_tools tools);

#endif
