/* The types that a tool's JSON schema allows for a parameter.  Pure; used by the output parser. */
#ifndef COMMON_TEXT_OUTPUT_SCHEMA_H
#define COMMON_TEXT_OUTPUT_SCHEMA_H

#include "common/text/output_json.h"

enum output_kinds { /* bits */
                    KIND_STRING = 1,
                    KIND_NUMBER = 2,
                    KIND_BOOLEAN = 4,
                    KIND_NULL = 8,
                    KIND_OBJECT = 16,
                    KIND_ARRAY = 32,
                    KIND_ALL = 63,
};

/* The kinds of JSON values that parameter `key` of function `name` may have.  tools: a JSON array of OpenAI's tools, or
 * p NULL.  Type, enum, const, anyOf and oneOf are read; a schema with none of them but with $ref or allOf allows all.
 * KIND_STRING: nothing is known. */
unsigned output_schema_kinds(struct output_span tools, const char *name, const char *key);

/* The kind of the JSON value that begins with that byte; 0: none does. */
unsigned output_schema_kind_of(char first);

#endif
