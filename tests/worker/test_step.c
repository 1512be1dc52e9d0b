/* Steps: what a plan uploads, what is refused and that a refused plan changes nothing. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/rng.h"
#include "worker/step/id_map.h"
#include "worker/step_draft.h"

static void apply(struct draft *d, struct step_dev *dev)
{
    cr_assert_eq(step_apply(step, &d->p, dev), ST_OK, "%s", status_text());
    cr_assert_eq(step_upload(step), ST_OK, "%s", status_text());
}

static void check_words(struct view v, const int32_t *expected, size_t n, const char *what)
{
    int32_t got[256];
    cr_assert_eq((size_t)v.rows * (size_t)v.cols, n, "%s has %d x %d", what, v.rows, v.cols);
    cr_assert_eq(backend_ops_of(be)->read(be, got, v), ST_OK);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(got[i], expected[i], "%s[%zu] = %d, expected %d", what, i, got[i],
                     expected[i]);
}

#define CHECK(view, ...)                                                                           \
    check_words((view), (const int32_t[]){__VA_ARGS__},                                            \
                sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t), #view)

Test(step, arrays_of_two_sequences, .init = set_up, .fini = tear_down)
{
    struct step_dev dev;
    struct draft *d = fresh();
    add_open(d, 70, 6);
    add_open(d, 71, 2);
    add_seq(d, 70, 0, 6, 10, 2, 5, WANT_LAST);
    add_seq(d, 71, 4, 3, 20, 2, 9, WANT_NONE); /* begins in a shared prefix of one block */
    apply(d, &dev);
    cr_assert(dev.n_tokens == 9 && dev.n_seqs == 2 && dev.max_q == 6 && dev.max_kv == 7);
    cr_assert_eq(dev.block_len, BLOCK);
    CHECK(dev.token, 10, 11, 12, 13, 14, 15, 20, 21, 22);
    CHECK(dev.pos, 0, 1, 2, 3, 4, 5, 4, 5, 6);
    CHECK(dev.slot, 20, 21, 22, 23, 24, 25, 40, 41, 42);
    CHECK(dev.seq, 0, 0, 0, 0, 0, 0, 1, 1, 1);
    CHECK(dev.q_start, 0, 6, 9);
    CHECK(dev.kv_len, 6, 7);
    CHECK(dev.out_row, 5);
    cr_assert_eq(step_n_out(step), 1);
    cr_assert_eq(step_seq(step, step_out_slot(step, 0))->seq_id, 70);

    d = fresh(); /* in another order, with a new block for one of them */
    add_seq(d, 71, 7, 2, 30, 1, 15, WANT_LAST);
    add_seq(d, 70, 6, 1, 16, 0, 0, WANT_LAST);
    apply(d, &dev);
    CHECK(dev.slot, 43, 60, 26);
    CHECK(dev.out_row, 1, 2);
    CHECK(dev.kv_len, 9, 7);
    int32_t table[2 * 8];
    cr_assert_eq(dev.block_table.cols, (CTX + BLOCK - 1) / BLOCK);
    cr_assert_eq(backend_ops_of(be)->read(be, table, dev.block_table), ST_OK);
    cr_assert(table[0] == 9 && table[1] == 10 && table[2] == 15 && table[8] == 5 && table[9] == 6);
}

Test(step, a_plan_may_be_empty, .init = set_up, .fini = tear_down)
{
    struct step_dev dev;
    struct draft *d = fresh();
    add_open(d, 70, 2);
    add_seq(d, 70, 0, 2, 10, 1, 5, WANT_LAST);
    apply(d, &dev);
    d = fresh();
    add_close(d, 70);
    apply(d, &dev);
    cr_assert(dev.n_tokens == 0 && dev.n_seqs == 0 && step_n_out(step) == 0);
    cr_assert_eq(step_find(step, 70), -1);
}

Test(step, slots_are_used_again, .init = set_up, .fini = tear_down)
{
    struct step_dev dev;
    for (uint64_t id = 1; id < 5000;
         id++) { /* closes and opens in one plan, when all slots are taken */
        struct draft *d = fresh();
        if (id > SEQS)
            add_close(d, id - SEQS);
        add_open(d, id, 1);
        add_seq(d, id, 0, 1, 3, 1, (int32_t)(id % N_BLOCKS), WANT_LAST);
        apply(d, &dev);
        cr_assert(step_find(step, id) >= 0 && step_find(step, id) < SEQS);
    }
}

Test(step, the_same_id_closes_and_opens_in_one_plan, .init = set_up, .fini = tear_down)
{
    struct step_dev dev;
    struct draft *d = fresh();
    add_open(d, 70, 2);
    add_seq(d, 70, 0, 2, 10, 1, 5, WANT_NONE);
    apply(d, &dev);
    d = fresh(); /* preempted and begun anew */
    add_close(d, 70);
    add_open(d, 70, 2);
    add_seq(d, 70, 0, 3, 10, 1, 8, WANT_LAST);
    apply(d, &dev);
    CHECK(dev.slot, 32, 33, 34);
    CHECK(dev.pos, 0, 1, 2);
}

/* The plan is refused with that text, and a good one after it works as if it had not been. */
static void refused(struct draft *d, const char *text)
{
    struct step_dev dev;
    enum status st = step_apply(step, &d->p, &dev);
    cr_assert_eq(st, ST_PEER, "expected \"%s\", got %s", text, status_name(st));
    cr_assert(strstr(status_text(), text), "\"%s\" does not say \"%s\"", status_text(), text);
    const struct step_seq *seq = step_seq(step, step_find(step, 70));
    cr_assert(seq->len == 6 && seq->n_blocks == 2 && step_find(step, 71) == -1);
}

/* Sequence 70 with 6 tokens in two blocks is open; 71 is opened by the plan. */
static struct draft *next_plan(void)
{
    struct draft *d = fresh();
    add_open(d, 71, 3);
    add_seq(d, 71, 0, 3, 20, 1, 9, WANT_LAST);
    add_seq(d, 70, 6, 1, 16, 0, 0, WANT_LAST);
    return d;
}

Test(step, refusals_name_what_is_wrong, .init = set_up, .fini = tear_down)
{
    struct step_dev dev;
    struct draft *d = fresh();
    add_open(d, 70, 6);
    add_seq(d, 70, 0, 6, 10, 2, 5, WANT_LAST);
    apply(d, &dev);

#define REFUSED(text, ...)                                                                         \
    do {                                                                                           \
        d = next_plan();                                                                           \
        __VA_ARGS__;                                                                               \
        refused(d, text);                                                                          \
    } while (0)

    REFUSED("sequence 72 is not known", d->seqs[1].seq_id = 72);
    REFUSED("sequence 71 is not known", d->p.n_opens = 0);
    REFUSED("sequence 70: position 5, it has 6 tokens", d->seqs[1].pos = 5);
    REFUSED("sequence 70: position 7, it has 6 tokens", d->seqs[1].pos = 7);
    REFUSED("sequence 70: no tokens", (d->seqs[1].n_tokens = 0, d->p.n_tokens = 3));
    REFUSED("sequence 71 is twice in the step", d->seqs[1].seq_id = 71);
    REFUSED("sequence 70 is twice in the step",
            (d->p.n_opens = 0, d->seqs[0].seq_id = 70, d->seqs[0].pos = 6));
    REFUSED("token id 50 is outside the vocabulary of 50", d->tokens[3] = VOCAB);
    REFUSED("token id -2", d->tokens[3] = -2);
    REFUSED("sequence 70: a token of the last step, which did not sample it",
            d->tokens[3] = TOKEN_OF_LAST_STEP); /* refused plans were in between */
    REFUSED("sequence 71: a token of the last step, which did not sample it",
            d->tokens[0] = TOKEN_OF_LAST_STEP);
    REFUSED("block 20 of 20", d->blocks[0] = N_BLOCKS);
    REFUSED("block -1 of 20", d->blocks[0] = -1);
    REFUSED("sequence 71: 0 blocks of 4 for 3 tokens", (d->seqs[0].n_blocks = 0));
    REFUSED("outside the context of 30", d->seqs[0].pos = 28);
    REFUSED("outside the context of 30", d->seqs[0].pos = UINT32_MAX);
    REFUSED("is opened and was open", d->opens[0].seq_id = 70);
    REFUSED("a sequence with id 0", d->opens[0].seq_id = 0);
    REFUSED("sequence 71 is opened twice", add_open(d, 71, 1));
    REFUSED("3 sequences are opened, there is room for 2 of 3",
            (add_open(d, 72, 1), add_open(d, 73, 1)));
    REFUSED("sequence 74 is closed and was not open", add_close(d, 74));
    REFUSED("sequence 70 is closed twice", (add_close(d, 70), add_close(d, 70)));
    REFUSED("sequence 70 is not known", add_close(d, 70));
    REFUSED("a prompt of 0 tokens", d->opens[0].n_prompt = 0);
    REFUSED("a prompt of 31 tokens", d->opens[0].n_prompt = CTX + 1);
    REFUSED("temperature is -1", d->opens[0].sp.temperature = -1.0f);
    REFUSED("top_p is nan", d->opens[0].sp.top_p = NAN);
    REFUSED("history [0, 0 + 1) of 0", d->opens[0].n_history = 1);
    REFUSED("biases [1, 1 + 1) of 0", (d->opens[0].bias_off = 1, d->opens[0].n_bias = 1));
    REFUSED("stop ids [0, 0 + 4294967295) of 3",
            (d->opens[0].n_stop_ids = UINT32_MAX, d->p.n_stop_ids = 3));
    REFUSED("bias id 50", (d->opens[0].n_bias = d->p.n_bias = 1, d->bias[0].id = VOCAB));
    REFUSED("bias nan of id 0 is outside",
            (d->opens[0].n_bias = d->p.n_bias = 1, d->bias[0].bias = NAN));
    REFUSED("stop id -7", (d->opens[0].n_stop_ids = d->p.n_stop_ids = 1, d->stop_ids[0] = -7));
    REFUSED("tokens [3, 3 + 2) of 4", d->seqs[1].n_tokens = 2);
    REFUSED("a step of 4 tokens, its sequences have 3",
            (d->seqs[0].n_tokens = 2)); /* a token without a sequence */
    REFUSED("blocks [0, 0 + 2) of 1", d->seqs[0].n_blocks = 2);
    REFUSED("a step of 2 sequences and 13 tokens, at most 3 and 12", d->p.n_tokens = 13);
    REFUSED("a step of 4 sequences", d->p.n_seqs = 4);
    REFUSED("a history of 2 tokens at position 4",
            (d->opens[0].sp.presence_penalty = 1.0f, d->seqs[0].pos = 4, d->seqs[0].n_blocks = 2,
             d->p.n_blocks = 2, d->opens[0].n_history = d->p.n_history = 2));

    apply(next_plan(), &dev);
    CHECK(dev.slot, 36, 37, 38, 26);
}

/* The device's own token: only of a sequence that the step before sampled on the device. */
Test(step, a_token_of_the_last_step, .init = set_up, .fini = tear_down)
{
    struct step_dev dev;
    struct draft *d = fresh();
    for (uint64_t id = 70; id < 73; id++)
        add_open(d, id, 2)->sp.temperature = 0.0f;
    d->opens[2].sp.temperature = 1.0f; /* drawn by the host */
    for (uint64_t id = 70; id < 73; id++)
        add_seq(d, id, 0, 2, 10, 1, (int32_t)id - 70, WANT_LAST);
    apply(d, &dev);
    cr_assert_not(step_feeds(step));
    CHECK(dev.from, -1, -1, -1, -1, -1, -1);

    d = fresh();
    add_seq(d, 71, 2, 1, TOKEN_OF_LAST_STEP, 0, 0, WANT_LAST);
    add_seq(d, 70, 2, 1, TOKEN_OF_LAST_STEP, 0, 0, WANT_LAST);
    add_seq(d, 72, 2, 1, 33, 0, 0, WANT_NONE);
    apply(d, &dev);
    cr_assert(step_feeds(step));
    CHECK(dev.token, 0, 0, 33);
    CHECK(dev.from, 1, 0, -1);

    d = fresh(); /* the rows are those of the last step, not of the first */
    add_seq(d, 70, 3, 1, TOKEN_OF_LAST_STEP, 0, 0, WANT_NONE);
    apply(d, &dev);
    CHECK(dev.from, 1);

    d = fresh();
    add_seq(d, 71, 3, 1, TOKEN_OF_LAST_STEP, 0, 0, WANT_LAST);
    cr_assert_eq(step_apply(step, &d->p, &dev), ST_PEER, "two steps ago");
    cr_assert(strstr(status_text(), "sequence 71: a token of the last step"), "%s", status_text());
}

Test(step, refuses_to_feed_what_the_host_draws, .init = set_up, .fini = tear_down)
{
    struct step_dev dev;
    struct draft *d = fresh();
    add_open(d, 70, 2)->sp.top_k = MAX_CANDIDATES + 1;
    add_seq(d, 70, 0, 2, 10, 1, 5, WANT_LAST);
    apply(d, &dev);
    d = fresh();
    add_seq(d, 70, 2, 1, TOKEN_OF_LAST_STEP, 0, 0, WANT_LAST);
    cr_assert_eq(step_apply(step, &d->p, &dev), ST_PEER);
    cr_assert(strstr(status_text(), "the host draws its tokens"), "%s", status_text());
    d = fresh();
    add_close(d, 70);
    add_open(d, 70, 2)->sp.temperature = 0.0f;
    add_seq(d, 70, 0, 2, 10, 1, 5, WANT_LAST);
    apply(d, &dev);
    d = fresh();
    add_seq(d, 70, 2, 2, 9, 0, 0, WANT_LAST);
    d->tokens[1] = TOKEN_OF_LAST_STEP;
    cr_assert_eq(step_apply(step, &d->p, &dev), ST_PEER);
    cr_assert(strstr(status_text(), "a token of the last step among 2"), "%s", status_text());
}

Test(step, more_blocks_than_the_context_needs, .init = set_up, .fini = tear_down)
{
    struct step_dev dev;
    struct draft *d = fresh();
    add_open(d, 70, 6);
    add_seq(d, 70, 0, 6, 10, 9, 0, WANT_LAST); /* a context of 30 has 8 blocks */
    cr_assert_eq(step_apply(step, &d->p, &dev), ST_PEER);
    cr_assert(strstr(status_text(), "9 blocks of 4 for 6 tokens"), "%s", status_text());
}

Test(step, a_reset_forgets, .init = set_up, .fini = tear_down)
{
    struct step_dev dev;
    struct draft *d = fresh();
    add_open(d, 70, 6);
    add_seq(d, 70, 0, 6, 10, 2, 5, WANT_LAST);
    apply(d, &dev);
    step_reset(step);
    cr_assert_eq(step_find(step, 70), -1);
    apply(d, &dev);
}

static void set_up_encoder(void)
{
    struct step_config with_types = small_step;
    with_types.n_types = 3;
    set_up_with(&with_types);
}

/* A plan's token is id + type * vocabulary. */
Test(step, types_of_an_encoder, .init = set_up_encoder, .fini = tear_down)
{
    struct step_dev dev;
    struct draft *d = fresh();
    add_open(d, 80, 3)->sp.embed = EMBED_WHOLE;
    add_seq(d, 80, 0, 3, 2 * VOCAB - 1, 1, 4, WANT_EMBEDDING);
    apply(d, &dev);
    CHECK(dev.token, 49, 0, 1);
    CHECK(dev.type, 1, 2, 2);
    d = fresh();
    add_open(d, 81, 3)->sp.embed = EMBED_WHOLE;
    add_seq(d, 81, 0, 3, 3 * VOCAB - 2, 1, 4, WANT_EMBEDDING);
    cr_assert_eq(step_apply(step, &d->p, &dev), ST_PEER);
    cr_assert(strstr(status_text(), "id 150 is outside the vocabulary of 50 with 3 types"), "%s",
              status_text());
}

/* All tokens of an encoder's text are in one step. */
Test(step, a_part_of_a_whole_text_is_refused, .init = set_up_encoder, .fini = tear_down)
{
    struct step_dev dev;
    const struct {
        uint32_t pos, n;
        enum plan_want want;
    } rows[] = {{0, 2, WANT_NONE}, {0, 2, WANT_EMBEDDING}, {1, 2, WANT_EMBEDDING}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct draft *d = fresh();
        add_open(d, 82, 3)->sp.embed = EMBED_WHOLE;
        add_seq(d, 82, rows[i].pos, rows[i].n, 5, 1, 4, rows[i].want);
        cr_assert_eq(step_apply(step, &d->p, &dev), ST_PEER, "case %zu", i);
    }
}

static void set_up_states(void)
{
    struct step_config with_states = small_step;
    with_states.states = true;
    with_states.n_snapshots = 4;
    set_up_with(&with_states);
}

static void check_keep(int32_t from, int32_t to)
{
    int32_t n;
    const struct step_copy *c = step_keeps(step, &n);
    cr_assert_eq(n, 1);
    cr_assert_eq(c->from, from, "from row %d", c->from);
    cr_assert_eq(c->to, to, "to row %d", c->to);
}

static void check_restore(int32_t n, int32_t from, int32_t to)
{
    int32_t got;
    const struct step_copy *c = step_restores(step, &got);
    cr_assert_eq(got, n);
    cr_assert(n == 0 || (c->from == from && c->to == to), "from row %d to row %d", c->from, c->to);
}

static void says(struct draft *d, const char *text)
{
    struct step_dev dev;
    cr_assert_eq(step_apply(step, &d->p, &dev), ST_PEER, "expected \"%s\"", text);
    cr_assert(strstr(status_text(), text), "\"%s\" does not say \"%s\"", status_text(), text);
}

/* Snapshots are behind the rows of the three sequences. */
Test(step, snapshots_of_states, .init = set_up_states, .fini = tear_down)
{
    struct step_dev dev;
    struct draft *d = fresh();
    add_open(d, 70, 4);
    add_seq(d, 70, 0, 4, 1, 1, 0, WANT_LAST)->keep = 2;
    apply(d, &dev);
    check_keep(step_find(step, 70), SEQS + 1);
    check_restore(0, 0, 0);
    d = fresh();
    add_open(d, 71, 6);
    struct plan_seq *q = add_seq(d, 71, 4, 2, 5, 2, 0, WANT_LAST);
    says(d, "sequence 71: its states begin with its first token or a snapshot, position 4 is its "
            "first");
    q->restore = 5;
    says(d, "sequence 71: position 4 is its first, with snapshot 5 of 4");
    q->restore = 2;
    q->keep = 5;
    says(d, "sequence 71: its state goes to snapshot 5 of 4");
    q->keep = 4;
    add_open(d, 72, 4);
    q = add_seq(d, 72, 0, 4, 1, 1, 3, WANT_LAST);
    q->restore = 1;
    says(d, "sequence 72: position 0 is its first, with snapshot 1 of 4");
    q->restore = 0;
    q->keep = 4;
    says(d, "sequence 72: snapshot 4 is written twice");
    q->keep = 0;
    apply(d, &dev);
    check_restore(1, SEQS + 1, step_find(step, 71));
    check_keep(step_find(step, 71), SEQS + 3);
    d = fresh();
    add_seq(d, 71, 6, 1, 5, 0, 0, WANT_LAST)->restore = 2;
    says(d, "sequence 71 is open and begins with snapshot 2");
}

Test(step, impossible_sizes)
{
    struct step_config c = small_step;
    struct step *s;
    c.max_open = 0;
    cr_assert_eq(step_create(&s, &c, NULL), ST_RANGE);
    c = small_step;
    c.n_blocks = INT32_MAX;
    cr_assert_eq(step_create(&s, &c, NULL), ST_RANGE);
    c = small_step;
    c.max_seqs = c.max_open = 1 << 24;
    c.max_ctx = 1 << 24;
    cr_assert_eq(step_create(&s, &c, NULL), ST_RANGE);
    cr_assert_null(s);
}

Test(id_map, agrees_with_a_plain_table)
{
    enum { MAX = 40, IDS = 100 };
    struct id_map m;
    int32_t plain[IDS];
    int n = 0;
    cr_assert_eq(id_map_init(&m, MAX), ST_OK);
    memset(plain, -1, sizeof plain);
    for (uint64_t i = 0; i < 200000; i++) {
        uint64_t key = 1 + (uint64_t)(rng_uniform(3, i) * (IDS - 1));
        if (plain[key] >= 0) {
            id_map_remove(&m, key);
            plain[key] = -1;
            n--;
        } else if (n < MAX) {
            plain[key] = (int32_t)(i % 1000);
            id_map_put(&m, key, plain[key]);
            n++;
        }
        uint64_t other = 1 + (uint64_t)(rng_uniform(4, i) * (IDS - 1));
        cr_assert_eq(id_map_get(&m, other), plain[other]);
    }
    id_map_clear(&m);
    for (uint64_t key = 0; key < IDS; key++)
        cr_assert_eq(id_map_get(&m, key), -1);
    id_map_fini(&m);
}
