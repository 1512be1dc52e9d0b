#include "common/text/output_marks.h"

#include <string.h>

#include "common/text/output_deepseek.h"

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
    } own
        [] =
            {/* of formats that share marks with others */
             {"<parameter=", OUTPUT_TOOLS_QWEN3_CODER},
             {"<arg_key>", OUTPUT_TOOLS_GLM}},
     rows[] = {
         {"<tool_call>", OUTPUT_TOOLS_HERMES},          {"<|python_tag|>", OUTPUT_TOOLS_LLAMA3},
         {"[TOOL_CALLS]", OUTPUT_TOOLS_MISTRAL},        {DS_CALL_BEGIN, OUTPUT_TOOLS_DEEPSEEK},
         {"Environment: ipython", OUTPUT_TOOLS_LLAMA3}, /* Llama 3's own, also in templates without the tag */
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
    };
    return i < ARRAY_LEN(pairs) ? &pairs[i] : NULL;
}

const struct output_think *output_think_of_template(const char *source, size_t n)
{
    const struct output_think *t;
    for (size_t i = 0; (t = output_think_pair(i)); i++)
        if (has(source, n, t->open) || has(source, n, t->close))
            return t;
    return NULL;
}

const char *output_call_mark(size_t i)
{
    static const char *const marks[] = {
        "<tool_call>", "</tool_call>", "<seed:tool_call>", "</seed:tool_call>", "<arg_key>",
        "</arg_key>",  "<arg_value>",  "</arg_value>",     "<|python_tag|>",    "[TOOL_CALLS]",
        "[ARGS]",      "[CALL_ID]",    DS_CALLS_BEGIN,     DS_CALLS_END,        DS_CALL_BEGIN,
        DS_CALL_END,   DS_SEP,
    };
    return i < ARRAY_LEN(marks) ? marks[i] : NULL;
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
