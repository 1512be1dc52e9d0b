#include "client/cli/embed_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/answer_json.h"
#include "client/cli/cli.h"
#include "client/cli/commands.h"

enum { WAIT_MS = 200 };

/* The exit code, or -1. */
static int take_event(const char *command, bool json, struct embed_call *all, size_t n,
                      const struct ingot_event *ev)
{
    size_t i = 0;
    while (i < n && strcmp(all[i].id, ev->request_id ? ev->request_id : "") != 0)
        i++;
    if (ev->kind == INGOT_EVENT_ERROR) {
        if (json)
            answer_json_error(stdout, ev->code, ev->detail, ev->retryable);
        fprintf(stderr, "ingot %s: ", command);
        cli_put_name(stderr, ev->detail);
        putc('\n', stderr);
        return EXIT_REFUSED;
    }
    if (i == n || ev->kind != INGOT_EVENT_FINISH)
        return -1;
    all[i].v = malloc((ev->n_embedding + 1) * sizeof *all[i].v);
    if (!all[i].v || !ev->embedding) {
        fprintf(stderr, "ingot %s: no vector came\n", command);
        return EXIT_FAILED;
    }
    memcpy(all[i].v, ev->embedding, ev->n_embedding * sizeof *all[i].v);
    all[i].n = ev->n_embedding;
    all[i].prompt_tokens = ev->prompt_tokens;
    return -1;
}

int embed_calls_run(const char *command, bool json, struct private_server *p,
                    struct embed_call *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ingot_generate(p->client, &all[i].b.r, all[i].id) != INGOT_OK)
            return cli_fail(command, EXIT_FAILED);
    for (size_t done = 0; done < n;) {
        struct ingot_event ev;
        enum supervisor_state state;
        enum ingot_code code = ingot_next(p->client, &ev, WAIT_MS);
        if (interrupts())
            return EXIT_INTERRUPTED;
        if (code == INGOT_TIMEOUT && supervisor_poll(p->sup, 0, &state) == ST_OK)
            continue;
        if (code != INGOT_OK)
            return cli_fail(command, cli_exit_code(code));
        int rc = take_event(command, json, all, n, &ev);
        if (rc >= 0)
            return rc;
        done += ev.kind == INGOT_EVENT_FINISH;
    }
    return EXIT_OK;
}

void embed_calls_free(struct embed_call *all, size_t n)
{
    for (size_t i = 0; all && i < n; i++) {
        request_free(&all[i].b);
        free(all[i].types);
        free(all[i].v);
    }
    free(all);
}
