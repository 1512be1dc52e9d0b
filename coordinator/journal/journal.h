/* The journal: everything that the scheduler was told and what came out, so that a run can be
 * repeated offline, step by step (replay.h, ingot-journal).  The coordinator's loop calls one
 * function after each call of the scheduler, in the same order, and journal_flush at the end of
 * each turn.
 *
 * Files DIR/NAME-00000001.journal, ...; when one is full the next begins with the scheduler's whole
 * state, so that each file can be replayed alone; the oldest are deleted.  Prompts and answers are
 * in them in clear, unless content is JOURNAL_NO_CONTENT: they are readable by their owner only.  Of a tenant the salt is in them, a
 * digest under a key of the coordinator's process.
 *
 * When a file cannot be written (disk full) the journal says so once in the log, counts the records
 * that it did not write, and tries to begin another file, with the whole state, once a second.  What
 * that means for new requests is the caller's decision (journal_may_admit).  All functions take NULL: no
 * journal.  A flush is one write().  One thread. */
#ifndef COORDINATOR_JOURNAL_JOURNAL_H
#define COORDINATOR_JOURNAL_JOURNAL_H

#include "coordinator/journal/recover.h"
#include "coordinator/sched/fleet.h"

struct journal;

enum journal_sync {
    JOURNAL_BATCH, /* written before Accepted; on the disk within a second */
    JOURNAL_EACH,  /* on the disk before Accepted */
    JOURNAL_NONE,  /* written; a journal that cannot be written stops nothing */
};

enum journal_content {
    JOURNAL_ALL_CONTENT,
    JOURNAL_NO_CONTENT, /* hashes instead of tokens (blind.h), no admissions: nothing can be computed again */
};

struct journal_config {
    const char *dir;         /* made when it is not there; NULL = no journal */
    const char *name;        /* file name before the number; letters, digits, - and _ */
    uint64_t max_file_bytes; /* of one file; at least twice the state it begins with */
    struct journal_bounds bounds;
    enum journal_sync sync;
    enum journal_content content;
};

struct journal_stats {
    bool on;            /* false: none was asked for, it has not begun, or it cannot be written */
    uint64_t n_records; /* written or in the buffer */
    uint64_t n_bytes;
    uint32_t n_files; /* begun */
    uint64_t n_lost;  /* records that were not written */
    char why[160];    /* not on: the reason */
};

/* Whose calls are recorded: one scheduler, or a fleet.  The other one is NULL. */
struct journal_source {
    const struct sched *sched;
    const struct fleet *fleet;
};

struct admission; /* a request that has not ended; each file begins with these */

/* Takes the folder.  *out = NULL when cfg->dir is NULL.  ST_RANGE, ST_NOMEM, ST_IO. */
MUST_CHECK enum status journal_open(struct journal **out, const struct journal_config *cfg);
/* The requests of the processes before that had not ended or ended lately; the caller frees it with recovered_free.
 * Before journal_begin.  *out = NULL without content: they do not go on. */
MUST_CHECK enum status journal_recover(struct journal *j, struct recovered **out);
/* Begins the first file.  from: newly created from sc.  ST_NOMEM.  A file that cannot be written is no error. */
MUST_CHECK enum status journal_begin(struct journal *j, const struct journal_source *from,
                                     const struct sched_config *sc, uint64_t now_us);
/* Writes what is left. */
void journal_close(struct journal *j);

/* May a new request be answered with Accepted?  Not while the journal cannot be written, unless sync is none. */
bool journal_may_admit(const struct journal *j);
/* Before the submits of its samples.  *out: for journal_ended; NULL when there is no journal.  ST_NOMEM. */
MUST_CHECK enum status journal_admit(struct journal *j, const struct journal_admission *a,
                                     struct admission **out);
/* Keeps a request of a process before, which is not yet taken again, for the files to come. */
MUST_CHECK enum status journal_carry(struct journal *j, const struct journal_admission *a,
                                     struct admission **out);
/* The request has ended, or was admitted again: it is not written into further files. */
void journal_ended(struct journal *j, struct admission *a);
void journal_served(struct journal *j, const struct journal_served *s);

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

/* Hands the buffer to the operating system, and with JOURNAL_EACH waits for the disk when a request was admitted; begins
 * a new file when this one is full, or older than a quarter of the greatest age.  from: in the state after the last call above.  false: requests that
 * were admitted since the last flush are not durable and must be refused. */
MUST_CHECK bool journal_flush(struct journal *j, const struct journal_source *from,
                              uint64_t now_us);

void journal_stats(const struct journal *j, struct journal_stats *out);
/* Whether requests outlive the process: "batch", "each", or "not durable: " and the reason.  Gives out. */
const char *journal_text(const struct journal *j, char *out, size_t size);

#endif
