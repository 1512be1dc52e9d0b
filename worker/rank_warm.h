/* A rank's first steps, before there are requests: what a step touches for the first time (pages of the KV cache and
 * of scratch memory, code of kernels, threads, connections of collectives) costs the start that time, and not the first
 * request, nor what the scheduler learns from it. */
#ifndef WORKER_RANK_WARM_H
#define WORKER_RANK_WARM_H

#include "worker/rank_step.h"

enum { WARM_TOKENS = 8 }; /* prompt tokens of the made-up sequence, where sizes allow as many */

/* Runs two steps of a made-up sequence: its prompt, then a decode of the token that the device drew; the prompt alone
 * where the model gives embeddings only or the context has one token.  Waits for the device and forgets the sequence: no
 * sequence is open then and no step runs.  What stays in KV blocks [0, WARM_TOKENS] at most is overwritten before it
 * is read, as in any block that is used again.  Collective: all ranks, before any plan.
 * ST_DEVICE, ST_PEER, ST_TIMEOUT, ...: what the step gave, the text names the first steps. */
MUST_CHECK enum status rank_warm_up(struct rank_step *r);

#endif
