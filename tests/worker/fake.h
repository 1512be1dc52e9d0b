/* A coordinator for tests: one ROUTER socket over ipc, a worker group launched as child processes,
 * and a scheduler of a few lines.  Any failure is a failed assertion of the test. */
#ifndef TESTS_WORKER_FAKE_H
#define TESTS_WORKER_FAKE_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/wire/worker_msg.h"

enum { FAKE_PATIENCE_MS = 300000 }; /* for what must come; generous, machines are shared */
enum { FAKE_BLOCK_LEN = 8 };
enum { FAKE_BEAT_MS = 100, FAKE_LEASE_MS = 60000 };

struct fake {
    void *ctx, *router;
    char dir[64], endpoint[128], log[128];
    pid_t child;
    int alive; /* reading end of a pipe that the child holds open */
    int world;
    struct wire_mem rx, tx;
    uint8_t id[255];
    size_t n_id;
    struct worker_hello hello; /* strings are not kept */
    uint64_t epoch, step_id;
    int n_heartbeats; /* received */
};

/* One stream of tokens. */
struct fake_stream {
    uint64_t seq_id;
    struct sample_params sp;
    const int32_t *prompt;
    uint32_t n_prompt, n_new;
    const int32_t *stop_ids;
    uint32_t n_stop_ids;
    const struct logit_bias *bias;
    uint32_t n_bias;
    bool forced;              /* prompt, then `prompt + n_prompt` on instead of what was sampled */
    struct result_token *out; /* [n_new] */
    /* state */
    uint32_t len, n_out, n_blocks;
};

void fake_open(struct fake *f);
/* args: NULL-terminated further options of ingot-worker. */
void fake_launch(struct fake *f, int world, const char *model, const char *const *args);
/* Two ranks with options of their own. */
void fake_launch_mixed(struct fake *f, const char *model, const char *const *args0,
                       const char *const *args1);
/* Ends what is left of the group and removes the directory. */
void fake_close(struct fake *f);

/* Waits for Hello, answers Welcome. */
void fake_join(struct fake *f, uint32_t heartbeat_ms, uint32_t lease_ms);

/* A tiny random model of the repository: 104 tokens, 8 heads, 128 positions. */
const char *fake_tiny_model(void);
/* Sizes for small models. */
extern const char *const fake_small_args[];
/* fake_open, fake_launch with fake_small_args and that --coll, fake_join. */
void fake_start(struct fake *f, int world, const char *model, const char *coll, uint32_t lease_ms);
/* Asks the group to end, sees that all of it does, and closes. */
void fake_shut_down(struct fake *f);

void fake_send(struct fake *f, const struct worker_msg *m);
void fake_send_bytes(struct fake *f, const void *data, size_t n);
/* Ends the connection; what was sent before arrives. */
void fake_hang_up(struct fake *f);
/* Next message of that type; heartbeats are answered and counted, anything else fails the test. */
void fake_await(struct fake *f, enum worker_type type, struct worker_msg *m);
/* Does nothing but answer heartbeats until n more have come. */
void fake_heartbeats(struct fake *f, int n);

/* Runs all streams to their end, chunk prompt tokens a step at most for each. */
void fake_generate(struct fake *f, struct fake_stream *s, int n, uint32_t chunk);

/* Waits for the child's end with that exit code (128 + signal when one killed it). */
void fake_check_exit(struct fake *f, int code);
/* Waits for the child's end with any exit code but 0. */
void fake_check_killed(struct fake *f);
/* Pids of this group's worker processes, by their command line; Linux only, else 0. */
int fake_ranks(const struct fake *f, pid_t *pids, int max);
/* The rank of such a process, from its environment; -1 when it cannot be told. */
int fake_rank_of(pid_t pid);
/* Waits until none of them is left. */
void fake_all_gone(const struct fake *f);
/* Does the group's log say that? */
bool fake_logged(const struct fake *f, const char *text);

#endif
