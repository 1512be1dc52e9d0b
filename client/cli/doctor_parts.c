/* Findings of `ingot doctor` about Ingot's own needs: its programs, libraries, ports, MPI
 * launcher and the GPU of a Mac.  Called by doctor.c. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "client/cli/child.h"
#include "client/cli/doctor.h"
#include "client/lib/ingot.h"
#include "common/clock.h"

/* A worker's first start compiles Metal's kernels. */
enum { PROBE_MS = 500, MPI_SECONDS = 30, METAL_SECONDS = 60 };

void doctor_programs(struct report *r)
{
    static const char *const names[] = {"ingot-coordinator", "ingot-worker", "ingot-text",
                                        "ingot-journal", "ingot-quantize"};
    char path[MAX_PATH_LEN], missing[128] = "";
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (child_find(names[i], path) != ST_OK) {
            strcat(missing, " ");
            strcat(missing, names[i]);
        }
    if (*missing)
        report_line(r, FINDING_FAIL, "programs", "build or install them beside ingot", "missing:%s",
                    missing);
    else
        report_line(r, FINDING_OK, "programs", NULL, "ingot %s and its five siblings",
                    INGOT_VERSION);
}

void doctor_libraries(struct report *r)
{
    int major, minor, patch;
    zmq_version(&major, &minor, &patch);
    report_line(r, major > 4 || (major == 4 && minor >= 2) ? FINDING_OK : FINDING_FAIL, "ZeroMQ",
                "Ingot needs 4.2 or newer", "%d.%d.%d", major, minor, patch);
}

/* ---- ports ---- */

static bool can_bind(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0)
        return false;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* as ZeroMQ does */
    bool ok = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return ok;
}

void doctor_ports(struct report *r)
{
    enum { PORT = 5555 };
    struct ingot_client *c;
    if (can_bind(PORT)) {
        report_line(r, FINDING_OK, "port 5555", NULL, "free");
    } else if (ingot_connect(&c, NULL, PROBE_MS) == INGOT_OK) {
        report_line(r, FINDING_OK, "port 5555", NULL, "a server is there: %s",
                    ingot_server(c)->version);
        ingot_close(c);
    } else {
        report_line(r, FINDING_WARN, "port 5555",
                    "serve with --listen tcp://127.0.0.1:PORT or ipc://PATH",
                    "in use by another program");
    }
}

/* ---- MPI ---- */

/* Runs the command with its output in text (its beginning); false: it failed or took too long. */
static bool run(const struct child_args *a, int seconds, char *text, size_t n)
{
    int fd[2], ws = 0;
    pid_t pid;
    text[0] = '\0';
    if (pipe(fd) != 0)
        return false;
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        alarm((unsigned)seconds); /* survives exec: a launcher that hangs is ended */
        dup2(fd[1], STDOUT_FILENO);
        dup2(fd[1], STDERR_FILENO);
        close(fd[0]);
        close(fd[1]);
        execvp(a->v[0], (char *const *)(uintptr_t)a->v);
        _exit(127);
    }
    close(fd[1]);
    size_t at = 0;
    ssize_t got;
    char drop[512];
    while (pid > 0 && (got = read(fd[0], drop, sizeof drop)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            break;
        size_t take = (size_t)got < n - 1 - at ? (size_t)got : n - 1 - at;
        memcpy(text + at, drop, take);
        at += take;
    }
    text[at] = '\0';
    close(fd[0]);
    return pid > 0 && waitpid(pid, &ws, 0) == pid && WIFEXITED(ws) && WEXITSTATUS(ws) == 0;
}

static bool launcher_version(struct report *r)
{
    struct child_args a = {.n = 0};
    char text[512], path[MAX_PATH_LEN];
    if (child_find("mpirun", path) != ST_OK) {
        report_line(r, FINDING_WARN, "MPI launcher",
                    "apt-get install openmpi-bin; without it only --tp 1", "there is no mpirun");
        return false;
    }
    child_arg(&a, path);
    child_arg(&a, "--version");
    if (!run(&a, MPI_SECONDS, text, sizeof text)) {
        report_line(r, FINDING_FAIL, "MPI launcher",
                    "reinstall it: apt-get install --reinstall openmpi-bin", "%s --version fails",
                    path);
        return false;
    }
    text[strcspn(text, "\n")] = '\0';
    report_line(r, FINDING_OK, "MPI launcher", NULL, "%s", text);
    return true;
}

void doctor_mpi(struct report *r)
{
    struct child_args a = {.n = 0};
    char text[2048], worker[MAX_PATH_LEN];
    if (!launcher_version(r) || child_find("ingot-worker", worker) != ST_OK)
        return;
    child_arg(&a, "mpirun");
    if (getuid() == 0)
        child_arg(&a, "--allow-run-as-root");
    child_arg(&a, "--oversubscribe");
    child_arg(&a, "-np");
    child_arg(&a, "2");
    child_arg(&a, worker);
    child_arg(&a, "--hello");
    uint64_t t0 = clock_us();
    bool ok = run(&a, MPI_SECONDS, text, sizeof text) && strstr(text, "2 ranks");
    if (ok)
        report_line(r, FINDING_OK, "MPI ranks", NULL, "two ranks greet each other after %.1f s",
                    (double)(clock_us() - t0) / 1e6);
    text[strcspn(text, "\n")] = '\0'; /* one line a finding */
    if (!ok)
        report_line(
            r, FINDING_FAIL, "MPI ranks",
            "try it: mpirun -np 2 ingot-worker --hello; is ingot-worker built with this MPI?",
            "two ranks cannot talk: %.300s", *text ? text : "no output, or too slow");
}

/* ---- Metal ---- */

/* What follows the words, to the end of the line; "?": they are not there. */
static const char *line_of(char *text, const char *words)
{
    char *at = strstr(text, words);
    if (!at)
        return "?";
    at += strlen(words);
    at[strcspn(at, "\n")] = '\0';
    return at;
}

void doctor_metal(struct report *r)
{
    struct child_args a = {.n = 0};
    char text[2048], worker[MAX_PATH_LEN];
    if (child_find("ingot-worker", worker) != ST_OK)
        return;
    child_arg(&a, worker);
    child_arg(&a, "--backend");
    child_arg(&a, "metal");
    child_arg(&a, "--device-info");
    bool ok = run(&a, METAL_SECONDS, text, sizeof text);
    if (ok)
        report_line(r, FINDING_OK, "Metal", NULL, "%s", line_of(text, "device: Metal "));
    else if (!strstr(text, "no backend 'metal' in this build"))
        report_line(r, FINDING_WARN, "Metal", "serve with --backend cpu", "%s",
                    line_of(text, "ingot-worker: "));
}
