/* The memory that kernels reach by global addresses: regions that the test program has declared, each
 * with a state for every byte.  Addresses are those of this process.  One thread. */
#ifndef TESTS_PTX_PTX_MEMORY_H
#define TESTS_PTX_PTX_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ptx_race.h"

/* Of a byte of any memory. */
enum ptx_byte {
    PTX_UNDEFINED, /* never written */
    PTX_DEFINED,
    PTX_OUTSIDE, /* of no variable */
    PTX_PENDING  /* a cp.async that its thread has not waited for writes it */
};

struct ptx_region {
    uint8_t *at;
    size_t bytes;
    uint8_t *state; /* [bytes] enum ptx_byte; NULL: the host writes it too, all is defined */
    struct ptx_mark **marks; /* see ptx_race.h */
};

struct ptx_memory {
    struct ptx_region *region; /* by address */
    size_t n, recent;          /* recent: the one that was found last */
};

/* [at, at + bytes) becomes a region, undefined (tracked) or of unknown contents that count as
 * defined. */
MUST_CHECK enum status ptx_memory_add(struct ptx_memory *m, void *at, size_t bytes, bool tracked);
/* ST_NOT_FOUND: no region begins at `at`. */
MUST_CHECK enum status ptx_memory_remove(struct ptx_memory *m, const void *at);
void ptx_memory_fini(struct ptx_memory *m);

/* The region that [address, address + n) is in; NULL: none. */
struct ptx_region *ptx_memory_find(struct ptx_memory *m, uint64_t address, size_t n);

/* The host writes n bytes. */
void ptx_memory_define(struct ptx_memory *m, const void *at, size_t n);
/* n bytes count as never written. */
void ptx_memory_forget(struct ptx_memory *m, const void *at, size_t n);
/* The host copies n bytes: dst has the state of src, which may be memory of the host. */
void ptx_memory_copy_state(struct ptx_memory *m, const void *dst, const void *src, size_t n);
/* The host reads n bytes: ST_BUG names the first undefined one. */
MUST_CHECK enum status ptx_memory_check(struct ptx_memory *m, const void *at, size_t n);

#endif
