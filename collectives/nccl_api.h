/* The functions of NCCL that are used, found at run time; names without their prefix. */
#ifndef COLLECTIVES_NCCL_API_H
#define COLLECTIVES_NCCL_API_H

#include <nccl.h>

#include "common/status.h"

#define NCCL_FUNCTIONS(X)                                                                          \
    X(GetVersion)                                                                                  \
    X(GetUniqueId)                                                                                 \
    X(GetErrorString)                                                                              \
    X(GetLastError)                                                                                \
    X(CommInitRankConfig)                                                                          \
    X(CommGetAsyncError)                                                                           \
    X(CommFinalize)                                                                                \
    X(CommDestroy)                                                                                 \
    X(CommAbort)                                                                                   \
    X(AllReduce)                                                                                   \
    X(AllGather)                                                                                   \
    X(Broadcast)                                                                                   \
    X(Send)                                                                                        \
    X(Recv)                                                                                        \
    X(GroupStart)                                                                                  \
    X(GroupEnd)

struct nccl_api {
#define NCCL_MEMBER(name) __typeof__(nccl##name) *name;
    NCCL_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
    int version; /* of the library that was found: 22809 = 2.28.9 */
};

/* Opens libnccl.so.2, which stays loaded as long as the process lives.  ST_UNSUPPORTED names the
 * library, the function that it lacks, or a version older than the header's (the configuration of a
 * communicator grows from version to version). */
MUST_CHECK enum status nccl_load(struct nccl_api *out);

#endif
