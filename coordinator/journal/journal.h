/* The journal: everything that the scheduler was told and what came out, so that a run can be
 * repeated offline, step by step (replay.h, ingot-journal).  The coordinator's loop calls one
 * function after each call of the scheduler, in the same order, and journal_flush at the end of
 * each turn.
 *
 * Files DIR/NAME-00000001.journal, ...; when one is full the next begins with the scheduler's whole
 * state, so that each file can be replayed alone; the oldest are deleted.  Prompts and answers are
 * in them in clear: they are readable by their owner only.  Of a tenant the salt is in them, a
 * digest under a key of the coordinator's process.
 *
 * A journal never fails a request: when a file cannot be written (disk full) it says so once in the
 * log, switches itself off and counts the records that it did not write.  All functions take NULL:
 * no journal.  A flush is one write(); with sync_ms it also waits for the disk, at most that often.
 * One thread. */
#ifndef COORDINATOR_JOURNAL_JOURNAL_H
#define COORDINATOR_JOURNAL_JOURNAL_H

#include "coordinator/sched/fleet.h"

struct journal;

struct journal_config {
    const char *dir;         /* made when it is not there; NULL = no journal */
    const char *name;        /* file name before the number; letters, digits, - and _ */
    uint64_t max_file_bytes; /* of one file; at least twice the state it begins with */
    uint32_t max_files;      /* kept, the current one included; >= 1 */
    uint32_t sync_ms;        /* 0 = the operating system decides when bytes reach the disk */
};

struct journal_stats {
    bool on;            /* false: none was asked for, or it switched itself off */
    uint64_t n_records; /* written or in the buffer */
    uint64_t n_bytes;
    uint32_t n_files; /* begun */
    uint64_t n_lost;  /* records not written since it went off */
};

/* Whose calls are recorded: one scheduler, or a fleet.  The other one is NULL. */
struct journal_source {
    const struct sched *sched;
    const struct fleet *fleet;
};

/* from: newly created from sc.  *out = NULL when cfg->dir is NULL.  ST_RANGE, ST_NOMEM,
 * ST_IO. */
MUST_CHECK enum status journal_open(struct journal **out, const struct journal_config *cfg,
                                    const struct journal_source *from,
                                    const struct sched_config *sc);
/* Writes what is left. */
void journal_close(struct journal *j);

/* After sched_submit or fleet_submit gave ST_OK.  Of r->label the first MAX_LABEL bytes are kept. */
void journal_submit(struct journal *j, const struct sched_req *r);
/* After sched_cancel or fleet_cancel; why: FINISH_CANCELLED, FINISH_STOP_STRING, ... */
void journal_cancel(struct journal *j, uint64_t seq_id, enum finish_reason why);
/* After sched_plan or fleet_plan of scheduler g, whatever it returned, before the plan's arrays change.
 * g of a journal without a fleet: 0. */
void journal_plan(struct journal *j, uint32_t g, uint64_t now_us, bool made,
                  const struct step_plan *p, const struct sched_effect *fx, size_t n_fx);
/* After sched_commit or fleet_commit gave ST_OK. */
void journal_commit(struct journal *j, uint32_t g, const struct step_result *r,
                    const struct sched_effect *fx, size_t n_fx);
void journal_reset(struct journal *j, uint32_t new_n_blocks, const struct sched_effect *fx,
                   size_t n_fx);
/* After fleet_open and fleet_close. */
void journal_open_group(struct journal *j, uint32_t g, uint32_t n_blocks,
                        const struct sched_effect *fx, size_t n_fx);
void journal_close_group(struct journal *j, uint32_t g, const struct sched_effect *fx, size_t n_fx);
/* After fleet_place and fleet_balance. */
void journal_moves(struct journal *j, const struct fleet_move *moves, size_t n);

/* Hands the buffer to the operating system; begins a new file when this one is full.  from: in the
 * state after the last call above. */
void journal_flush(struct journal *j, const struct journal_source *from, uint64_t now_us);

void journal_stats(const struct journal *j, struct journal_stats *out);

#endif
