#include "client/gateway/openai_logprobs.h"

#include <stdio.h>
#include <string.h>

static float at_least(float logprob)
{
    return logprob > -9999.0f ? logprob : -9999.0f; /* JSON has no infinity */
}

/* The next token of the text from index i on; SIZE_MAX: there are no more. */
static size_t next_shown(const struct answer_tokens *t, size_t i)
{
    while (i < t->ready && t->token[i].cut)
        i++;
    return i < t->ready ? i : SIZE_MAX;
}

#define EACH_SHOWN(i, t)                                                                           \
    for (size_t i = next_shown((t), (t)->first); i != SIZE_MAX; i = next_shown((t), i + 1))

/* ---- chat ---- */

static void write_entry(struct json_writer *w, const char *text, size_t n, float logprob)
{
    json_write_key(w, "token");
    json_write_bytes(w, text, n);
    json_write_key(w, "logprob");
    json_write_f32(w, at_least(logprob));
    json_write_key(w, "bytes");
    json_write_array(w);
    for (size_t i = 0; i < n; i++)
        json_write_u64(w, (unsigned char)text[i]);
    json_write_end_array(w);
}

void openai_write_chat_logprobs(struct json_writer *w, const struct answer_tokens *t)
{
    const char *bytes = t->bytes.data;
    json_write_object(w);
    json_write_key(w, "content");
    json_write_array(w);
    EACH_SHOWN(i, t)
    {
        const struct answer_token *k = &t->token[i];
        json_write_object(w);
        write_entry(w, bytes + k->at, k->n, k->logprob);
        json_write_key(w, "top_logprobs");
        json_write_array(w);
        for (size_t j = k->top; j < k->top + k->n_top; j++) {
            json_write_object(w);
            write_entry(w, bytes + t->tops[j].at, t->tops[j].n, t->tops[j].logprob);
            json_write_end_object(w);
        }
        json_write_end_array(w);
        json_write_end_object(w);
    }
    json_write_end_array(w);
    json_member_null(w, "refusal");
    json_write_end_object(w);
}

/* ---- completions ---- */

static void write_member(struct json_writer *w, const char *text, size_t n, float logprob)
{
    json_write_key_bytes(w, text, n);
    json_write_f32(w, at_least(logprob));
}

/* Keys are texts: of several tokens with one text the most probable counts, and the token itself is always there. */
static void write_tops(struct json_writer *w, const struct answer_tokens *t,
                       const struct answer_token *k, size_t n_top)
{
    const char *bytes = t->bytes.data;
    const struct answer_top *tops = t->tops + k->top;
    bool drawn = false;
    json_write_object(w);
    for (size_t j = 0; j < k->n_top && j < n_top; j++) {
        bool seen = false;
        for (size_t i = 0; i < j && !seen; i++)
            seen = tops[i].n == tops[j].n &&
                   memcmp(bytes + tops[i].at, bytes + tops[j].at, tops[j].n) == 0;
        if (!seen)
            write_member(w, bytes + tops[j].at, tops[j].n, tops[j].logprob);
        drawn =
            drawn || (tops[j].n == k->n && memcmp(bytes + tops[j].at, bytes + k->at, k->n) == 0);
    }
    if (!drawn)
        write_member(w, bytes + k->at, k->n, k->logprob);
    json_write_end_object(w);
}

/* What the lists of a completion's logprobs are made of. */
struct shown {
    const struct answer_tokens *prompt, *answer; /* NULL: not shown */
    uint64_t offset;                             /* characters before the first one */
    size_t n_top;
};

/* Has no log probability. */
static bool is_first(const struct shown *s, const struct answer_tokens *t, size_t i)
{
    return t == s->prompt && i == 0;
}

static void write_offsets(struct json_writer *w, const struct answer_tokens *t, uint64_t *offset)
{
    EACH_SHOWN(i, t)
    {
        json_write_u64(w, *offset);
        *offset += answer_count_chars(t->bytes.data + t->token[i].at, t->token[i].n);
    }
}

static void write_values(struct json_writer *w, const struct shown *s,
                         const struct answer_tokens *t)
{
    EACH_SHOWN(i, t)
    {
        if (is_first(s, t, i))
            json_write_null(w);
        else
            json_write_f32(w, at_least(t->token[i].logprob));
    }
}

static void write_texts(struct json_writer *w, const struct answer_tokens *t)
{
    EACH_SHOWN(i, t)
    json_write_bytes(w, t->bytes.data + t->token[i].at, t->token[i].n);
}

static void write_alternatives(struct json_writer *w, const struct shown *s,
                               const struct answer_tokens *t)
{
    EACH_SHOWN(i, t)
    {
        if (is_first(s, t, i))
            json_write_null(w);
        else
            write_tops(w, t, &t->token[i], s->n_top);
    }
}

static void write_lists(struct json_writer *w, const struct shown *s)
{
    const struct answer_tokens *parts[2];
    uint64_t offset = s->offset;
    size_t n = 0;
    if (s->prompt)
        parts[n++] = s->prompt;
    if (s->answer)
        parts[n++] = s->answer;
    json_write_object(w);
    json_write_key(w, "text_offset");
    json_write_array(w);
    for (size_t k = 0; k < n; k++)
        write_offsets(w, parts[k], &offset);
    json_write_end_array(w);
    json_write_key(w, "token_logprobs");
    json_write_array(w);
    for (size_t k = 0; k < n; k++)
        write_values(w, s, parts[k]);
    json_write_end_array(w);
    json_write_key(w, "tokens");
    json_write_array(w);
    for (size_t k = 0; k < n; k++)
        write_texts(w, parts[k]);
    json_write_end_array(w);
    json_write_key(w, "top_logprobs");
    json_write_array(w);
    for (size_t k = 0; k < n; k++)
        write_alternatives(w, s, parts[k]);
    json_write_end_array(w);
    json_write_end_object(w);
}

void openai_write_text_logprobs(struct json_writer *w, const struct answer_tokens *prompt,
                                const struct answer_tokens *t, uint32_t n_top)
{
    const struct shown s = {prompt, t, prompt || !t ? 0 : t->n_chars, n_top};
    write_lists(w, &s);
}

void openai_write_text_logprobs_behind(struct json_writer *w, const struct answer_tokens *prompt,
                                       const struct answer_tokens *t, uint32_t n_top)
{
    struct shown s = {NULL, t, t->n_chars, n_top};
    for (size_t i = 0; i < prompt->n; i++)
        s.offset +=
            answer_count_chars(prompt->bytes.data + prompt->token[i].at, prompt->token[i].n);
    write_lists(w, &s);
}

/* ---- vLLM's form of a prompt's ---- */

static void write_scored(struct json_writer *w, const struct answer_tokens *t, int32_t id,
                         float logprob, uint64_t rank, size_t at, size_t n)
{
    char key[16];
    snprintf(key, sizeof key, "%d", id);
    json_write_key(w, key);
    json_write_object(w);
    json_write_key(w, "logprob");
    json_write_f32(w, at_least(logprob));
    json_write_key(w, "rank");
    if (rank)
        json_write_u64(w, rank);
    else
        json_write_null(w);
    json_write_key(w, "decoded_token");
    json_write_bytes(w, t->bytes.data + at, n);
    json_write_end_object(w);
}

void openai_write_prompt_logprobs(struct json_writer *w, const struct answer_tokens *prompt,
                                  uint32_t n_top)
{
    json_write_array(w);
    if (prompt->n)
        json_write_null(w);
    for (size_t i = 1; i < prompt->n; i++) {
        const struct answer_token *k = &prompt->token[i];
        json_write_object(w);
        write_scored(w, prompt, k->id, k->logprob, k->rank, k->at, k->n);
        for (size_t j = 0; j < k->n_top && j < n_top; j++) {
            const struct answer_top *o = &prompt->tops[k->top + j];
            if (o->id != k->id)
                write_scored(w, prompt, o->id, o->logprob, j + 1, o->at, o->n);
        }
        json_write_end_object(w);
    }
    json_write_end_array(w);
}

void openai_write_token_ids(struct json_writer *w, const struct answer_tokens *t)
{
    json_write_array(w);
    for (size_t i = t->first; i < t->ready; i++)
        json_write_i64(w, t->token[i].id);
    json_write_end_array(w);
}
