#include "common/text/output_parser_state.h"

const char *parser_rest(const struct output_parser *p, size_t *n)
{
    *n = p->text.len - p->at;
    return *n ? p->text.data + p->at : "";
}

enum status parser_emit(struct output_parser *p, enum output_kind kind, size_t n)
{
    size_t rest;
    TRY(output_events_text(&p->events, kind, parser_rest(p, &rest), n));
    p->at += n;
    return ST_OK;
}
