#include "common/random.h"

#include <stdlib.h>
#include <unistd.h>

#ifdef __APPLE__
#include <sys/random.h>
#endif

uint64_t random_u64(void)
{
    uint64_t v;
    if (getentropy(&v, sizeof v) != 0)
        abort();
    return v;
}
