#include "common/text/output_formats.h"

enum output_scan output_run_mistral(struct output_scanner *s, const struct scan_input *in)
{
    bool taken;
    switch (s->phase) {
    case 0:
        SCAN_STEP(scan_literal(s, in, "[TOOL_CALLS]"));
        s->marked = true;
        s->phase = 1; /* fall through */
    case 1:
        SCAN_STEP(scan_blanks(s, in));
        s->phase = scan_byte_at(s, in) == '[' || scan_byte_at(s, in) == '{' ? 6 : 2;
        if (s->phase == 6)
            return scan_json(s, in); /* fall through */
    case 2:
        SCAN_STEP(scan_name(s, in, &s->name_from, &s->name_to));
        s->phase = 3; /* fall through */
    case 3:
        SCAN_STEP(scan_maybe(s, in, "[CALL_ID]", &taken));
        s->phase = taken ? 4 : 5;
        if (!taken)
            return output_run_mistral(s, in); /* fall through */
    case 4:
        SCAN_STEP(scan_name(s, in, &s->id_from, &s->id_to));
        s->phase = 5; /* fall through */
    case 5:
        SCAN_STEP(scan_maybe(s, in, "[ARGS]", &taken));
        s->phase = 6; /* fall through */
    default:
        return scan_json(s, in);
    }
}
