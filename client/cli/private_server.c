#include "client/cli/private_server.h"

#include "client/cli/cli.h"
#include "client/cli/commands.h"
#include "client/cli/model_name.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/model_path.h"

enum { PRIVATE_SEQS = 16, SHOW_US = 300 * 1000 };

/* a line that says that the model is being loaded, when that takes long enough to be seen */
static void show_loading(const char *model, uint64_t since_us, bool *shown)
{
    if (*shown || !cli_is_terminal(stderr) || clock_us() - since_us < SHOW_US)
        return;
    fprintf(stderr, "%sloading %s ...%s", cli_sgr(stderr, 2), model, cli_sgr(stderr, 0));
    *shown = true;
}

/* ST_CANCELED: Ctrl-C came */
static enum status wait_ready(struct private_server *p, const char *model)
{
    enum supervisor_state state = SUP_STARTING;
    uint64_t since = clock_us();
    bool shown = false;
    enum status st = ST_OK;
    while (st == ST_OK && state == SUP_STARTING && !interrupts()) {
        st = supervisor_poll(p->sup, 100, &state);
        show_loading(model, since, &shown);
    }
    if (shown)
        fputs("\r\x1b[K", stderr);
    TRY(st);
    if (interrupts())
        FAIL(ST_CANCELED, "interrupted");
    if (state == SUP_ENDED && *supervisor_why(p->sup))
        FAIL(ST_PEER, "%s", supervisor_why(p->sup));
    if (state == SUP_ENDED)
        FAIL(ST_PEER, "the server ended before it was ready");
    return ST_OK;
}

int private_server_open(struct private_server *p, const char *command, const struct serve_args *a,
                        const char *model)
{
    *p = (struct private_server){.sup = NULL};
    struct model_place place;
    int rc = model_find(&place, command, model, a->pull);
    if (rc >= 0)
        return rc;
    struct supervisor_config cfg = {
        .model = place.path, .args = *a, .command = FOR_LOAD, .quiet = true};
    if (a->shared.max_seqs > PRIVATE_SEQS)
        cfg.args.shared.max_seqs = PRIVATE_SEQS;
    cfg.args.shared.name = place.name;
    log_init(command, LOG_WARN);
    if (model_path_check(place.path) != ST_OK || supervisor_start(&p->sup, &cfg) != ST_OK)
        return cli_fail(command, EXIT_FAILED);
    enum status st = wait_ready(p, model);
    if (st != ST_OK)
        return cli_fail(command, st == ST_CANCELED ? EXIT_INTERRUPTED : EXIT_FAILED);
    return cli_connect(&p->client, command, supervisor_endpoint(p->sup), NULL);
}

void private_server_close(struct private_server *p)
{
    ingot_close(p->client);
    supervisor_stop(p->sup);
}
