/* A build without libedit: there is no line editor, which line_editor_open says. */
#include "client/cli/line_editor.h"

#include <stddef.h>

const char *line_editor_name(void)
{
    return NULL;
}

enum status line_editor_open(struct line_editor **out, const struct line_editor_config *cfg)
{
    (void)cfg;
    *out = NULL;
    FAIL(ST_UNSUPPORTED, "this build has no libedit");
}

const char *line_editor_trouble(const struct line_editor *e)
{
    (void)e;
    return NULL;
}

enum typed line_editor_read(struct line_editor *e, char **message)
{
    (void)e;
    *message = NULL;
    return TYPED_END; /* never called: there is no editor to call it with */
}

void line_editor_close(struct line_editor *e)
{
    (void)e;
}
