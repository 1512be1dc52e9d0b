#include "common/text/output_formats.h"

#include "common/text/output_python_marks.h"

/* ```json, ```tool_code, ```tool_call or ```, and a newline. */
static enum output_scan run_fence(struct output_scanner *s, const struct scan_input *in)
{
    size_t from = 0, to = s->at;
    SCAN_STEP(scan_literal(s, in, "```"));
    while (s->at < in->n && scan_byte_at(s, in) != '\n') {
        char c = scan_byte_at(s, in);
        if (!((c >= 'a' && c <= 'z') || c == '_') || ++from > 9)
            return SCAN_BAD;
        s->at++;
    }
    if (s->at < in->n)
        return SCAN_OK;
    s->at = to; /* the line is read anew */
    return in->finished ? SCAN_BAD : SCAN_MORE;
}

enum output_scan output_run_json(struct output_scanner *s, const struct scan_input *in)
{
    bool taken;
    if (s->phase == 0) {
        if (s->format == OUTPUT_TOOLS_LLAMA3)
            SCAN_STEP(scan_maybe(s, in, "<|python_tag|>", &s->marked));
        s->phase = 1;
    }
    if (s->phase == 1) {
        SCAN_STEP(scan_blanks(s, in));
        if (scan_byte_at(s, in) == '`') {
            SCAN_STEP(run_fence(s, in));
            s->only_known = true;
            SCAN_STEP(scan_blanks(s, in));
        }
        s->phase = 2;
    }
    if (s->phase == 2) {
        SCAN_STEP(scan_json(s, in));
        s->phase = 3;
    }
    if (!s->only_known)
        return SCAN_OK;
    enum output_scan end = scan_blanks(s, in); /* the fence may be missing where the text ends */
    return end == SCAN_OK ? scan_maybe(s, in, "```", &taken) : end == SCAN_BAD ? SCAN_OK : end;
}

/* Both marks may be before the JSON: the template of Llama 4 has an answer's text between them. */
enum output_scan output_run_llama4(struct output_scanner *s, const struct scan_input *in)
{
    enum { BETWEEN_MARKS = 4 }; /* behind the phases of output_run_json, which goes on with 1 */
    bool taken;
    if (s->phase == 0) {
        SCAN_STEP(scan_maybe(s, in, PYTHON_START, &s->marked));
        s->phase = BETWEEN_MARKS;
    }
    if (s->phase == BETWEEN_MARKS) {
        SCAN_STEP(scan_blanks(s, in));
        SCAN_STEP(scan_maybe(s, in, PYTHON_END, &taken));
        s->marked |= taken;
        s->phase = 1;
    }
    return output_run_json(s, in);
}
