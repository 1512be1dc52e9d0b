#include "common/text/output_tools.h"

#include <string.h>

static const char *const names[] = {
    [OUTPUT_TOOLS_NONE] = "none",
    [OUTPUT_TOOLS_HERMES] = "hermes",
    [OUTPUT_TOOLS_LLAMA3] = "llama3",
    [OUTPUT_TOOLS_MISTRAL] = "mistral",
    [OUTPUT_TOOLS_DEEPSEEK] = "deepseek",
    [OUTPUT_TOOLS_GRANITE] = "granite",
    [OUTPUT_TOOLS_QWEN3_CODER] = "qwen3_coder",
    [OUTPUT_TOOLS_GLM45] = "glm45",
    [OUTPUT_TOOLS_MINIMAX] = "minimax_m2",
    [OUTPUT_TOOLS_KIMI] = "kimi",
    [OUTPUT_TOOLS_GLM4] = "glm4",
    [OUTPUT_TOOLS_HARMONY] = "harmony",
    [OUTPUT_TOOLS_GEMMA4] = "gemma4",
    [OUTPUT_TOOLS_LLAMA4] = "llama4",
    [OUTPUT_TOOLS_JSON] = "json",
    [OUTPUT_TOOLS_AUTO] = "auto",
};

const char *output_tools_name(enum output_tools tools)
{
    return names[tools];
}

enum status output_tools_from_name(const char *name, enum output_tools *tools)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *tools = (enum output_tools)i;
            return ST_OK;
        }
    }
    FAIL(ST_NOT_FOUND,
         "'%.40s' is no format of tool calls (there are: none, hermes, llama3, mistral, "
         "deepseek, qwen3_coder, glm45, minimax_m2, granite, kimi, glm4, harmony, gemma4, llama4, "
         "json, "
         "auto)",
         name);
}
