/* Every member of struct model_config, once: the one list from which the canonical text of a
 * configuration is made.  Equal texts mean that two configurations compute the same numbers from the
 * same weights, whatever the order and layout of the files they were read from.  Pure. */
#ifndef COMMON_FORMATS_CONFIG_FIELDS_H
#define COMMON_FORMATS_CONFIG_FIELDS_H

#include "common/formats/model_config.h"

enum field_kind { FIELD_INT, FIELD_BOOL, FIELD_F64, FIELD_F32, FIELD_ARCH };

struct config_field {
    const char *name; /* of the member: "rope.theta" */
    size_t at;        /* offset in struct model_config */
    enum field_kind kind;
    int32_t n;            /* elements of an array, else 1 */
    bool changes_numbers; /* else it is not in the text */
};

extern const struct config_field config_fields[];
extern const size_t n_config_fields;

/* Bytes of a member. */
size_t config_field_size(const struct config_field *f);

enum { CONFIG_TEXT_SIZE = 32768 };

/* One line "name=value" for each member that changes numbers, in the order of the list: integers in
 * decimal, floating-point numbers as the hexadecimal digits of their bits, arrays as far as the
 * configuration uses them.  Ends with NUL; returns its length. */
size_t config_text(const struct model_config *mc, char out[CONFIG_TEXT_SIZE]);

#endif
