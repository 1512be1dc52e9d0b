#include "client/gateway/answer_form.h"

#include <string.h>

struct json_writer answer_event_begin(struct text_buf *out, const char *name)
{
    struct json_writer w = {.out = out};
    if (name) {
        w.status = text_buf_append(out, "event: ", 7);
        if (w.status == ST_OK)
            w.status = text_buf_append(out, name, strlen(name));
        if (w.status == ST_OK)
            w.status = text_buf_append(out, "\n", 1);
    }
    if (w.status == ST_OK)
        w.status = text_buf_append(out, "data: ", 6);
    return w;
}

enum status answer_event_end(struct json_writer *w)
{
    TRY(w->status);
    return text_buf_append(w->out, "\n\n", 2);
}
