#include "common/text/output_marks.h"

#include <string.h>

#include "common/text/output_deepseek_marks.h"
#include "common/text/output_formats.h"
#include "common/text/output_gemma_marks.h"
#include "common/text/output_harmony_marks.h"
#include "common/text/output_python_marks.h"

/* Where the mark is first, or NULL. */
static const char *find(const char *text, size_t n, const char *mark)
{
    const char *p = text, *end = text + n;
    size_t k = strlen(mark);
    for (; (size_t)(end - p) >= k && (p = memchr(p, *mark, (size_t)(end - p))); p++)
        if ((size_t)(end - p) >= k && memcmp(p, mark, k) == 0)
            return p;
    return NULL;
}

static bool has(const char *text, size_t n, const char *mark)
{
    return find(text, n, mark) != NULL;
}

enum output_tools output_tools_of_template(const char *source, size_t n)
{
    static const struct {
        const char *mark;
        enum output_tools format;
    } own[] =
        {/* of formats that share marks with others */
         {"<parameter=", OUTPUT_TOOLS_QWEN3_CODER},
         {"<arg_key>", OUTPUT_TOOLS_GLM45},
         {MINIMAX_CALLS_BEGIN, OUTPUT_TOOLS_MINIMAX},
         /* "Environment: ipython" is in Llama 4's templates too, the marks of Python not in all */
         {"<|header_start|>", OUTPUT_TOOLS_LLAMA4}},
      rows[] = {
          {"<tool_call>", OUTPUT_TOOLS_HERMES},
          {"<|python_tag|>", OUTPUT_TOOLS_LLAMA3},
          {"[TOOL_CALLS]", OUTPUT_TOOLS_MISTRAL},
          {DS_CALL_BEGIN, OUTPUT_TOOLS_DEEPSEEK},
          {"Environment: ipython",
           OUTPUT_TOOLS_LLAMA3}, /* Llama 3's own, also in templates without the tag */
          {GRANITE_CALL, OUTPUT_TOOLS_GRANITE},
          {"<|/tool|>", OUTPUT_TOOLS_GRANITE}, /* Phi-4 mini's list of tools */
          {KIMI_CALL_BEGIN, OUTPUT_TOOLS_KIMI},
          {HARMONY_ANALYSIS, OUTPUT_TOOLS_HARMONY},
          {GEMMA_CALL_BEGIN "call:", OUTPUT_TOOLS_GEMMA4},
          /* "Json ... the parameters of a call" in Chinese: the templates of GLM-4 show no call */
          {"Json "
           "\xe6\xa0\xbc\xe5\xbc\x8f\xe8\xa1\xa8\xe7\xa4\xba\xe8\xb0\x83\xe7\x94\xa8\xe7\x9a\x84"
           "\xe5"
           "\x8f\x82\xe6\x95\xb0",
           OUTPUT_TOOLS_GLM4},
      };
    enum output_tools found = OUTPUT_TOOLS_AUTO;
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (has(source, n, own[i].mark))
            return own[i].format;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!has(source, n, rows[i].mark))
            continue;
        if (found != OUTPUT_TOOLS_AUTO && found != rows[i].format)
            return OUTPUT_TOOLS_AUTO;
        found = rows[i].format;
    }
    return found;
}

const struct output_think *output_think_pair(size_t i)
{
    static const struct output_think pairs[] = {
        {"<think>", "</think>"},
        {"[THINK]", "[/THINK]"},
        {"<seed:think>", "</seed:think>"},
        {"<thinking>", "</thinking>"},
        {"\xe2\x97\x81think\xe2\x96\xb7", "\xe2\x97\x81/think\xe2\x96\xb7"},
        {GEMMA_CHANNEL "thought\n", GEMMA_CHANNEL_END},
    };
    return i < ARRAY_LEN(pairs) ? &pairs[i] : NULL;
}

const struct output_think *output_think_of_template(const char *source, size_t n)
{
    static const struct output_think harmony = {HARMONY_ANALYSIS, HARMONY_END};
    const struct output_think *t;
    if (has(source, n, HARMONY_ANALYSIS))
        return &harmony;
    for (size_t i = 0; (t = output_think_pair(i)); i++)
        if (has(source, n, t->open) || has(source, n, t->close))
            return t;
    return NULL;
}

bool output_think_is_anywhere(const struct output_think *think)
{
    return strcmp(think->open, HARMONY_ANALYSIS) == 0;
}

const char *output_call_mark(size_t i)
{
    static const char *const marks[] = {"<tool_call>",
                                        "</tool_call>",
                                        "<seed:tool_call>",
                                        "</seed:tool_call>",
                                        "<arg_key>",
                                        "</arg_key>",
                                        "<arg_value>",
                                        "</arg_value>",
                                        "<|python_tag|>",
                                        PYTHON_START,
                                        PYTHON_END,
                                        "[TOOL_CALLS]",
                                        "[ARGS]",
                                        "[CALL_ID]",
                                        DS_CALLS_BEGIN,
                                        DS_CALLS_END,
                                        DS_CALL_BEGIN,
                                        DS_CALL_END,
                                        DS_SEP,
                                        GRANITE_CALL,
                                        PHI4_CALL_END,
                                        KIMI_CALLS_BEGIN,
                                        KIMI_CALLS_END,
                                        KIMI_CALL_BEGIN,
                                        KIMI_ARGUMENTS,
                                        KIMI_CALL_END,
                                        MINIMAX_CALLS_BEGIN,
                                        MINIMAX_CALLS_END,
                                        GEMMA_CALL_BEGIN,
                                        GEMMA_CALL_END,
                                        GEMMA_QUOTE};
    return i < ARRAY_LEN(marks) ? marks[i] : NULL;
}

const char *output_message_mark(const struct output_think *think, size_t i)
{
    static const char *const harmony[] = {HARMONY_START,   HARMONY_CHANNEL, HARMONY_CONSTRAIN,
                                          HARMONY_MESSAGE, HARMONY_END,     HARMONY_CALL,
                                          HARMONY_RETURN};
    if (think && output_think_is_anywhere(think))
        return i < ARRAY_LEN(harmony) ? harmony[i] : NULL;
    bool gemma = think && strcmp(think->close, GEMMA_CHANNEL_END) == 0;
    return gemma && i == 0 ? GEMMA_CHANNEL : NULL;
}

/* The offset behind the last mark, 0: there is none. */
static size_t last_end(const char *text, size_t n, const char *mark)
{
    size_t last = 0;
    const char *at;
    while ((at = find(text + last, n - last, mark)))
        last = (size_t)(at - text) + strlen(mark);
    return last;
}

bool output_think_is_open(const struct output_think *think, const char *prompt, size_t n,
                          bool continues)
{
    if (!n)
        return false;
    size_t open = last_end(prompt, n, think->open);
    if (continues)
        return open > last_end(prompt, n, think->close);
    while (n && strchr(" \n\r\t", prompt[n - 1]))
        n--;
    return open && open == n;
}
