/* The numerics id: a short printable text that names everything beside model and request that decides
 * the bits of an answer.  Two groups may continue each other's sequences only where their ids are
 * equal and strict.  What must not be in it, because it changes no bit: the CPU's instruction set
 * (tests/ops/digests.txt holds one set of bits for all), threads, batch sizes, graphs, collectives.
 *
 *   2/cpu/strict/a8/kv-f16/tp1.2.4.8
 *   | |   |      |  |      the class of rank counts: 1, 2, 4 and 8 give the same bits; tp3, tp16, ...
 *   | |   |      |  type of the KV cache; on the CPU kv-i8-a16: int8 entries meet queries and weights of
 *   | |   |      |  16 bits (backends/cpu/kernels.h)
 *   | |   |      activations: a8, quantised to 8 bits where they meet quantised weights; besides,
 *   | |   |      a8-bf16 and a8-bf16-tiles, rounded where they meet BF16 weights, in two orders of
 *   | |   |      sums (backends/cpu/bf16.h); with "-order" behind it, quantised too where the index
 *   | |   |      of a GPTQ or compressed-tensors model has columns in any order; ac, as the
 *   | |   |      checkpoint's scheme has them; aw, rounded to the weights' type, to f16 where they meet
 *   | |   |      e4m3, NVFP4, nf4 and fp4 weights; aw-f32, in f32 where they meet these
 *   | |   strict or fast; fast promises no bits and is equal to nothing, itself included
 *   | backend
 *   NUMERIC_CONTRACT
 *
 * and for a GPU one more part, compute capability, kind of instruction and version of the backend's own
 * orders: "/sm90-mma2"; for Metal the order of its products, "/chains3" or "/matrices4". */
#ifndef WORKER_NUMERICS_H
#define WORKER_NUMERICS_H

#include <stdbool.h>

#include "backends/backend.h"
#include "common/dtype.h"
#include "common/wire/worker_msg.h"

/* Raise it with every change of a build that changes a bit of any answer: the order of a sum, a
 * rounding, an approximation, what a KV entry holds, how a token is drawn.  tests/ops/digests.txt or
 * tests/golden change then, too. */
enum { NUMERIC_CONTRACT = 2 };

struct numerics_facts {
    const char *backend; /* "cpu" */
    bool fast;
    bool checkpoint; /* --activations checkpoint */
    bool sorted;     /* columns are sorted by group: int_sorted of the model */
    /* of the CPU, not AUTO; F32 for a model without BF16 matrices */
    enum activations activations;
    bool
        scaled_f32; /* of CUDA: matrices of e4m3 or floats of 4 bits meet f32; false for a model without them */
    enum dtype kv;
    int world;          /* ranks */
    const char *matrix; /* backend_info.matrix; "": none */
};

void numerics_id(const struct numerics_facts *n, char out[NUMERICS_ID_SIZE]);

#endif
