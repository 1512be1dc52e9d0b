#include "common/text/output_formats.h"

/* <|tool_call|>[{"name": .., "arguments": {..}}, ..], with <|/tool_call|> behind it or not; Phi-4 mini also begins with
 * functools. */
enum output_scan output_run_granite(struct output_scanner *s, const struct scan_input *in)
{
    enum output_scan end;
    bool taken;
    switch (s->phase) {
    case 0:
        SCAN_STEP(scan_maybe(s, in, GRANITE_CALL, &taken));
        s->phase = taken ? 2 : 1;
        if (taken)
            return output_run_granite(s, in); /* fall through */
    case 1:
        SCAN_STEP(scan_literal(s, in, "functools"));
        s->phase = 2; /* fall through */
    case 2:
        s->marked = true;
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 3; /* fall through */
    case 3:
        end = scan_json(s, in);
        if (s->json_broken && s->begun)
            return scan_literal(s, in, PHI4_CALL_END);
        SCAN_STEP(end);
        s->phase = 4; /* fall through */
    case 4:
        end = scan_blanks(s, in);
        if (end == SCAN_MORE)
            return end;
        s->phase = 5; /* fall through */
    default:
        end = s->at < in->n ? scan_literal(s, in, PHI4_CALL_END) : SCAN_BAD;
        if (end == SCAN_BAD) { /* the calls ended with the list */
            s->at = s->json_to;
            return SCAN_OK;
        }
        return end;
    }
}
