/* What a chat asks of its answer, and the way in which its model writes answers: see answer_grammar.h. */
#ifndef COORDINATOR_ANSWER_ASK_H
#define COORDINATOR_ANSWER_ASK_H

#include "common/text/output_marks.h"
#include "common/wire/client_msg.h"

enum answer_thinking {
    THINKING_NONE,   /* the model has none, or it is over */
    THINKING_MAY,    /* the answer may begin with it */
    THINKING_INSIDE, /* the prompt ends inside it */
};

struct answer_form {
    enum output_tools format;
    const struct output_think *think; /* NULL: THINKING_NONE */
    enum answer_thinking thinking;
    const struct wire_text
        *special; /* [n_special] spellings of the special tokens among the marks */
    uint32_t n_special;
    const char *template; /* [n_template] the chat template */
    size_t n_template;
    struct wire_text tools_json; /* n 0: no tools */
    enum msg_tool_choice choice;
    const char *name; /* with TOOL_CHOICE_NAMED */
    bool one_call;
    uint32_t grammar_kind; /* the request's own, enum grammar_kind; 0: none */
    struct wire_text grammar;
};

#endif
