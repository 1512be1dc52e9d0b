#include "common/random.h"

#include <stdlib.h>
#include <unistd.h>

#ifdef __APPLE__
#include <sys/random.h>
#endif

void random_bytes(void *out, size_t n)
{
    if (getentropy(out, n) != 0)
        abort();
}

uint64_t random_u64(void)
{
    uint64_t v;
    random_bytes(&v, sizeof v);
    return v;
}
