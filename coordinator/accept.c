/* accept4() as libzmq calls it.  Its ipc listener ends the process when no descriptor is left (EMFILE; its TCP listener
 * goes on), and takes ENFILE for harmless: both mean that the connection waits.  libzmq 4.3.4, ipc_listener.cpp.  Linux only:
 * elsewhere libzmq calls accept(). */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);

int accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    int accepted = (int)syscall(SYS_accept4, fd, address, len, flags);
    if (accepted < 0 && errno == EMFILE)
        errno = ENFILE;
    return accepted;
}
