#include "client/cli/child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/private_network.h"
#include "common/parent.h"

#ifdef __APPLE__
#include <libproc.h>
#include <mach-o/dyld.h>
#endif

static bool own_path(char *buf, size_t n)
{
#ifdef __APPLE__
    uint32_t size = (uint32_t)n;
    return _NSGetExecutablePath(buf, &size) == 0;
#else
    ssize_t len = readlink("/proc/self/exe", buf, n - 1);
    if (len <= 0)
        return false;
    buf[len] = '\0';
    return true;
#endif
}

static bool find_in_path(const char *name, char path[MAX_PATH_LEN])
{
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t len = strcspn(at, ":");
        int n = snprintf(path, MAX_PATH_LEN, "%.*s/%s", (int)len, at, name);
        if (n > 0 && n < MAX_PATH_LEN && access(path, X_OK) == 0)
            return true;
        at += len + (at[len] == ':');
    }
    return false;
}

const char *child_own_command(void)
{
    static char self[MAX_PATH_LEN];
    char found[MAX_PATH_LEN];
    struct stat a, b;
    bool known = own_path(self, sizeof self) && stat(self, &a) == 0;
    if (!known || (find_in_path("ingot", found) && stat(found, &b) == 0 && a.st_dev == b.st_dev &&
                   a.st_ino == b.st_ino))
        return "ingot";
    return self;
}

enum status child_find(const char *name, char path[MAX_PATH_LEN])
{
    char self[MAX_PATH_LEN];
    if (own_path(self, sizeof self)) {
        char *slash = strrchr(self, '/');
        int n =
            slash ? snprintf(path, MAX_PATH_LEN, "%.*s/%s", (int)(slash - self), self, name) : -1;
        if (n > 0 && n < MAX_PATH_LEN && access(path, X_OK) == 0)
            return ST_OK;
    }
    if (find_in_path(name, path))
        return ST_OK;
    FAIL(ST_NOT_FOUND, "the program %s is neither beside ingot nor in PATH", name);
}

enum status child_find_shared(const char *name, char path[MAX_PATH_LEN])
{
    char self[MAX_PATH_LEN];
    if (own_path(self, sizeof self)) {
        char *slash = strrchr(self, '/');
        int n = slash ? snprintf(path, MAX_PATH_LEN, "%.*s/../share/ingot/%s", (int)(slash - self),
                                 self, name)
                      : -1;
        if (n > 0 && n < MAX_PATH_LEN && access(path, R_OK) == 0)
            return ST_OK;
    }
    FAIL(ST_NOT_FOUND, "%s is not installed with this program (../share/ingot/%s)", name, name);
}

void child_arg(struct child_args *a, const char *s)
{
    if (a->n == MAX_ARGV) {
        a->too_long = true;
        return;
    }
    a->v[a->n++] = s;
    a->v[a->n] = NULL;
}

void child_argf(struct child_args *a, const char *fmt, ...)
{
    va_list ap;
    size_t room = sizeof a->text - a->n_text;
    char *s = a->text + a->n_text;
    va_start(ap, fmt);
    int n = vsnprintf(s, room, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= room) {
        a->too_long = true;
        return;
    }
    a->n_text += (size_t)n + 1;
    child_arg(a, s);
}

enum status child_start(pid_t *pid, const struct child_args *a, int keep_fd)
{
    if (a->too_long)
        FAIL(ST_RANGE, "the options for %s are too long", a->v[0]);
    *pid = fork();
    if (*pid < 0)
        FAIL(ST_IO, "cannot start %s: %s", a->v[0], strerror(errno));
    if (*pid > 0)
        return ST_OK;
    if (a->private_network &&
        !private_network_enter()) { /* first: new rights undo die_with_parent */
        fprintf(stderr, "ingot: no private network for %s: %s\n", a->v[0], strerror(errno));
        _exit(127);
    }
    setpgid(0, 0); /* Ctrl-C reaches the supervisor alone; it decides */
    if (die_with_parent() == ST_PEER || getppid() == 1)
        _exit(127);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    if (keep_fd >= 0)
        fcntl(keep_fd, F_SETFD, 0);
    execvp(a->v[0], (char *const *)(uintptr_t)a->v);
    fprintf(stderr, "ingot: cannot run %s: %s\n", a->v[0], strerror(errno));
    _exit(127);
}

#ifdef __APPLE__
int child_children(pid_t parent, pid_t *pids, int max)
{
    int n = proc_listchildpids(parent, pids, max * (int)sizeof *pids);
    return n < 0 ? 0 : n;
}

enum child_state child_state(pid_t pid)
{
    struct proc_bsdinfo info;
    if (proc_pidinfo(pid, PROC_PIDTBSDINFO, 0, &info, sizeof info) != (int)sizeof info)
        return CHILD_ENDED;
    return info.pbi_status == SSTOP   ? CHILD_STOPPED
           : info.pbi_status == SZOMB ? CHILD_ENDED
                                      : CHILD_RUNS;
}
#else
/* /proc/PID/stat: "PID (NAME) STATE PPID ...", where NAME may hold anything.  State and parent; 'X':
 * there is no such process. */
static char look(pid_t pid, pid_t *parent)
{
    char path[64], text[512], state = 'X';
    long ppid = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return 'X';
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    if (!end || sscanf(end + 1, " %c %ld", &state, &ppid) != 2)
        return 'X';
    *parent = (pid_t)ppid;
    return state;
}

static enum child_state state_of(char letter)
{
    return letter == 'X' || letter == 'Z' ? CHILD_ENDED
           : letter == 'T' ? CHILD_STOPPED
                           : CHILD_RUNS;
}

enum child_state child_state(pid_t pid)
{
    pid_t parent;
    return state_of(look(pid, &parent));
}

int child_children(pid_t parent, pid_t *pids, int max)
{
    DIR *dir = opendir("/proc");
    int n = 0;
    for (struct dirent *e; dir && n < max && (e = readdir(dir));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10), its_parent = 0;
        if (pid > 0 && state_of(look(pid, &its_parent)) != CHILD_ENDED && its_parent == parent)
            pids[n++] = pid;
    }
    if (dir)
        closedir(dir);
    return n;
}
#endif

const char *child_end_text(int wait_status, char *buf, size_t n)
{
    if (WIFSIGNALED(wait_status))
        snprintf(buf, n, "signal %d (%s)", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    else
        snprintf(buf, n, "exit code %d", WEXITSTATUS(wait_status));
    return buf;
}
