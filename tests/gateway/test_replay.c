/* An answer that comes again, cut into any other pieces, goes on where it was; another answer is told. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client/gateway/replay.h"

#define TEXT "h\xc3\xa9llo, this is the text of an answer that comes twice"
enum { N_IDS = 20 };

static struct replay *r;
static char got[256];
static int32_t got_ids[64];
static size_t n_got, n_got_ids;
static int32_t ids[N_IDS];
static float logprobs[N_IDS];

static void set_up(void)
{
    r = replay_create();
    cr_assert(r);
    n_got = n_got_ids = 0;
    for (int i = 0; i < N_IDS; i++) {
        ids[i] = 1000 * i + 7;
        logprobs[i] = (float)-i;
    }
}

static void tear_down(void)
{
    replay_destroy(r);
}

TestSuite(replay, .init = set_up, .fini = tear_down);

static enum status accepted(uint8_t first_byte, bool *pass)
{
    uint8_t digest[32] = {first_byte};
    struct ingot_event ev = {.kind = INGOT_EVENT_ACCEPTED, .prompt_digest = digest};
    return replay_take(r, &ev, pass);
}

static enum status delta(const char *text, size_t n_text, const int32_t *p, size_t n_ids)
{
    bool pass;
    struct ingot_event ev = {.kind = INGOT_EVENT_DELTA,
                             .sample = 3,
                             .text = text,
                             .n_text = n_text,
                             .ids = p,
                             .n_ids = (uint32_t)n_ids,
                             .logprobs = p ? logprobs + (p - ids) : NULL};
    enum status st = replay_take(r, &ev, &pass);
    if (st != ST_OK || !pass)
        return st;
    cr_assert(ev.n_text || ev.n_ids);
    memcpy(got + n_got, ev.text, ev.n_text);
    n_got += ev.n_text;
    for (size_t i = 0; i < ev.n_ids; i++) {
        cr_assert_eq((int)-ev.logprobs[i], (ev.ids[i] - 7) / 1000,
                     "a log probability of another token");
        got_ids[n_got_ids++] = ev.ids[i];
    }
    return ST_OK;
}

/* All of the answer up to some place, in pieces of any size. */
static void send(size_t n_text, size_t n_ids)
{
    size_t t = 0, i = 0;
    while (t < n_text || i < n_ids) {
        size_t nt = (size_t)rand() % 7, ni = (size_t)rand() % 4;
        nt = nt < n_text - t ? nt : n_text - t;
        ni = ni < n_ids - i ? ni : n_ids - i;
        cr_assert_eq(delta(TEXT + t, nt, ids + i, ni), ST_OK);
        t += nt;
        i += ni;
    }
}

static enum status finish(enum ingot_reason reason)
{
    bool pass;
    struct ingot_sample_end end = {.sample = 3, .reason = reason};
    struct ingot_event ev = {.kind = INGOT_EVENT_FINISH, .n_samples = 1, .samples = &end};
    return replay_take(r, &ev, &pass);
}

Test(replay, any_pieces_any_number_of_times)
{
    srand(1);
    for (int round = 0; round < 2000; round++) {
        bool pass;
        cr_assert(accepted(1, &pass) == ST_OK && pass);
        for (int times = rand() % 4; times; times--) {
            send((size_t)rand() % sizeof TEXT, (size_t)rand() % (N_IDS + 1));
            replay_restart(r);
            cr_assert(accepted(1, &pass) == ST_OK && !pass);
        }
        send(sizeof TEXT - 1, N_IDS);
        cr_assert_eq(finish(INGOT_REASON_EOS), ST_OK);
        cr_assert(n_got == sizeof TEXT - 1 && memcmp(got, TEXT, n_got) == 0);
        cr_assert(n_got_ids == N_IDS && memcmp(got_ids, ids, sizeof ids) == 0);
        tear_down();
        set_up();
    }
}

Test(replay, another_answer)
{
    bool pass;
    cr_assert(accepted(1, &pass) == ST_OK);
    cr_assert_eq(delta("hello", 5, ids, 2), ST_OK);
    replay_restart(r);
    cr_assert_eq(accepted(2, &pass), ST_PEER); /* of another prompt */
    replay_restart(r);
    cr_assert_eq(delta("hel", 3, NULL, 0), ST_OK);
    cr_assert_eq(delta("p me", 4, NULL, 0), ST_PEER);
    replay_restart(r);
    cr_assert_eq(delta("hello", 5, ids + 1, 2), ST_PEER);
    replay_restart(r);
    cr_assert_eq(delta("hello", 5, ids, 2), ST_OK);
    cr_assert_eq(delta(" fox", 4, NULL, 0), ST_OK);
    replay_restart(r);
    cr_assert_eq(delta("hello fo", 8, ids, 2), ST_OK);
    cr_assert_eq(finish(INGOT_REASON_CANCELLED), ST_OK); /* it was cut, and is none the worse */
    cr_assert_eq(finish(INGOT_REASON_EOS), ST_PEER);     /* it is shorter than it was */
    struct ingot_event wild = {.kind = INGOT_EVENT_DELTA, .sample = 16, .text = "", .n_text = 0};
    cr_assert_eq(replay_take(r, &wild, &pass), ST_PEER);
}
