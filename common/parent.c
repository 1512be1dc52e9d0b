#include "common/parent.h"

#ifdef __linux__
#include <signal.h>
#include <sys/prctl.h>

void die_with_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}
#else
void die_with_parent(void)
{
}
#endif
