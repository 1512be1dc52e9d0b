#include "common/grammar/thinking.h"

#include <string.h>

#include "common/grammar/grammar_source.h"

/* ---- the rule ---- */

static enum status read_mark(struct json_cursor *c, const char *name, char *out, uint32_t *n)
{
    struct text_buf text = {0};
    enum status st = json_read_string(c, &text);
    bool fits = text.len >= 1 && text.len <= THINKING_MAX_MARK;
    if (st == ST_OK && fits) {
        memcpy(out, text.data, text.len);
        *n = (uint32_t)text.len;
    }
    size_t had = text.len;
    text_buf_free(&text);
    TRY(st);
    if (!fits)
        FAIL(ST_RANGE, "%s has %zu bytes: it must have 1 to %d", name, had, THINKING_MAX_MARK);
    return ST_OK;
}

static enum status read_ids(struct json_cursor *c, struct thinking_rule *rule)
{
    uint64_t id;
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        if (rule->n_close_ids == THINKING_MAX_IDS)
            FAIL(ST_RANGE, "close_ids has more than %d ids", THINKING_MAX_IDS);
        TRY(json_read_u64(c, 0, INT32_MAX, &id));
        rule->close_ids[rule->n_close_ids++] = (int32_t)id;
    }
    return ST_OK;
}

static enum status read_members(struct json_cursor *c, struct thinking_rule *rule,
                                struct json_span *answer, bool *has_budget)
{
    struct json_span key;
    uint64_t budget;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_span_is(key, "budget")) {
            TRY(json_read_u64(c, 0, UINT32_MAX, &budget));
            rule->budget = (uint32_t)budget;
            *has_budget = true;
        } else if (json_span_is(key, "open")) {
            TRY(read_mark(c, "open", rule->open, &rule->n_open));
        } else if (json_span_is(key, "close")) {
            TRY(read_mark(c, "close", rule->close, &rule->n_close));
        } else if (json_span_is(key, "close_ids")) {
            TRY(read_ids(c, rule));
        } else if (json_span_is(key, "inside")) {
            TRY(json_read_bool(c, &rule->inside));
        } else if (json_span_is(key, "anywhere")) {
            TRY(json_read_bool(c, &rule->anywhere));
        } else if (json_span_is(key, "answer")) {
            *answer = json_read_raw(c);
        } else {
            return json_fail(c, ST_FORMAT, "is no member of a budget of thinking");
        }
    }
    return ST_OK;
}

enum status thinking_read(struct thinking_rule *rule, const char *text, size_t n,
                          struct json_span *answer)
{
    struct json_limits limits = {GRAMMAR_MAX_BYTES, JSON_MAX_DEPTH};
    struct json_cursor c;
    bool has_budget = false;
    *rule = (struct thinking_rule){0};
    *answer = (struct json_span){NULL, 0};
    TRY(json_open(&c, text, n, &limits));
    TRY(read_members(&c, rule, answer, &has_budget));
    const char *missing = !has_budget          ? "budget"
                          : !rule->n_open      ? "open"
                          : !rule->n_close     ? "close"
                          : !rule->n_close_ids ? "close_ids"
                                               : NULL;
    if (missing)
        FAIL(ST_FORMAT, "a budget of thinking needs %s", missing);
    return ST_OK;
}

/* ---- the state ---- */

static void enter(struct thinking_state *s, enum thinking_phase phase)
{
    s->phase = phase;
    s->n_tail = s->n_forced = s->n_missing = 0;
}

void thinking_begin(const struct thinking_rule *rule, struct thinking_state *state)
{
    *state = (struct thinking_state){
        .phase = rule->inside     ? THINKING_WITHIN
                 : rule->anywhere ? THINKING_OUTSIDE
                                  : THINKING_AT_START,
    };
}

static void keep(struct thinking_state *s, uint8_t byte)
{
    if (s->n_tail == sizeof s->tail)
        memmove(s->tail, s->tail + 1, --s->n_tail);
    s->tail[s->n_tail++] = byte;
}

static bool ends_with(const struct thinking_state *s, const char *mark, uint32_t n)
{
    return s->n_tail >= n && memcmp(s->tail + s->n_tail - n, mark, n) == 0;
}

/* What is missing of a character behind the byte; a byte out of its place begins none. */
static void count_missing(struct thinking_state *s, uint8_t byte)
{
    if (byte >= 0x80 && byte < 0xc0)
        s->n_missing -= s->n_missing > 0;
    else
        s->n_missing = byte < 0xc2 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : byte < 0xf5 ? 3 : 0;
}

static void take_start(const struct thinking_rule *rule, struct thinking_state *s, uint8_t byte)
{
    bool blank = byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
    if (s->n_tail == 0 && blank && (uint8_t)rule->open[0] != byte)
        return;
    keep(s, byte);
    if (s->n_tail > rule->n_open || memcmp(s->tail, rule->open, s->n_tail) != 0)
        enter(s, THINKING_OVER);
    else if (s->n_tail == rule->n_open)
        enter(s, THINKING_WITHIN);
}

static void take_byte(const struct thinking_rule *rule, struct thinking_state *s, uint8_t byte)
{
    enum thinking_phase after = rule->anywhere ? THINKING_OUTSIDE : THINKING_OVER;
    switch (s->phase) {
    case THINKING_AT_START:
        take_start(rule, s, byte);
        break;
    case THINKING_OUTSIDE:
        keep(s, byte);
        if (ends_with(s, rule->open, rule->n_open))
            enter(s, THINKING_WITHIN);
        break;
    case THINKING_WITHIN:
        keep(s, byte);
        count_missing(s, byte);
        if (ends_with(s, rule->close, rule->n_close))
            enter(s, after);
        break;
    case THINKING_OVER:
        break;
    }
}

void thinking_token(const struct thinking_rule *rule, struct thinking_state *state, int32_t id,
                    const uint8_t *bytes, size_t n)
{
    bool within = state->phase == THINKING_WITHIN, forced = thinking_forced(rule, state) == id;
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != GRAMMAR_SPECIAL)
            take_byte(rule, state, bytes[i]);
    if (!within || state->phase != THINKING_WITHIN)
        return;
    state->n_used += state->n_used < UINT32_MAX;
    state->n_forced = forced ? state->n_forced + 1 : 0;
    if (state->n_forced == rule->n_close_ids) /* its ids are the mark, whatever they spell */
        enter(state, rule->anywhere ? THINKING_OUTSIDE : THINKING_OVER);
}

int32_t thinking_forced(const struct thinking_rule *rule, const struct thinking_state *state)
{
    /* a character lacks 3 bytes at most: what still lacks some behind as many tokens is another one */
    bool waits =
        state->n_missing > 0 && state->n_forced == 0 && state->n_used < (uint64_t)rule->budget + 3;
    if (state->phase != THINKING_WITHIN || state->n_used < rule->budget || waits)
        return -1;
    return rule->close_ids[state->n_forced];
}
