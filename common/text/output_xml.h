/* Tool calls whose arguments are elements, one for each parameter:
 *
 *     <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>              Qwen3-Coder, Qwen3.5
 *     <seed:tool_call><function=NAME> ... </function></seed:tool_call>                               Seed-OSS
 *     <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>                  GLM-4.5 and later
 *     <minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke></minimax:tool_call>    MiniMax M2
 *
 * They become a JSON object while they are read.  A value is a string, unless the schema of the tools allows something
 * else and the value is JSON of such a kind; Python's True, False and None count as JSON there.  Strings are given as
 * they come, other values when they have ended.  One newline after <parameter ...> and one before </parameter> do not
 * belong to the value.  Internal to the output parser. */
#ifndef COMMON_TEXT_OUTPUT_XML_H
#define COMMON_TEXT_OUTPUT_XML_H

#include "common/text/output_events.h"
#include "common/text/output_scanner.h"
#include "common/text/output_tools.h"

struct output_xml { /* begin with output_xml_begin; free with output_xml_free */
    enum output_tools format;
    struct output_span tools; /* a JSON array, for the types of parameters; p NULL: not known */
    int phase;
    const char *close; /* the mark that ends the call; NULL: none */
    char name[OUTPUT_MAX_NAME + 1], key[OUTPUT_MAX_NAME + 1];
    size_t n_params;
    unsigned kinds;       /* of the value */
    bool cut_newline;     /* one before the value's end does not belong to it */
    struct text_buf json; /* scratch */
};

enum output_xml_state {
    XML_MORE,    /* needs more text */
    XML_GOES_ON, /* something was read: call again */
    XML_NO_CALL, /* before the call was announced: n bytes are no call, and none begins in them */
    XML_BROKEN,  /* the call has ended where its form broke off */
    XML_ENDED,
};

void output_xml_begin(struct output_xml *x, enum output_tools format, struct output_span tools);
void output_xml_free(struct output_xml *x);

/* Reads on in the text, takes the first *n bytes, and adds events: the call's begin as soon as it is certain.  finished:
 * no more will come.  max_value: a value that is held back and has more bytes is given as a string. */
MUST_CHECK enum status output_xml_run(struct output_xml *x, struct output_span text, bool finished,
                                      size_t max_value, struct output_events *events, size_t *n,
                                      enum output_xml_state *state);

#endif
