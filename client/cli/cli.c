#include "client/cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/child.h"
#include "client/cli/commands.h"
#include "client/cli/own_token.h"
#include "common/build_info.h"
#include "common/json_escape.h"
#include "common/visible.h"

enum { CONNECT_MS = 3000, RECONNECT_MS = 10000, MAX_FILE = 1 << 30 /* bytes */ };

/* ---- the command line ---- */

/* program: "chat", "ingot chat" */
static void say_help(const char *program)
{
    if (strncmp(program, "ingot ", 6) == 0)
        program += 6;
    fprintf(stderr, "'%s %s --help' explains.\n", child_own_command(), program);
}

int cli_parse(const struct option_set *set, void *dest, int argc, char **argv,
              struct option_result *res)
{
    if (options_parse(set, dest, argc, argv, res) != ST_OK) {
        fprintf(stderr, "%s: %s\n", set->program, status_text());
        say_help(set->program);
        return EXIT_USAGE;
    }
    if (res->help) {
        options_print_help(stdout, set, res->help);
        return EXIT_OK;
    }
    if (res->version) {
        build_info_print(stdout, "ingot");
        return EXIT_OK;
    }
    return -1;
}

/* ---- errors ---- */

int cli_usage(const char *command, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "ingot %s: ", command);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    say_help(command);
    return EXIT_USAGE;
}

int cli_fail(const char *command, int code)
{
    fprintf(stderr, "%singot %s: %s%s\n", cli_sgr(stderr, 31), command, status_text(),
            cli_sgr(stderr, 0));
    return code;
}

int cli_exit_code(enum ingot_code code)
{
    switch (code) {
    case INGOT_OK:
        return EXIT_OK;
    case INGOT_TIMEOUT:
    case INGOT_PEER:
        return EXIT_NO_SERVER;
    case INGOT_CANCELLED:
        return EXIT_INTERRUPTED;
    case INGOT_OUT_OF_MEMORY:
    case INGOT_IO:
    case INGOT_BUG:
        return EXIT_FAILED;
    default:
        return EXIT_REFUSED;
    }
}

/* ---- terminal ---- */

static bool no_colours;

void cli_init_colours(bool forbidden)
{
    no_colours = forbidden;
}

bool cli_is_terminal(FILE *f)
{
    return isatty(fileno(f)) != 0;
}

const char *cli_sgr(FILE *f, int code)
{
    if (no_colours || !cli_is_terminal(f))
        return "";
    switch (code) {
    case 0:
        return "\x1b[0m";
    case 1:
        return "\x1b[1m";
    case 2:
        return "\x1b[2m";
    case 31:
        return "\x1b[31m";
    case 32:
        return "\x1b[32m";
    case 33:
        return "\x1b[33m";
    default:
        return "\x1b[36m";
    }
}

void cli_put_text(FILE *f, const char *s, size_t n)
{
    if (!cli_is_terminal(f)) {
        fwrite(s, 1, n, f);
        return;
    }
    for (size_t used; n; s += used, n -= used) {
        char shown[VISIBLE_SIZE];
        visible_char(s, n, &used, shown);
        bool text = used > 1 && (unsigned char)*s != 0xc2; /* joiners and directions too */
        if (*shown == *s || text || *s == '\n' || *s == '\t')
            fwrite(s, 1, used, f);
        else
            fputs("\xef\xbf\xbd", f); /* U+FFFD */
    }
}

void cli_put_name(FILE *f, const char *s)
{
    size_t n = strlen(s);
    for (size_t used; n; s += used, n -= used) {
        char shown[VISIBLE_SIZE];
        fwrite(shown, 1, visible_char(s, n, &used, shown), f);
    }
}

/* ---- interrupts ---- */

static volatile sig_atomic_t n_interrupts, n_terminations;

static void on_interrupt(int sig)
{
    if (sig != SIGINT)
        n_terminations = 1;
    n_interrupts = n_interrupts + 1;
}

void interrupts_catch(void)
{
    struct sigaction sa = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
}

int interrupts(void)
{
    return n_interrupts;
}

bool terminated(void)
{
    return n_terminations;
}

/* ---- files and JSON ---- */

static enum status read_all(FILE *f, const char *path, char **data, size_t *n)
{
    size_t cap = 65536, got;
    *data = malloc(cap + 1);
    *n = 0;
    while (*data && (got = fread(*data + *n, 1, cap - *n, f)) > 0) {
        *n += got;
        if (*n < cap)
            continue;
        if (cap >= MAX_FILE)
            FAIL(ST_RANGE, "%s is longer than %d bytes", path, MAX_FILE);
        char *more = realloc(*data, 2 * cap + 1);
        if (!more)
            FAIL(ST_NOMEM, "no memory for %s", path);
        cap *= 2;
        *data = more;
    }
    if (!*data)
        FAIL(ST_NOMEM, "no memory for %s", path);
    if (ferror(f))
        FAIL(ST_IO, "cannot read %s: %s", path, strerror(errno));
    (*data)[*n] = '\0';
    return ST_OK;
}

enum status cli_read_file(const char *path, char **data, size_t *n)
{
    *data = NULL;
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "rb");
    if (!f)
        FAIL(ST_IO, "cannot open %s: %s", path, strerror(errno));
    enum status st = read_all(f, is_stdin ? "standard input" : path, data, n);
    if (!is_stdin)
        fclose(f);
    if (st != ST_OK) {
        free(*data);
        *data = NULL;
    }
    return st;
}

void cli_put_json(FILE *f, const char *s, size_t n)
{
    putc('"', f);
    while (n) {
        char esc[JSON_ESCAPE_SIZE];
        size_t plain = json_plain_run(s, n);
        fwrite(s, 1, plain, f);
        s += plain;
        n -= plain;
        if (n) {
            fwrite(esc, 1, json_escape(*s++, esc), f);
            n--;
        }
    }
    putc('"', f);
}

/* ---- server ---- */

static int open_failed(const char *command, enum ingot_code code)
{
    return cli_fail(command, code == INGOT_RANGE ? EXIT_USAGE : cli_exit_code(code));
}

static int open_client(struct ingot_client **c, const char *command, const struct ingot_options *o)
{
    enum ingot_code code = ingot_open(c, o);
    return code == INGOT_OK ? -1 : open_failed(command, code);
}

static struct ingot_options options_of(const char *endpoint, const struct cli_keys *keys)
{
    return (struct ingot_options){.endpoint = endpoint,
                                  .timeout_ms = CONNECT_MS,
                                  .reconnect_ms = RECONNECT_MS,
                                  .key = keys ? keys->key : NULL,
                                  .server_key = keys ? keys->server_key : NULL};
}

int cli_connect(struct ingot_client **c, const char *command, const char *endpoint,
                const struct cli_keys *keys)
{
    struct ingot_options o = options_of(endpoint, keys);
    return open_client(c, command, &o);
}

int cli_connect_as(struct ingot_client **c, const char *command, const char *endpoint,
                   const char *tenant, uint32_t wait_ms, const struct cli_keys *keys)
{
    struct ingot_options o = options_of(endpoint, keys);
    char token[OWN_TOKEN_BYTES];
    if (tenant && *tenant) {
        enum status st = own_token(token, getenv("XDG_STATE_HOME"), getenv("HOME"));
        if (st != ST_OK)
            return cli_fail(command, EXIT_FAILED);
        o.token = token;
        o.n_token = sizeof token;
        o.tenant = tenant;
        o.n_tenant = strlen(tenant);
    }
    if (wait_ms > CONNECT_MS) {
        enum ingot_code code = ingot_open(c, &o);
        if (code == INGOT_OK)
            return -1;
        if (code != INGOT_TIMEOUT)
            return open_failed(command, code);
        fprintf(stderr, "ingot %s: no answer from %s yet; trying for %.3g s (--wait-ms)\n", command,
                endpoint, wait_ms / 1e3);
        o.timeout_ms = wait_ms - CONNECT_MS;
    }
    return open_client(c, command, &o);
}

int cli_connect_operator(struct ingot_client **c, const char *command, const char *endpoint,
                         const struct cli_keys *keys)
{
    struct ingot_options o = options_of(endpoint, keys);
    o.operate = true;
    return open_client(c, command, &o);
}
