#include "coordinator/answer_parts.h"

#include <string.h>

void part_begin(struct json_writer *w, const char *kind)
{
    json_write_object(w);
    json_write_key(w, kind);
}

void part_list(struct json_writer *w, const char *kind)
{
    part_begin(w, kind);
    json_write_array(w);
}

void part_end_list(struct json_writer *w)
{
    json_write_end_array(w);
    json_write_end_object(w);
}

void part_put(struct json_writer *w, const char *kind, const char *text, size_t n)
{
    part_begin(w, kind);
    json_write_bytes(w, text, n);
    json_write_end_object(w);
}

/* The special token that the text begins with; NULL: none. */
static const struct wire_text *special_at(const struct answer_form *f, const char *text)
{
    for (uint32_t i = 0; i < f->n_special; i++)
        if (f->special[i].n && strncmp(text, f->special[i].data, f->special[i].n) == 0)
            return &f->special[i];
    return NULL;
}

bool part_is_special(const struct answer_form *f, const char *text)
{
    const struct wire_text *mark = special_at(f, text);
    return mark && mark->n == strlen(text);
}

void part_text(struct json_writer *w, const struct answer_form *f, const char *text)
{
    while (*text) {
        const struct wire_text *mark = special_at(f, text);
        size_t n = mark ? mark->n : 1;
        while (!mark && text[n] && !special_at(f, text + n))
            n++;
        part_put(w, mark ? "special" : "text", text, n);
        text += n;
    }
}
