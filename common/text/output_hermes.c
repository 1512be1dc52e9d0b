#include "common/text/output_formats.h"

enum output_scan output_run_hermes(struct output_scanner *s, const struct scan_input *in)
{
    enum output_scan end;
    switch (s->phase) {
    case 0:
        SCAN_STEP(scan_literal(s, in, "<tool_call>"));
        s->marked = true;
        s->phase = 1; /* fall through */
    case 1:
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 2; /* fall through */
    case 2:
        end = scan_json(s, in);
        if (s->json_broken && s->begun)
            return scan_literal(s, in, "</tool_call>");
        SCAN_STEP(end);
        s->phase = 3; /* fall through */
    default:
        end = scan_blanks(s, in); /* the closing mark may be missing where the text ends */
        if (end == SCAN_OK)
            end = scan_literal(s, in, "</tool_call>");
        if (end == SCAN_BAD && in->finished && s->at == in->n)
            return SCAN_OK;
        return end;
    }
}
