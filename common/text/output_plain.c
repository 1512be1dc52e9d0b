#include "common/text/output_formats.h"

enum output_scan output_run_json(struct output_scanner *s, const struct scan_input *in)
{
    if (s->phase == 0) {
        if (s->format == OUTPUT_TOOLS_LLAMA3)
            SCAN_STEP(scan_maybe(s, in, "<|python_tag|>", &s->marked));
        s->phase = 1;
    }
    if (s->phase == 1) {
        SCAN_STEP(scan_blanks(s, in));
        s->phase = 2;
    }
    return scan_json(s, in);
}
