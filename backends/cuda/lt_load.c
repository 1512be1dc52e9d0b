/* Finds cuBLASLt with dlopen when numerics "fast" is asked for, so that a binary starts without it.
 * Called by lt_open; the emulator has a version of its own. */
#include <dlfcn.h>
#include <string.h>

#include "backends/cuda/lt_api.h"

#define TEXT_OF(x) #x
#define NUMBER_TEXT(x) TEXT_OF(x)

/* The major version that this file was compiled against, no other. */
static const char library[] = "libcublasLt.so." NUMBER_TEXT(CUBLAS_VER_MAJOR);

static enum status find(void *lib, const char *name, void *out)
{
    void *p = dlsym(lib, name);
    if (!p)
        FAIL(ST_UNSUPPORTED, "--numerics fast: %s has no %s", library, name);
    memcpy(out, &p, sizeof p); /* ISO C has no cast from an object's address to a function's */
    return ST_OK;
}

enum status lt_load(struct lt_api *out)
{
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        FAIL(ST_UNSUPPORTED, "--numerics fast needs cuBLASLt: %s", dlerror());
#define LT_FIND(name) TRY(find(lib, "cublasLt" #name, &out->name));
    LT_FUNCTIONS(LT_FIND)
    return ST_OK;
}
