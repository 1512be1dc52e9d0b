/* JSON Schema (2020-12, and its older drafts by their $schema) to rules: the JSON texts that satisfy a schema, written
 * without white space, with the members of an object in the order of the schema's properties.
 *
 * Read: type, enum, const, properties, required, additionalProperties, patternProperties, minProperties, maxProperties,
 * items, prefixItems, additionalItems, minItems, maxItems, anyOf, oneOf, allOf, $ref within the document (recursive
 * ones too), minLength, maxLength, pattern, format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf.
 * oneOf only where its alternatives are plainly disjoint: other types, or other values of a const or enum.
 * Annotations (title, default, ...) and keywords that no draft has are without effect, as the specification says.
 * Every other keyword of a draft (not, if, contains, uniqueItems, dependentSchemas, ...) is refused with its path.
 *
 * A member that is not among properties comes after those, in any order; its name is not checked for having come
 * before. */
#ifndef COMMON_GRAMMAR_SCHEMA_H
#define COMMON_GRAMMAR_SCHEMA_H

#include "common/grammar/rules.h"
#include "common/grammar/schema_style.h"

/* Appends the rules of a schema (JSON text), its values in a style.  Failures: ST_FORMAT, ST_UNSUPPORTED, ST_RANGE with
 * the path. */
MUST_CHECK enum status schema_compile(struct rules *rules, const struct schema_style *style,
                                      const char *text, size_t n, uint32_t *root);
/* ... of any JSON object. */
MUST_CHECK enum status schema_any_object(struct rules *rules, uint32_t *root);

#endif
