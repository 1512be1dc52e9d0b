/* Finds NCCL with dlopen, so that a binary starts without it, and checks its version.  Called when
 * the "nccl" collective opens. */
#include <dlfcn.h>
#include <string.h>

#include "collectives/nccl_api.h"

static const char library[] = "libnccl.so.2";

static enum status find(void *lib, const char *name, void *out)
{
    void *p = dlsym(lib, name);
    if (!p)
        FAIL(ST_UNSUPPORTED, "nccl: %s has no %s", library, name);
    memcpy(out, &p, sizeof p); /* ISO C has no cast from an object's address to a function's */
    return ST_OK;
}

enum status nccl_load(struct nccl_api *out)
{
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        FAIL(ST_UNSUPPORTED, "nccl: %s", dlerror());
#define NCCL_FIND(name) TRY(find(lib, "nccl" #name, &out->name));
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
    ncclResult_t r = out->GetVersion(&out->version);
    if (r != ncclSuccess)
        FAIL(ST_UNSUPPORTED, "nccl: %s: %s", library, out->GetErrorString(r));
    if (out->version < NCCL_VERSION_CODE)
        FAIL(ST_UNSUPPORTED, "nccl: %s is version %d, needed is %d or newer", library, out->version,
             NCCL_VERSION_CODE);
    return ST_OK;
}
