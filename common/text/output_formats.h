/* The formats in which models write tool calls: a row each.  Internal to the output parser. */
#ifndef COMMON_TEXT_OUTPUT_FORMATS_H
#define COMMON_TEXT_OUTPUT_FORMATS_H

#include "common/text/output_scanner.h"

enum { OUTPUT_FORMAT_MARKS = 3, OUTPUT_FORMAT_FORMS = 2 };

/* How models write calls in a format:
 *     begin BEFORE NAME middle ARGUMENTS after [between BEFORE NAME middle ARGUMENTS after]... end
 * ARGUMENTS is a JSON object, with `quote` one whose strings stand between two of it (common/grammar/schema_style.h), or
 * with `key` for each parameter: key KEY value VALUE value_end.  No VALUE contains `close`.
 * For grammars that make them write calls (coordinator/answer_grammar.h); all that it gives is read as calls. */
struct output_call_form {
    const char *sign; /* a text in the chat templates of models that write so; NULL: in any */
    const char *begin, *end;
    const char *before, *middle, *after; /* before NULL: there is no such form */
    const char *between;                 /* NULL: an answer has one call at most */
    const char *quote;
    const char *key, *value, *value_end, *close; /* key NULL: an object */
};

struct output_format {
    /* What begins a call in the content; unused ones are NULL.  Where formats share a mark, the first one in order of
     * enum output_tools that the text fits is taken. */
    const char *marks[OUTPUT_FORMAT_MARKS];
    const char *close; /* what may stand behind the last call */
    bool plain;        /* a call may also be the whole answer, without a mark */
    struct output_call_form forms[OUTPUT_FORMAT_FORMS]; /* the first whose sign is there */

    /* Reads on in a call.  Results as of output_scanner_run (output_calls.h).  NULL: the arguments are elements
     * (output_xml.h), or Gemma 4's (output_gemma.h). */
    enum output_scan (*run)(struct output_scanner *s, const struct scan_input *in);
};

/* OUTPUT_TOOLS_NONE and OUTPUT_TOOLS_AUTO have no marks. */
const struct output_format *output_format_of(enum output_tools tools);

#define MINIMAX_CALLS_BEGIN "<minimax:tool_call>"
#define MINIMAX_CALLS_END "</minimax:tool_call>"
#define GRANITE_CALL "<|tool_call|>"
#define PHI4_CALL_END "<|/tool_call|>"
#define KIMI_CALLS_BEGIN "<|tool_calls_section_begin|>"
#define KIMI_CALLS_END "<|tool_calls_section_end|>"
#define KIMI_CALL_BEGIN "<|tool_call_begin|>"
#define KIMI_ARGUMENTS "<|tool_call_argument_begin|>"
#define KIMI_CALL_END "<|tool_call_end|>"

/* Formats whose calls are read as Python first, where they are none as `run` says. */
static inline bool output_format_is_python(enum output_tools tools)
{
    return tools == OUTPUT_TOOLS_LLAMA4;
}

enum output_scan output_run_hermes(struct output_scanner *s, const struct scan_input *in);
enum output_scan output_run_json(struct output_scanner *s, const struct scan_input *in);
enum output_scan output_run_llama4(struct output_scanner *s, const struct scan_input *in);
enum output_scan output_run_mistral(struct output_scanner *s, const struct scan_input *in);
enum output_scan output_run_deepseek(struct output_scanner *s, const struct scan_input *in);
enum output_scan output_run_granite(struct output_scanner *s, const struct scan_input *in);
enum output_scan output_run_kimi(struct output_scanner *s, const struct scan_input *in);
enum output_scan output_run_glm4(struct output_scanner *s, const struct scan_input *in);
enum output_scan output_run_harmony(struct output_scanner *s, const struct scan_input *in);

#endif
