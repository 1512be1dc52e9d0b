/* Calls whose arguments are elements, one for each parameter (common/text/output_xml.h), as structural tags: required
 * parameters always, others or not, in the schema's order.  A value that the output parser reads as a string is free text
 * by the string keywords of its schema, any other is JSON by its schema; neither has the closing mark in it. */
#ifndef COORDINATOR_ANSWER_ELEMENTS_H
#define COORDINATOR_ANSWER_ELEMENTS_H

#include "common/json/json_read.h"
#include "common/json/json_write.h"
#include "common/text/output_formats.h"
#include "coordinator/answer_ask.h"

/* Writes the items for a tool's parameters into the list that is open.  schema: of all its parameters, p NULL: it has none.
 *   ST_UNSUPPORTED  a keyword that cannot be kept, with its JSON path
 *   ST_FORMAT       no schema, or the name of a parameter has a character that its element cannot have */
MUST_CHECK enum status answer_elements(struct json_writer *w, const struct answer_form *f,
                                       const struct output_call_form *form, const char *tool,
                                       struct json_span schema);

#endif
