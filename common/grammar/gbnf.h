/* Context-free grammars in the notation of llama.cpp's .gbnf files.  The text is one of the rule root.
 *
 *     # a sum
 *     root ::= term ("+" term)*
 *     term ::= [0-9]{1,9} | "(" root ")"
 *
 * Read: rules NAME ::= ... (letters, digits, - and _), literals "...", sets [a-z_] [^...], `.` (any character), groups,
 * alternatives (empty ones too), * + ? {m} {m,} {m,n}, comments from # to the end of the line, and in literals and sets
 * \n \r \t \\ \" \[ \] \xXX \uXXXX \UXXXXXXXX, which are code points.  A rule ends with its line, except in a group, behind
 * ::= or |, and where the next line begins with |.
 * Refused with line and column: tokens (<...>, !<...>), rules that are not there or there twice, left recursion, repetitions
 * of what may be empty if it is recursive.
 *
 * A rule that describes a regular language without recursion, or with recursion at its end alone (ws ::= " " ws | ""), is
 * an expression (expr.h), as are the parts of other rules; the rest are rules (rules.h).  Bounds: GBNF_MAX_*. */
#ifndef COMMON_GRAMMAR_GBNF_H
#define COMMON_GRAMMAR_GBNF_H

#include "common/grammar/rules.h"

/* Appends the rules of a grammar.  ST_FORMAT: it is none; ST_UNSUPPORTED: it uses what is not read; ST_RANGE: too large; each
 * with line and column, or the line and the rule. */
MUST_CHECK enum status gbnf_compile(struct rules *rules, const char *text, size_t n,
                                    uint32_t *root);

#endif
