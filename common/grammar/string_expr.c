#include "common/grammar/string_expr.h"

#include <string.h>

#include "common/grammar/regex.h"

#define DAY                                                                                        \
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?" \
    ":0[1-9]|1[0-9]|2[0-8]))"
#define LEAP_DAY                                                                                   \
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29"
#define YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define DATE "(?:" YEAR "-" DAY "|" LEAP_DAY ")"
#define ZONE "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define TIME "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?" ZONE ")"
#define OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4 OCTET "(?:\\." OCTET "){3}"
#define H16 "[0-9a-fA-F]{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32      \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16             \
    ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16       \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16   \
    ")?::)"
#define LABEL "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define ATEXT "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
#define PCT "%[0-9a-fA-F]{2}"
#define PCHAR "(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|" PCT ")"

/* RFC 3339 (without leap seconds), 5321 (no quoted local parts, no general address literals), 1123, 4291, 4122, 3986. */
static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date-time", DATE "[Tt]" TIME},
    {"date", DATE},
    {"time", TIME},
    {"duration", "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:T(?"
                 ":[0-9]+H(?:[0-9]+M(?:"
                 "[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|["
                 "0-9]+M(?:[0-9]+S)?|["
                 "0-9]+S))"},
    {"email",
     ATEXT "(?:\\." ATEXT ")*@(?:" LABEL "(?:\\." LABEL ")*|\\[(?:" IPV4 "|IPv6:" IPV6 ")\\])"},
    {"hostname", LABEL "(?:\\." LABEL ")*"},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"uri",
     "[a-zA-Z][a-zA-Z0-9+.-]*:(?://(?:(?:[a-zA-Z0-9._~!$&'()*+,;=:-]|" PCT ")*@)?(?:\\[" IPV6
     "\\]|(?:[a-zA-Z0-9._~!"
     "$&'()*+,;=-]|" PCT ")*)(?::[0-9]*)?(?:/" PCHAR "*)*|/(?:" PCHAR "+(?:/" PCHAR "*)*)?|" PCHAR
     "+(?:/" PCHAR "*)*)?(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"},
};

uint32_t string_length(struct expr_pool *p, enum text_form form, uint32_t min, uint32_t max)
{
    return expr_repeat(p, charset_any(p, form), min, max);
}

enum status string_format(struct expr_pool *p, enum text_form form, const char *name, uint32_t *out)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (strcmp(formats[i].name, name) == 0)
            return regex_compile(p, formats[i].pattern, strlen(formats[i].pattern), REGEX_WHOLE,
                                 form, out);
    FAIL(ST_UNSUPPORTED, "format \"%s\" is not supported", name);
}
