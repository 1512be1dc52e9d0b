/* Structural tags: answers of which only some parts follow a schema or another form, as in a tool call between its marks
 * or an object behind the thinking.  The source is a tree of JSON objects, each with one of these members:
 *
 *   {"text": T}          the text T
 *   {"special": T}       the special token that is spelled T
 *   {"seq": [N, ...]}    one after the other
 *   {"any_of": [N, ...]} one of them
 *   {"repeat": N}        N again and again, with "min" (0) and "max" (no limit) times; "between": a node between two
 *   {"free": {}}         any text, none too; with "without": [T, ...] no T is in it, with "not_begin": [T, ...] it does
 *                        not begin with blanks and a T
 *   {"schema": S}, {"regex": T}, {"choice": [T, ...]}, {"json_object": true}, {"grammar": T}     as the sources of these
 *                        kinds; with "of": T, which a failure names
 *                        With {"schema": S}, "without": [T, ...]: no string in the JSON has a T in it; "quote": T, or
 *                        "special_quote": T for a special token: not JSON, but strings between two T (schema_style.h)
 *   {"string": {}}       a text of characters; with "min", "max": so many, "choice": [T, ...]: one of these, "regex": T: a
 *                        match is in it; "without": [T, ...] as above, "not_first": T: it does not begin with T, "not_json":
 *                        [K, ...]: it is not read as a JSON value of these kinds ("number", "boolean", "null", "object",
 *                        "array"), blanks around it aside and Python's True, False and None included
 *
 * The same idea as the structural tags of xgrammar and the %json of llguidance; the notation is Ingot's. */
#ifndef COMMON_GRAMMAR_TAGS_H
#define COMMON_GRAMMAR_TAGS_H

#include "common/grammar/rules.h"

enum { TAGS_MAX_DEPTH = 32 };

/* Appends the rules of a source.  ST_FORMAT: it is no such tree; else as grammar_compile; with the path in the source. */
MUST_CHECK enum status tags_compile(struct rules *rules, const char *text, size_t n,
                                    uint32_t *root);

#endif
