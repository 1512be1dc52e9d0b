/* What a model's chat template says about its answers: how tool calls are written and thinking is marked.  Pure. */
#ifndef COMMON_TEXT_OUTPUT_MARKS_H
#define COMMON_TEXT_OUTPUT_MARKS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/text/output_tools.h"

/* The format whose marks are in the template; OUTPUT_TOOLS_AUTO where there are none, or those of several. */
enum output_tools output_tools_of_template(const char *source, size_t n);

struct output_think {
    const char *open, *close;
};

/* The pair of thinking marks i that models use, in order of preference; NULL: there are no more. */
const struct output_think *output_think_pair(size_t i);
/* The pair of which the template has a mark; NULL: none. */
const struct output_think *output_think_of_template(const char *source, size_t n);

/* May thinking begin behind other text of an answer (gpt-oss's channels)?  Else at its beginning alone. */
bool output_think_is_anywhere(const struct output_think *think);

/* Mark i of those that begin, end or separate parts of calls; NULL: there are no more. */
const char *output_call_mark(size_t i);
/* Mark i around messages or channels within an answer, of the format (gpt-oss's, Gemma 4's) whose thinking is marked so. */
const char *output_message_mark(const struct output_think *think, size_t i);

/* Does a prompt end inside thinking?  Its last bytes but blanks are the opening mark; or, where the answer continues a
 * turn (continues), an opening mark is in it behind which there is no closing one. */
bool output_think_is_open(const struct output_think *think, const char *prompt, size_t n,
                          bool continues);

#endif
