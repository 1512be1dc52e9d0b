#include <string.h>

#include "common/text/output_formats.h"

/* functions.NAME:3 is the call's id; without "functions." and the number it is the name. */
static void name_of_id(struct output_scanner *s, const struct scan_input *in)
{
    static const char prefix[] = "functions.";
    const char *id = in->p + (s->id_from - s->base);
    size_t n = s->id_to - s->id_from, from = 0, to = n;
    if (n > strlen(prefix) && memcmp(id, prefix, strlen(prefix)) == 0)
        from = strlen(prefix);
    while (to > from && id[to - 1] >= '0' && id[to - 1] <= '9')
        to--;
    if (to == n || to <= from + 1 || id[to - 1] != ':')
        to = n + 1;
    s->name_from = s->id_from + from;
    s->name_to = s->id_from + to - 1;
}

/* <|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{..}<|tool_call_end|> */
enum output_scan output_run_kimi(struct output_scanner *s, const struct scan_input *in)
{
    enum output_scan end;
    bool taken;
    switch (s->phase) {
    case 0:
        SCAN_STEP(scan_maybe(s, in, KIMI_CALLS_BEGIN, &taken));
        s->phase = 1; /* fall through */
    case 1:
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 2; /* fall through */
    case 2:
        SCAN_STEP(scan_literal(s, in, KIMI_CALL_BEGIN));
        s->marked = true;
        s->phase = 3; /* fall through */
    case 3:
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 4; /* fall through */
    case 4:
        SCAN_STEP(scan_name(s, in, &s->id_from, &s->id_to));
        name_of_id(s, in);
        s->phase = 5; /* fall through */
    case 5:
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 6; /* fall through */
    case 6:
        SCAN_STEP(scan_literal(s, in, KIMI_ARGUMENTS));
        s->phase = 7; /* fall through */
    case 7:
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 8; /* fall through */
    case 8:
        end = scan_json(s, in);
        if (s->json_broken && s->begun)
            return scan_literal(s, in, KIMI_CALL_END);
        SCAN_STEP(end);
        s->phase = 9; /* fall through */
    case 9:
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 10; /* fall through */
    default:
        return scan_literal(s, in, KIMI_CALL_END);
    }
}
