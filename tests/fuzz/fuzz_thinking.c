/* A budget of thinking with structural tags from outside; then its bytes as tokens, of which each forced one is taken. */
#include "fuzz_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const struct thinking_rule *rule, const uint8_t *data, size_t size)
{
    struct thinking_state s;
    thinking_begin(rule, &s);
    for (size_t i = 0; i < size; i++) {
        int32_t id = thinking_forced(rule, &s);
        must(id == -1 || (id == rule->close_ids[s.n_forced] && s.n_used >= rule->budget));
        must(s.n_forced < rule->n_close_ids && s.n_missing < 4 && s.n_tail <= sizeof s.tail);
        thinking_token(rule, &s, id < 0 ? data[i] : id, data + i, 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct thinking_rule rule;
    struct json_span answer;
    if (thinking_read(&rule, (const char *)data, size, &answer) == ST_OK)
        run(&rule, data, size);
    return fuzz_grammar(GRAMMAR_THINKING_TAGS, data, size);
}
