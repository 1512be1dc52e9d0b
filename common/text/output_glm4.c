#include "common/text/output_formats.h"

/* The whole answer is NAME, a newline, and the arguments. */
enum output_scan output_run_glm4(struct output_scanner *s, const struct scan_input *in)
{
    s->only_known = true;
    switch (s->phase) {
    case 0:
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 1; /* fall through */
    case 1:
        SCAN_STEP(scan_name(s, in, &s->name_from, &s->name_to));
        s->phase = 2; /* fall through */
    case 2:
        SCAN_STEP(scan_literal(s, in, "\n"));
        s->phase = 3; /* fall through */
    case 3:
        SCAN_STEP(scan_literal(s, in, "{"));
        s->at--;
        s->phase = 4; /* fall through */
    default:
        return scan_json(s, in);
    }
}
