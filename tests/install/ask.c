/* Built outside the tree with the installed libingot: asks the server at argv[1] and prints the answer. */
#include <ingot.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct ingot_client *c;
    struct ingot_event ev = {0};
    struct ingot_request r = ingot_request_default();
    if (argc != 2 || ingot_connect(&c, argv[1], 60000) != INGOT_OK) {
        fprintf(stderr, "%s\n", ingot_last_error());
        return 1;
    }
    r.text = "Once upon a time";
    r.n_text = strlen(r.text);
    r.max_tokens = 16;
    r.temperature = 0;
    if (ingot_generate(c, &r, NULL) != INGOT_OK)
        return 2;
    while (ingot_next(c, &ev, 300000) == INGOT_OK && ev.kind != INGOT_EVENT_FINISH &&
           ev.kind != INGOT_EVENT_ERROR)
        if (ev.kind == INGOT_EVENT_DELTA)
            fwrite(ev.text, 1, ev.n_text, stdout);
    ingot_close(c);
    return ev.kind == INGOT_EVENT_FINISH ? 0 : 3;
}
