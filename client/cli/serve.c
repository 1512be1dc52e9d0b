/* ingot serve: a supervised server on this machine. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/commands.h"
#include "client/cli/serve_options.h"
#include "common/log.h"

static volatile sig_atomic_t stops;

static void on_stop(int sig)
{
    (void)sig;
    stops++;
}

static void catch_signals(void)
{
    struct sigaction sa = {.sa_handler = on_stop};
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void say_ready(const struct supervisor *s)
{
    const char *ep = supervisor_endpoint(s);
    bool usual = strcmp(ep, "tcp://127.0.0.1:5555") == 0;
    printf("Ready at %s\n", ep);
    printf("  ask:    ingot generate %s%s%s--prompt 'Once upon a time'\n", usual ? "" : "--connect ",
           usual ? "" : ep, usual ? "" : " ");
    printf("  talk:   ingot chat%s%s\n", usual ? "" : " --connect ", usual ? "" : ep);
    printf("  look:   ingot status%s%s\n", usual ? "" : " --connect ", usual ? "" : ep);
    printf("  end:    Ctrl-C\n");
    fflush(stdout);
}

static int watch(struct supervisor *s)
{
    enum supervisor_state state = SUP_STARTING;
    bool said_ready = false;
    int drained = 0;
    for (;;) {
        enum status st = supervisor_poll(s, 500, &state);
        if (st != ST_OK) {
            log_line(LOG_ERROR, "%s", status_text());
            return EXIT_FAILED;
        }
        if (state == SUP_READY && !said_ready) {
            said_ready = true;
            say_ready(s);
        }
        if (state == SUP_ENDED)
            return supervisor_exit_code(s);
        if (stops > drained) {
            drained = stops;
            log_line(LOG_INFO, drained > 1 ? "ending now"
                                           : "ending when the running requests have ended; Ctrl-C "
                                             "again ends at once");
            if (drained > 1)
                return EXIT_OK;
            supervisor_drain(s);
        }
    }
}

int cmd_serve(int argc, char **argv)
{
    struct supervisor_config cfg;
    struct supervisor *s;
    int rc = serve_options_parse(&cfg, argc, argv);
    if (rc >= 0)
        return rc;
    log_init("serve", LOG_INFO);
    catch_signals();
    if (supervisor_start(&s, &cfg) != ST_OK) {
        log_line(LOG_ERROR, "%s", status_text());
        return EXIT_FAILED;
    }
    rc = watch(s);
    supervisor_stop(s);
    return rc;
}
