#include "client/cli/gateway_job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"

enum {
    RESTART_US = 1000 * 1000,
    STOP_US = 2 * 1000 * 1000,
    SILENCE_US = 10 * 1000 * 1000, /* it writes a line each second */
    MOST_LOOK_US = 1000 * 1000,    /* we were stopped ourselves, or the machine slept */
    EXIT_OPTIONS = 2,              /* of ingot-gateway */
    EXIT_IN_USE = 3,
};

void gateway_job_init(struct gateway_job *g, const struct serve_args *args)
{
    *g = (struct gateway_job){
        .http = strcmp(args->http, "off") == 0 ? NULL : args->http, .args = args, .notify_fd = -1};
}

bool gateway_job_is_settled(const struct gateway_job *g)
{
    return !g->http || *g->address;
}

PRINTF_LIKE(2, 3) static void give_up(struct gateway_job *g, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(g->why, sizeof g->why, fmt, ap);
    va_end(ap);
    g->http = NULL;
    log_line(LOG_WARN, "serving goes on without HTTP: %s", g->why);
}

static enum status start(struct gateway_job *g)
{
    struct child_args a = {.n = 0};
    char path[MAX_PATH_LEN];
    int fd[2];
    TRY(child_find("ingot-gateway", path));
    if (pipe(fd) != 0)
        FAIL(ST_IO, "cannot make a pipe: %s", strerror(errno));
    fcntl(fd[0], F_SETFD, FD_CLOEXEC);
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    fcntl(fd[1], F_SETFD, FD_CLOEXEC);
    child_arg(&a, path);
    child_argf(&a, "--connect=%s", g->endpoint);
    child_argf(&a, "--http=%s", g->http);
    if (g->args->api_keys)
        child_argf(&a, "--api-keys=%s", g->args->api_keys);
    child_argf(&a, "--metrics-prefix=%s", g->args->metrics_prefix);
    if (g->args->metrics_need_key)
        child_arg(&a, "--metrics-need-key");
    child_arg(&a, "--die-with-parent");
    child_argf(&a, "--notify-fd=%d", fd[1]);
    enum status st = child_start(&g->pid, &a, fd[1]);
    close(fd[1]);
    g->notify_fd = fd[0];
    g->start_at_us = g->silent_us = 0;
    return st;
}

/* false: nothing has come. */
static bool read_lines(struct gateway_job *g)
{
    char line[160];
    ssize_t n = g->notify_fd >= 0 ? read(g->notify_fd, line, sizeof line - 1) : 0;
    if (n <= 0)
        return false;
    line[n] = '\0';
    if (sscanf(line, "listening %127s", g->address) == 1)
        g->listened = true;
    return true;
}

static void end_silent(struct gateway_job *g)
{
    uint64_t now = clock_us(), since = now - g->looked_us;
    g->looked_us = now;
    g->silent_us += since < MOST_LOOK_US ? since : MOST_LOOK_US;
    if (read_lines(g) || !*g->address)
        g->silent_us = 0;
    if (g->silent_us < SILENCE_US)
        return;
    log_line(LOG_WARN, "the gateway has given no sign of life for %d s: ending it",
             SILENCE_US / (1000 * 1000));
    g->silent_us = 0;
    kill(g->pid, SIGKILL);
}

static void forget(struct gateway_job *g)
{
    if (g->notify_fd >= 0)
        close(g->notify_fd);
    g->notify_fd = -1;
    g->pid = 0;
    g->address[0] = '\0';
}

static enum status on_end(struct gateway_job *g, int wait_status)
{
    char why[64];
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
    child_end_text(wait_status, why, sizeof why);
    forget(g);
    if (code == EXIT_OPTIONS)
        FAIL(ST_RANGE, "the gateway cannot serve at --http %s: see its message above", g->http);
    if (code == EXIT_IN_USE) {
        give_up(g, "%s is in use; --http ADDR:PORT takes another address, --http off none",
                g->http);
    } else if (!g->listened) {
        give_up(g, "the gateway ended with %s", why);
    } else {
        log_line(LOG_WARN, "the gateway ended with %s: starting it again", why);
        g->start_at_us = clock_us() + RESTART_US;
    }
    return ST_OK;
}

enum status gateway_job_poll(struct gateway_job *g, const char *endpoint)
{
    int ws;
    if (!g->http || !endpoint)
        return ST_OK;
    g->endpoint = endpoint;
    if (!g->pid && clock_us() >= g->start_at_us && start(g) != ST_OK) {
        forget(g);
        give_up(g, "%s", status_text());
        return ST_OK;
    }
    end_silent(g);
    if (g->pid && waitpid(g->pid, &ws, WNOHANG) == g->pid)
        return on_end(g, ws);
    return ST_OK;
}

void gateway_job_drain(struct gateway_job *g)
{
    g->http = NULL; /* it is not started again */
    if (g->pid)
        kill(g->pid, SIGTERM);
}

void gateway_job_stop(struct gateway_job *g)
{
    uint64_t until = clock_us() + STOP_US;
    if (!g->pid)
        return;
    kill(g->pid, SIGTERM);
    kill(g->pid, SIGINT); /* the second one: now */
    while (waitpid(g->pid, NULL, WNOHANG) == 0) {
        if (clock_us() > until) {
            kill(g->pid, SIGKILL);
            waitpid(g->pid, NULL, 0);
            break;
        }
        usleep(5000);
    }
    forget(g);
}
