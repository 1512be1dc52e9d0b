/* The journal's file format, version 10.  A file is the 8 bytes JOURNAL_MAGIC and records: u32 type + 256 x the number
 * of the scheduler, u32 n, u64 seal, n bytes.  The checks of the records are a chain: each is a hash over the one before it, the record's type and
 * its bytes.  The upper half of the seal is a hash over the check before, type and n, so that a changed length is not
 * taken for the file's end; the lower half is that of the record's own check.  So a changed, lost or moved record is
 * seen.  All numbers are little-endian.
 *
 * header:  u32 version (1: the logit bias came behind the penalties, stop strings ended before
 *          min_new), u64 wall clock (us since 1970), text build, sched_config, u64 the last check of the
 *          file before this one (0: the process began with this file), u64 now_us at that time, u32 number of states
 *          that follow, u32 content: 0, or 1: hashes instead of tokens (blind.h), no biases, grammars' sources and
 *          log probabilities, no admit records
 * live:    one per live sequence of the next state's scheduler: request, its known tokens
 * state:   u32 number of live records before it, u32 whether its group is open, then sched_save's bytes
 * admit:   a request that was taken, before the submits of its samples; after the states those that had not ended:
 *          struct journal_admission
 * served:  with what the answers are computed: struct journal_served
 * submit:  request
 * cancel:  u64 seq_id, u32 finish_reason
 * plan:    u64 now_us, u32 made, and when made: u64 step_id, u64 epoch, u32 n_seqs, u32 n_tokens,
 *          u64 plan_digest; effects
 * commit:  u64 step_id, u64 epoch, u64 compute_us, u64 comm_us, u32 n, n x {u64 seq_id, u32 token,
 *          f32 logprob}, first the drawn tokens, then the scored ones, then the forced ones; u32 n, n x {u64 seq_id, u64 digest
 *          of the embedding}; effects
 * reset:   u32 new_n_blocks; effects
 * open:    u32 n_blocks: the group of this scheduler serves; effects
 * close:   it serves no longer; effects
 * move:    n x {u64 seq_id, u32 from, u32 to}: fleet_move
 * end:     the process ended in good order, or went on in the next file
 * effects: u32 n_fx, u64 fx_digest
 *
 * The number that has prefix_cache has has_states as its bit 1.
 *
 * If sched_config.queue_for is not 0, the schedulers are those of a fleet (fleet.h), made from this configuration: plans
 * of scheduler 0 end what has waited too long.  If it is 0 there is only scheduler 0, which plans.
 *
 * Version 9, which is still read, has no forced tokens.
 * Version 8 has no snapshots of states.
 * Version 7 has no admit and served records, no embeddings, no now_us in its header, no
 * prefill_loss_pct (it was 2), no target_of_all and one scheduler: no numbers, no queue_for, no open, close and move.
 * Version 6 has no scores of prompts either.
 * Version 5 has no grammars either.  Version 4 begins with
 * JOURNAL_MAGIC_4, and its seals are record_check: no chain.  Version 3 has no resumed requests either.  Version 2 has no owners either.  Version 1, too, was written when steps were
 * planned by tokens only: its sched_config ends before target_itl_us, its requests have no tenant and its
 * state is the scheduler's of then. */
#ifndef COORDINATOR_JOURNAL_RECORD_H
#define COORDINATOR_JOURNAL_RECORD_H

#include "common/bytes.h"
#include "coordinator/sched/fleet.h"

#define JOURNAL_MAGIC "INGOTJ5\n"
#define JOURNAL_MAGIC_4 "INGOTJ\r\n"

enum {
    JOURNAL_VERSION = 10,
    RECORD_HEAD = 16,
    MAX_LABEL = 64,
    MAX_NUMERICS = 256,
    MAX_GRAMMAR_BYTES = 1 << 20,
};

enum record_type {
    REC_HEADER = 1,
    REC_LIVE,
    REC_STATE,
    REC_SUBMIT,
    REC_CANCEL,
    REC_PLAN,
    REC_COMMIT,
    REC_RESET,
    REC_END,
    REC_ADMIT,
    REC_SERVED,
    REC_OPEN,
    REC_CLOSE,
    REC_MOVE,
    REC_N
};

/* A request as its client sent it and as it was understood: enough to carry it out again. */
struct journal_admission {
    uint64_t key; /* group_id of its samples; 0: they are in no file of this process */
    uint64_t
        began_us; /* wall clock (since 1970) of its arrival, at the first coordinator that had it */
    const char *id;        /* at most MAX_LABEL bytes */
    const uint8_t *owner;  /* [SHA256_BYTES] */
    const uint8_t *tenant; /* [n_tenant] */
    uint32_t n_tenant, n_samples;
    const uint8_t *accepted; /* [n_accepted] the frame of its Accepted */
    const uint8_t *request;  /* [n_request] the frame of its Generate, without `resume` */
    uint32_t n_accepted, n_request;
};

/* What decides the bits of all answers. */
struct journal_served {
    bool has_text, has_weights;
    uint8_t text[SHA256_BYTES], weights[SHA256_BYTES];
    char numerics[MAX_NUMERICS];
};

enum { RECORD_SCHED_SHIFT = 8 };
/* The type field of a record about scheduler g. */
static inline uint32_t record_type(enum record_type kind, uint32_t g)
{
    return (uint32_t)kind | g << RECORD_SCHED_SHIFT;
}

/* Of version 4 and below. */
uint64_t record_check(uint64_t number, uint32_t type, const void *data, size_t n);

/* The first check of a file, before its first record. */
#define CHAIN_START UINT64_C(0x1f83d9abfb41bd6b)
/* The check of a record after the check before. */
uint64_t record_chain(uint64_t before, uint32_t type, const void *data, size_t n);
/* The upper half of the seal. */
uint32_t record_head_check(uint64_t before, uint32_t type, uint32_t n);
/* The whole seal; *chain goes on to this record's check. */
uint64_t record_seal(uint64_t *chain, uint32_t type, const void *data, size_t n);

/* At most max_bytes of it. */
void put_text(struct byte_writer *w, const char *text, size_t max_bytes);
/* At most cap - 1 bytes and no NUL inside; else r->bad. */
void get_text(struct byte_reader *r, char *out, size_t cap);

void put_config(struct byte_writer *w, const struct sched_config *c);
struct sched_config get_config(struct byte_reader *r, uint32_t version);

/* All of a request but its arrays' places; n_known tokens. */
void put_request(struct byte_writer *w, const struct sched_req *q, uint32_t n_known);

/* The numbers of a request; the arrays follow in r: n_known tokens, stop ids, biases,
 * the grammar's source (borrowed from r by get_grammar). */
void get_request(struct byte_reader *r, uint32_t version, struct sched_req *q,
                 char label[MAX_LABEL + 1], uint8_t owner[SHA256_BYTES], uint32_t *n_known);

void get_grammar(struct byte_reader *r, struct sched_req *q);

size_t admission_bytes(const struct journal_admission *a);
void put_admission(struct byte_writer *w, const struct journal_admission *a);
/* Its pointers are borrowed from r but for id, which is at `id`. */
void get_admission(struct byte_reader *r, struct journal_admission *a, char id[MAX_LABEL + 1]);
void put_served(struct byte_writer *w, const struct journal_served *s);
void get_served(struct byte_reader *r, struct journal_served *s);

/* Over all that a plan says; pointers and padding do not count. */
uint64_t plan_digest(const struct step_plan *p);
uint64_t fx_digest(const struct sched_effect *fx, size_t n);

#endif
