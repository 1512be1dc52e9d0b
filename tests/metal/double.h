/* A double of Metal for tests: the classes that backends/metal uses, made through GNU's Objective-C
 * runtime, on this machine's processor.  Kernels run on the fiber emulator (tests/emulator) when the
 * host waits for their command buffer or asks for its status a second time, never before.
 *
 * It is strict.  Wrong uses are errors with a text; an error ends the process, unless a test catches
 * it:
 *   objects   a selector that the class has not; a message to a released object; a release too many;
 *             an autoreleased object without a pool
 *   encoders  commit while one is open, two open at once, use after endEncoding, release while open,
 *             an encoder of a committed buffer, a dispatch without pipeline
 *   commands  committed twice, waited for before commit
 *   arguments an argument that is not bound, bytes of another size than the kernel's struct or more
 *             than 4 KiB, an offset beyond the buffer or not aligned to the kernel's elements
 *   buffers   longer than maxBufferLength (no object is made); written by a kernel beyond the end;
 *             written by the host while a command buffer that uses them is under way (when checked);
 *             made when all should have been (when sealed), pipelines and libraries, too; over memory of
 *             the caller's: an address or a length that is no multiple of a page, memory that is not
 *             mapped, or that has changed or gone when a command uses it or the buffer is released,
 *             a block to free it
 *   kernels   no threads, more than the pipeline's, a number that is no multiple of 32, more than
 *             32 KiB of threadgroup memory, a barrier or an exchange that not all threads reach, an
 *             exchange on a GPU before family Apple6, which has none, an
 *             address that is not aligned to its type (the process ends by a trap)
 *   archives  a pipeline that is added twice, or is in the archive already; a file of another system
 *             or GPU; an option that is not known
 * An archive is a file with names of kernels and a digest; one that is damaged is an NSError.
 * Threads of a group run in an order of the seed; threadgroup memory begins as NaNs.  Simdgroup matrices
 * have another layout and another order of sums for each seed of theirs.
 *
 * For a worker the environment's INGOT_METAL_STRICT=1 asks for both checks that need asking; its
 * device is sealed by the first commit.  INGOT_EMULATE_MAX_BUFFER, INGOT_EMULATE_WORKING_SET (bytes) and
 * INGOT_EMULATE_FAMILY are its limits and its family.  INGOT_METAL_FAIL names a file: when it is there, the next command
 * buffer with the kernel that it names ends with an error, and the file goes. */
#ifndef TESTS_METAL_DOUBLE_H
#define TESTS_METAL_DOUBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0: in order; else threads and groups run in an order of the seed.  At first that of the environment's
 * INGOT_EMULATE_SEED. */
void metal_double_seed(uint64_t seed);

/* Which lane has which element of a simdgroup matrix, and in which order the terms of a product are
 * added: a device has one of each.  At first that of the environment's INGOT_EMULATE_MATRICES, else 0. */
void metal_double_matrices(uint64_t seed);
uint64_t metal_double_matrices_seed(void);

/* The order of those terms depends on the row of the matrix, or on the numbers of the column beside it: both
 * break the contract. */
enum metal_double_break { MATRICES_KEEP, MATRICES_BY_ROW, MATRICES_BY_COLUMN };
void metal_double_break_matrices(enum metal_double_break how);
enum metal_double_break metal_double_matrices_broken(void);

/* Errors are kept for metal_double_error instead of ending the process. */
void metal_double_catch(bool on);
/* The first error since the last call, NULL: none; valid until the next call. */
const char *metal_double_error(void);

/* Bytes of the largest buffer, and of all. */
void metal_double_limits(size_t max_buffer, size_t working_set);

/* MTLGPUFamily of the device, 1007 by default; 0: there is no device. */
void metal_double_family(long family);

/* Of pipelines: threads of a simdgroup, 32 by default, and of a group at most, 256 by default: the
 * fewest that the backend takes. */
void metal_double_pipelines(unsigned long width, unsigned long threads);

/* The same of kernels of matrices: threads of a group at most. */
void metal_double_matrix_threads(unsigned long threads);

/* A system before macOS 15, whose options have no setMathMode:. */
void metal_double_without_math_mode(bool on);

/* The next command buffer with that kernel ends with an error; NULL: none does. */
void metal_double_fail(const char *kernel);

/* Looks whether the host writes buffers that are in use. */
void metal_double_check_writes(bool on);

/* A buffer, library or pipeline that is made from now on is an error. */
void metal_double_seal(bool on);

/* Objects that have not been released, without those of pools. */
size_t metal_double_live(void);
/* Buffers among these. */
size_t metal_double_buffers(void);
/* Bytes of all buffers. */
size_t metal_double_allocated(void);
/* Command buffers that have run, and dispatches of them. */
uint64_t metal_double_commands(void);
uint64_t metal_double_dispatches(void);

/* Pipelines that have been made; kernels that have been compiled for them or for an archive; pipelines
 * that were in the file of an archive. */
uint64_t metal_double_pipelines_made(void);
uint64_t metal_double_compiled(void);
uint64_t metal_double_taken(void);

/* What the system says of its version. */
void metal_double_os_build(const char *build);

/* Archives take no pipeline and give none. */
void metal_double_refuse_archives(bool on);

/* "@QQ" of a selector of any class: result and arguments; NULL: no class has it. */
const char *metal_double_signature(const char *selector);

#ifdef __cplusplus
}
#endif

#endif
