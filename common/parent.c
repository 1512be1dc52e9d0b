#include "common/parent.h"

#ifdef __linux__
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

enum status die_with_parent(void)
{
    pid_t parent = getppid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        FAIL(ST_IO, "cannot bind this process's life to its parent's");
    if (getppid() != parent)
        FAIL(ST_PEER, "the parent process has died");
    return ST_OK;
}
#else
enum status die_with_parent(void)
{
    FAIL(ST_UNSUPPORTED, "ending with the parent process needs Linux");
}
#endif
