#include "client/cli/private_server.h"

#include "client/cli/commands.h"
#include "common/clock.h"
#include "common/log.h"

enum { PRIVATE_SEQS = 16, SHOW_US = 300 * 1000 };

/* a line that says that the model is being loaded, when that takes long enough to be seen */
static void show_loading(const char *model, uint64_t since_us, bool *shown)
{
    if (*shown || !cli_is_terminal(stderr) || clock_us() - since_us < SHOW_US)
        return;
    fprintf(stderr, "%sloading %s ...%s", cli_sgr(stderr, 2), model, cli_sgr(stderr, 0));
    *shown = true;
}

static int wait_ready(struct private_server *p, const char *command, const char *model)
{
    enum supervisor_state state = SUP_STARTING;
    uint64_t since = clock_us();
    bool shown = false;
    int rc = -1;
    while (rc < 0 && state == SUP_STARTING) {
        if (supervisor_poll(p->sup, 100, &state) != ST_OK)
            rc = EXIT_FAILED;
        else if (interrupts())
            rc = EXIT_INTERRUPTED;
        else
            show_loading(model, since, &shown);
    }
    if (shown)
        fputs("\r\x1b[K", stderr);
    if (rc == EXIT_FAILED)
        cli_fail(command, rc);
    if (rc < 0 && state == SUP_ENDED) {
        fprintf(stderr, "ingot %s: the server ended before it was ready\n", command);
        rc = EXIT_FAILED;
    }
    return rc;
}

int private_server_open(struct private_server *p, const char *command, struct serve_args *a,
                        const char *model)
{
    *p = (struct private_server){.sup = NULL};
    serve_config(a, model);
    a->c.quiet = true;
    if (a->c.max_seqs > PRIVATE_SEQS)
        a->c.max_seqs = PRIVATE_SEQS;
    log_init(command, LOG_WARN);
    if (supervisor_start(&p->sup, &a->c) != ST_OK)
        return cli_fail(command, EXIT_FAILED);
    int rc = wait_ready(p, command, model);
    if (rc < 0)
        rc = cli_connect(&p->client, command, supervisor_endpoint(p->sup));
    return rc;
}

void private_server_close(struct private_server *p)
{
    ingot_close(p->client);
    supervisor_stop(p->sup);
}
