#include "common/text/output_deepseek_marks.h"
#include "common/text/output_formats.h"

/* V3 and R1: function<sep>NAME, a newline, and the JSON in a fence; V3.1: NAME<sep>JSON. */
enum output_scan output_run_deepseek(struct output_scanner *s, const struct scan_input *in)
{
    enum output_scan end;
    bool taken;
    switch (s->phase) {
    case 0:
        SCAN_STEP(scan_maybe(s, in, DS_CALLS_BEGIN, &taken));
        s->phase = 1; /* fall through */
    case 1:
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 2; /* fall through */
    case 2:
        SCAN_STEP(scan_literal(s, in, DS_CALL_BEGIN));
        s->marked = true;
        s->phase = 3; /* fall through */
    case 3:
        SCAN_STEP(scan_name(s, in, &s->name_from, &s->name_to));
        s->phase = 4; /* fall through */
    case 4:
        SCAN_STEP(scan_literal(s, in, DS_SEP));
        s->phase = 5; /* fall through */
    case 5:
        SCAN_STEP(scan_blanks(s, in));
        s->phase = scan_byte_at(s, in) == '{' ? 8 : 6;
        if (s->phase == 8)
            return output_run_deepseek(s, in);
        s->name_from = s->name_to = 0; /* fall through */
    case 6:
        SCAN_STEP(scan_name(s, in, &s->name_from, &s->name_to));
        s->phase = 7; /* fall through */
    case 7:
        SCAN_STEP(scan_literal(s, in, "\n```json\n"));
        s->phase = 8; /* fall through */
    case 8:
        end = scan_json(s, in);
        if (s->json_broken && s->begun)
            return scan_literal(s, in, DS_CALL_END);
        SCAN_STEP(end);
        s->phase = 9; /* fall through */
    case 9:
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 10; /* fall through */
    case 10:
        SCAN_STEP(scan_maybe(s, in, "```", &taken));
        s->phase = 11; /* fall through */
    case 11:
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 12; /* fall through */
    default:
        return scan_literal(s, in, DS_CALL_END);
    }
}
