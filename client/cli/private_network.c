#include "client/cli/private_network.h"

#ifdef __linux__
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return ok;
}

/* In a new user namespace: the user and the group stay who they are (user_namespaces(7)). */
static bool keep_ids(uid_t uid, gid_t gid)
{
    char users[64], groups[64];
    snprintf(users, sizeof users, "%u %u 1", (unsigned)uid, (unsigned)uid);
    snprintf(groups, sizeof groups, "%u %u 1", (unsigned)gid, (unsigned)gid);
    return write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/uid_map", users) &&
           write_file("/proc/self/gid_map", groups);
}

static bool raise_loopback(void)
{
    struct ifreq r = {.ifr_name = "lo"};
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return false;
    bool ok = ioctl(s, SIOCGIFFLAGS, &r) == 0;
    r.ifr_flags = (short)(r.ifr_flags | IFF_UP);
    ok = ok && ioctl(s, SIOCSIFFLAGS, &r) == 0;
    close(s);
    return ok;
}

bool private_network_enter(void)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (syscall(SYS_unshare, CLONE_NEWNET) == 0) /* root, or a process with CAP_SYS_ADMIN */
        return raise_loopback();
    return syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNET) == 0 && keep_ids(uid, gid) &&
           raise_loopback();
}

bool private_network_possible(void)
{
    int ws;
    pid_t pid = fork();
    if (pid == 0)
        _exit(private_network_enter() ? 0 : 1);
    while (pid > 0 && waitpid(pid, &ws, 0) < 0)
        if (errno != EINTR)
            return false;
    return pid > 0 && WIFEXITED(ws) && WEXITSTATUS(ws) == 0;
}
#else
bool private_network_possible(void)
{
    return false;
}

bool private_network_enter(void)
{
    return false;
}
#endif
