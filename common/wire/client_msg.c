/* Requests: client -> coordinator. */
#include "common/wire/client_pb.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

static_assert((int)MSG_DRAIN == INGOT__TYPE__DRAIN, "types follow ingot.proto");
static_assert((int)MSG_CANCEL_REPLY == INGOT__TYPE__CANCEL_REPLY, "types follow ingot.proto");
static_assert((int)ST_N == INGOT__CODE__NOT_FOUND + 1, "codes follow ingot.proto");
static_assert((int)CANCEL_UNKNOWN == INGOT__CANCEL_RESULT__UNKNOWN, "results follow ingot.proto");
static_assert((int)REASON_FAILED == INGOT__REASON__FAILED, "reasons follow ingot.proto");

const char *msg_reason_name(enum msg_reason r)
{
    static const char *const names[] = {"none",      "eos",      "length", "stop",
                                        "cancelled", "deadline", "failed"};
    return r >= 0 && r < (int)ARRAY_LEN(names) ? names[r] : "unknown";
}

struct msg_generate msg_generate_default(void)
{
    return (struct msg_generate){.request_id = "",
                                 .model = "",
                                 .sampling = {.sp = sample_params_default(), .unset = UNSET_ALL},
                                 .n = 1,
                                 .skip_special = true,
                                 .add_special = true,
                                 .chat = {.add_generation_prompt = true}};
}

/* ---- decode ---- */

static enum status decode_tenant(struct tenant *out, protobuf_c_boolean has, ProtobufCBinaryData b,
                                 const char **field)
{
    if (!has)
        return ST_OK;
    *field = "tenant";
    TRY(tenant_of_bytes(out, b.data, b.len));
    *field = "";
    return ST_OK;
}

static enum status check_utf8(struct wire_text t, const char *name, const char **field)
{
    size_t good = utf8_valid_prefix(t.data, t.n);
    if (good != t.n)
        FAIL_FIELD(name, ST_FORMAT, "%s is not UTF-8 (byte %zu of %zu)", name, good, t.n);
    return ST_OK;
}

static enum status decode_chat(struct msg_chat *c, const Ingot__Chat *m, struct wire_mem *mem,
                               const char **field)
{
    struct msg_turn *turns;
    MEM_ARRAY(turns, m->n_turn, mem);
    c->n_turns = (uint32_t)m->n_turn;
    c->turns = turns;
    c->tools_json = text_of(m->has_tools_json, m->tools_json);
    c->variables_json = text_of(m->has_variables_json, m->variables_json);
    c->add_generation_prompt = m->add_generation_prompt;
    c->continue_final_message = m->continue_final_message;
    c->has_clock = m->has_clock_s;
    c->clock_s = m->clock_s;
    c->has_zone = m->has_zone_s;
    c->zone_s = m->zone_s;
    c->tool_choice = (enum msg_tool_choice)m->tool_choice;
    c->tool_name = pb_string(m->tool_name);
    c->one_call = m->one_call;
    if ((unsigned)c->tool_choice > TOOL_CHOICE_NAMED)
        FAIL_FIELD("chat.tool_choice", ST_UNSUPPORTED, "tool_choice %u is not known",
                   (unsigned)c->tool_choice);
    if ((c->tool_choice == TOOL_CHOICE_NAMED) != (*c->tool_name != 0))
        FAIL_FIELD("chat.tool_name", ST_RANGE, "a named tool, and no other choice, has a name");
    TRY(check_utf8((struct wire_text){c->tool_name, strlen(c->tool_name)}, "chat.tool_name",
                   field));
    if (c->clock_s < 0 || c->clock_s > MAX_CLOCK_S)
        FAIL_FIELD("chat.clock_s", ST_RANGE,
                   "clock_s is %" PRId64 ": it must be between 0 and %" PRId64, c->clock_s,
                   MAX_CLOCK_S);
    if (c->zone_s < -MAX_ZONE_S || c->zone_s > MAX_ZONE_S)
        FAIL_FIELD("chat.zone_s", ST_RANGE, "zone_s is %d: it must be between -%d and %d",
                   c->zone_s, MAX_ZONE_S, MAX_ZONE_S);
    TRY(check_utf8(c->tools_json, "chat.tools_json", field));
    TRY(check_utf8(c->variables_json, "chat.variables_json", field));
    for (size_t i = 0; i < m->n_turn; i++) {
        const Ingot__Turn *t = m->turn[i];
        turns[i].role = pb_string(t->role);
        turns[i].content = text_of(t->has_content, t->content);
        turns[i].json = text_of(t->has_json, t->json);
        TRY(check_utf8((struct wire_text){turns[i].role, strlen(turns[i].role)}, "chat.turn.role",
                       field));
        TRY(check_utf8(turns[i].content, "chat.turn.content", field));
        TRY(check_utf8(turns[i].json, "chat.turn.json", field));
        if (turns[i].json.n && (t->role || t->has_content))
            FAIL_FIELD("chat.turn.json", ST_RANGE,
                       "chat.turn[%zu] has both json and role or content", i);
        if (!turns[i].json.n && !*turns[i].role)
            FAIL_FIELD("chat.turn.role", ST_RANGE, "chat.turn[%zu] has no role", i);
    }
    return ST_OK;
}

static enum status decode_stops(struct msg_generate *g, const Ingot__Generate *m,
                                struct wire_mem *mem, const char **field)
{
    if (m->n_stop > MAX_STOPS)
        FAIL_FIELD("stop", ST_RANGE, "%zu stop strings: at most %d are taken", m->n_stop,
                   MAX_STOPS);
    struct wire_text *stops;
    MEM_ARRAY(stops, m->n_stop, mem);
    for (size_t i = 0; i < m->n_stop; i++) {
        stops[i] = text_of(1, m->stop[i]);
        if (stops[i].n == 0)
            FAIL_FIELD("stop", ST_RANGE, "stop[%zu] is empty", i);
        TRY(check_utf8(stops[i], "stop", field));
    }
    g->n_stops = (uint32_t)m->n_stop;
    g->stops = stops;
    return ST_OK;
}

static enum status decode_caller(struct msg_generate *g, const Ingot__Generate *m,
                                 const char **field)
{
    g->has_limits = m->tenant_limits != NULL;
    if (m->tenant_limits)
        g->limits = (struct tenant_limits){m->tenant_limits->max_samples,
                                           m->tenant_limits->tokens_per_minute};
    g->has_grace = m->has_grace_ms;
    g->grace_ms = m->grace_ms;
    if (g->grace_ms > MAX_GRACE_MS)
        FAIL_FIELD("grace_ms", ST_RANGE, "grace_ms is %u: it must be at most %d", g->grace_ms,
                   MAX_GRACE_MS);
    g->client_digest = text_of(m->has_client_digest, m->client_digest);
    if (m->has_client_digest && (g->client_digest.n < 1 || g->client_digest.n > MAX_CLIENT_DIGEST))
        FAIL_FIELD("client_digest", ST_RANGE, "client_digest has %zu bytes: it must have 1 to %d",
                   g->client_digest.n, MAX_CLIENT_DIGEST);
    return decode_tenant(&g->tenant, m->has_tenant, m->tenant, field);
}

static enum status decode_grammar(struct msg_generate *g, const Ingot__Grammar *m,
                                  const char **field)
{
    if (!m)
        return ST_OK;
    if (m->kind == INGOT__GRAMMAR_KIND__GRAMMAR_NONE)
        FAIL_FIELD("grammar.kind", ST_RANGE, "a grammar needs a kind");
    if (g->kind == PROMPT_CHAT && m->kind >= INGOT__GRAMMAR_KIND__GRAMMAR_THINKING)
        FAIL_FIELD("grammar.kind", ST_RANGE,
                   "grammars of kind %d go with text or tokens: a chat has thinking_budget",
                   (int)m->kind);
    g->grammar_kind = (uint32_t)m->kind;
    g->grammar = text_of(m->has_source, m->source);
    return check_utf8(g->grammar, "grammar.source", field);
}

/* What belongs to an answer must not be there. */
static enum status decode_embed(struct msg_generate *g, const Ingot__Generate *m,
                                const char **field)
{
    const struct {
        const char *name;
        bool is_set;
    } rows[] = {
        {"sampling", m->sampling != NULL}, {"max_tokens", m->has_max_tokens},
        {"stop", m->n_stop > 0},           {"n", m->n != 1},
        {"grammar", m->grammar != NULL},   {"want_token_text", m->want_token_text},
        {"keep_marks", m->keep_marks},     {"thinking_budget", m->has_thinking_budget},
    };
    if (!m->embed)
        return ST_OK;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].is_set)
            FAIL_FIELD(rows[i].name, ST_RANGE, "an embedding has no answer: %s has no meaning",
                       rows[i].name);
    g->embed = true;
    g->prompt_name = text_of(m->embed->has_prompt_name, m->embed->prompt_name);
    g->dimensions = m->embed->dimensions;
    TRY(check_utf8(g->prompt_name, "embed.prompt_name", field));
    if (g->prompt_name.n && g->kind != PROMPT_TEXT)
        FAIL_FIELD("embed.prompt_name", ST_RANGE, "prompt_name goes with text");
    if (m->embed->has_dimensions && g->dimensions == 0)
        FAIL_FIELD("embed.dimensions", ST_RANGE, "dimensions is 0: it must be at least 1");
    g->n_token_types = (uint32_t)m->embed->n_token_types;
    g->token_types = m->embed->token_types;
    g->has_document = m->embed->has_document;
    g->document = text_of(m->embed->has_document, m->embed->document);
    TRY(check_utf8(g->document, "embed.document", field));
    if (g->has_document && g->kind != PROMPT_TEXT)
        FAIL_FIELD("embed.document", ST_RANGE, "a document goes with text");
    if (g->n_token_types && (g->kind != PROMPT_TOKENS || g->n_token_types != g->n_tokens))
        FAIL_FIELD("embed.token_types", ST_RANGE,
                   "%u token_types for %u tokens: there must be one for each, with tokens",
                   g->n_token_types, g->kind == PROMPT_TOKENS ? g->n_tokens : 0);
    return ST_OK;
}

static enum status decode_generate(struct msg_generate *g, const Ingot__Generate *m,
                                   struct wire_mem *mem, const char **field)
{
    *g = msg_generate_default();
    g->request_id = m->request_id;
    g->model = pb_string(m->model);
    if (m->has_text + (m->tokens != NULL) + (m->chat != NULL) != 1)
        FAIL_FIELD("text", ST_RANGE, "a Generate needs exactly one of text, tokens and chat");
    if (m->has_text) {
        g->kind = PROMPT_TEXT;
        g->text = text_of(1, m->text);
        TRY(check_utf8(g->text, "text", field));
    } else if (m->tokens) {
        g->kind = PROMPT_TOKENS;
        g->n_tokens = (uint32_t)m->tokens->n_id;
        g->tokens = m->tokens->id;
    } else {
        g->kind = PROMPT_CHAT;
        TRY(decode_chat(&g->chat, m->chat, mem, field));
    }
    if (m->sampling)
        TRY(sampling_decode(&g->sampling, m->sampling, mem, field));
    TRY(decode_stops(g, m, mem, field));
    if (m->has_max_tokens && m->max_tokens == 0)
        FAIL_FIELD("max_tokens", ST_RANGE, "max_tokens is 0: it must be at least 1");
    g->max_tokens = m->max_tokens;
    g->include_stop = m->include_stop;
    if (m->n < 1 || m->n > MAX_SAMPLES)
        FAIL_FIELD("n", ST_RANGE, "n is %u: it must be between 1 and %d", m->n, MAX_SAMPLES);
    g->n = m->n;
    g->deadline_ms = m->deadline_ms;
    if (m->priority < -100 || m->priority > 100)
        FAIL_FIELD("priority", ST_RANGE, "priority is %d: it must be between -100 and 100",
                   m->priority);
    g->priority = m->priority;
    g->skip_special = m->skip_special;
    g->add_special = m->has_add_special ? m->add_special : g->kind == PROMPT_TEXT;
    g->want_prompt_ids = m->want_prompt_ids;
    g->want_prompt_text = m->want_prompt_text;
    g->want_token_text = m->want_token_text;
    g->keep_marks = m->keep_marks;
    g->has_thinking_budget = m->has_thinking_budget;
    g->thinking_budget = m->thinking_budget;
    if (m->has_thinking_budget && g->kind != PROMPT_CHAT)
        FAIL_FIELD("thinking_budget", ST_RANGE, "thinking_budget goes with a chat");
    TRY(decode_grammar(g, m->grammar, field));
    TRY(decode_embed(g, m, field));
    if (m->resume)
        TRY(resume_decode(&g->resume, m->resume, g->n, mem, field));
    return decode_caller(g, m, field);
}

/* the first field of every request but Hello is request_id = 1 */
static enum status check_id(const char *id, const char **request_id, const char **field)
{
    size_t n = id ? strlen(id) : 0;
    if (n == 0 || n > MAX_REQUEST_ID)
        FAIL_FIELD("request_id", ST_RANGE, "request_id has %zu bytes: it must have 1 to %d", n,
                   MAX_REQUEST_ID);
    TRY(check_utf8((struct wire_text){id, n}, "request_id", field));
    *request_id = id;
    return ST_OK;
}

static const ProtobufCMessageDescriptor *request_descriptor(uint16_t type)
{
    static const ProtobufCMessageDescriptor *const all[] = {
        [MSG_HELLO] = &ingot__hello__descriptor,
        [MSG_GENERATE] = &ingot__generate__descriptor,
        [MSG_CANCEL] = &ingot__cancel__descriptor,
        [MSG_TOKENIZE] = &ingot__tokenize__descriptor,
        [MSG_DETOKENIZE] = &ingot__detokenize__descriptor,
        [MSG_APPLY_TEMPLATE] = &ingot__apply_template__descriptor,
        [MSG_MODELS] = &ingot__models__descriptor,
        [MSG_STATS] = &ingot__stats__descriptor,
        [MSG_PING] = &ingot__ping__descriptor,
        [MSG_DRAIN] = &ingot__drain__descriptor,
    };
    return type < ARRAY_LEN(all) ? all[type] : NULL;
}

enum status client_msg_decode_request(struct client_msg *out, const void *data, size_t n,
                                      struct wire_mem *mem, const char **request_id,
                                      const char **field)
{
    const char *no_id, *no_field;
    struct frame f;
    ProtobufCMessage *m;

    if (!request_id)
        request_id = &no_id;
    if (!field)
        field = &no_field;
    *request_id = *field = "";
    TRY(frame_parse(&f, data, n));
    const ProtobufCMessageDescriptor *d = request_descriptor(f.type);
    if (!d)
        FAIL(ST_UNSUPPORTED, "message type %u is not a request", f.type);
    enum status st = pb_unpack(&m, d, f.body, f.n_body, mem, field);
    memset(out, 0, sizeof *out);
    out->type = (enum msg_type)f.type;
    if (st != ST_OK) {
        /* a message with a field at fault still has an id: the reply can name the request */
        const char *id = m && f.type != MSG_HELLO ? ((const Ingot__Ping *)m)->request_id : NULL;
        if (id && strlen(id) <= MAX_REQUEST_ID)
            *request_id = id;
        return st;
    }
    if (out->type == MSG_HELLO) {
        const Ingot__Hello *h = (const void *)m;
        out->u.hello = (struct msg_hello){
            .major_min = h->major_min, .major_max = h->major_max, .client = pb_string(h->client)};
        if (!h->has_major_min || !h->has_major_max)
            FAIL_FIELD("major_min", ST_RANGE, "Hello without major_min and major_max");
        out->u.hello.tenants_secret = text_of(h->has_tenants_secret, h->tenants_secret);
        out->u.hello.token = text_of(h->has_token, h->token);
        if (h->has_token && (h->token.len < MIN_TOKEN || h->token.len > MAX_TOKEN))
            FAIL_FIELD("token", ST_RANGE, "token has %zu bytes: it must have %d to %d",
                       h->token.len, MIN_TOKEN, MAX_TOKEN);
        return decode_tenant(&out->u.hello.tenant, h->has_tenant, h->tenant, field);
    }
    /* every other request has its request_id at the same place */
    const char *id = ((const Ingot__Ping *)m)->request_id;
    TRY(check_id(id, request_id, field));
    switch (out->type) {
    case MSG_GENERATE:
        return decode_generate(&out->u.generate, (const void *)m, mem, field);
    case MSG_TOKENIZE: {
        const Ingot__Tokenize *t = (const void *)m;
        out->u.tokenize =
            (struct msg_tokenize){.request_id = id,
                                  .model = pb_string(t->model),
                                  .text = text_of(t->has_text, t->text),
                                  .has_chat = t->chat != NULL,
                                  .add_special = t->add_special && (t->has_add_special || !t->chat),
                                  .want_token_text = t->want_token_text};
        TRY(decode_tenant(&out->u.tokenize.tenant, t->has_tenant, t->tenant, field));
        if (t->chat && t->has_text)
            FAIL_FIELD("chat", ST_RANGE, "Tokenize takes text or chat, not both");
        if (t->chat)
            return decode_chat(&out->u.tokenize.chat, t->chat, mem, field);
        return check_utf8(out->u.tokenize.text, "text", field);
    }
    case MSG_DETOKENIZE: {
        const Ingot__Detokenize *t = (const void *)m;
        out->u.detokenize = (struct msg_detokenize){.request_id = id,
                                                    .model = pb_string(t->model),
                                                    .n_tokens = (uint32_t)t->n_id,
                                                    .tokens = t->id,
                                                    .skip_special = t->skip_special};
        return decode_tenant(&out->u.detokenize.tenant, t->has_tenant, t->tenant, field);
    }
    case MSG_APPLY_TEMPLATE: {
        const Ingot__ApplyTemplate *t = (const void *)m;
        out->u.apply_template.request_id = id;
        out->u.apply_template.model = pb_string(t->model);
        TRY(decode_tenant(&out->u.apply_template.tenant, t->has_tenant, t->tenant, field));
        if (!t->chat)
            FAIL_FIELD("chat", ST_RANGE, "ApplyTemplate without chat");
        return decode_chat(&out->u.apply_template.chat, t->chat, mem, field);
    }
    case MSG_CANCEL: {
        const Ingot__Cancel *t = (const void *)m;
        out->u.cancel.request_id = id;
        return decode_tenant(&out->u.cancel.tenant, t->has_tenant, t->tenant, field);
    }
    default:
        out->u.simple.request_id = id;
        if (out->type == MSG_DRAIN)
            out->u.simple.value = ((const Ingot__Drain *)m)->timeout_ms;
        return ST_OK;
    }
}

/* ---- encode ---- */

#define SET_TEXT(m, field, t)                                                                      \
    do {                                                                                           \
        if ((t).n)                                                                                 \
            SET(m, field, bytes_of(t));                                                            \
    } while (0)

#define SET_TENANT(m, t)                                                                           \
    do {                                                                                           \
        if ((t).n)                                                                                 \
            SET(m, tenant, tenant_bytes(&(t)));                                                    \
    } while (0)

static enum status encode_chat(Ingot__Chat *m, const struct msg_chat *c, struct wire_mem *mem)
{
    Ingot__Turn *turns;
    ingot__chat__init(m);
    MEM_ARRAY(turns, c->n_turns, mem);
    MEM_ARRAY(m->turn, c->n_turns, mem);
    m->n_turn = c->n_turns;
    for (uint32_t i = 0; i < c->n_turns; i++) {
        ingot__turn__init(&turns[i]);
        m->turn[i] = &turns[i];
        if (c->turns[i].json.n) {
            SET(turns[i], json, bytes_of(c->turns[i].json));
            continue;
        }
        turns[i].role = string_of(c->turns[i].role);
        SET(turns[i], content, bytes_of(c->turns[i].content));
    }
    SET_TEXT(*m, tools_json, c->tools_json);
    SET_TEXT(*m, variables_json, c->variables_json);
    SET(*m, add_generation_prompt, c->add_generation_prompt);
    SET(*m, continue_final_message, c->continue_final_message);
    if (c->has_clock)
        SET(*m, clock_s, c->clock_s);
    if (c->has_zone)
        SET(*m, zone_s, c->zone_s);
    if (c->tool_choice)
        SET(*m, tool_choice, (Ingot__ToolChoice)c->tool_choice);
    if (c->tool_choice == TOOL_CHOICE_NAMED)
        m->tool_name = string_of(c->tool_name);
    if (c->one_call)
        SET(*m, one_call, true);
    return ST_OK;
}

static enum status encode_generate(struct wire_bytes *out, const struct msg_generate *g,
                                   struct wire_mem *mem)
{
    Ingot__Generate m = INGOT__GENERATE__INIT;
    Ingot__TokenIds ids = INGOT__TOKEN_IDS__INIT;
    Ingot__TenantLimits limits = INGOT__TENANT_LIMITS__INIT;
    Ingot__Grammar grammar = INGOT__GRAMMAR__INIT;
    Ingot__Embed embed = INGOT__EMBED__INIT;
    Ingot__Chat chat;
    Ingot__Sampling sampling;
    Ingot__Resume resume;

    m.request_id = string_of(g->request_id);
    m.model = string_of(g->model);
    if (g->kind == PROMPT_TEXT) {
        SET(m, text, bytes_of(g->text));
    } else if (g->kind == PROMPT_TOKENS) {
        ids.n_id = g->n_tokens;
        ids.id = (int32_t *)(uintptr_t)g->tokens;
        m.tokens = &ids;
    } else {
        TRY(encode_chat(&chat, &g->chat, mem));
        m.chat = &chat;
    }
    if (g->embed) {
        SET_TEXT(embed, prompt_name, g->prompt_name);
        if (g->dimensions)
            SET(embed, dimensions, g->dimensions);
        if (g->has_document)
            SET(embed, document, bytes_of(g->document));
        embed.n_token_types = g->n_token_types;
        embed.token_types = (uint32_t *)(uintptr_t)g->token_types;
        m.embed = &embed;
    } else {
        TRY(sampling_encode(&sampling, &g->sampling, mem));
        m.sampling = &sampling;
    }
    if (g->max_tokens)
        SET(m, max_tokens, g->max_tokens);
    MEM_ARRAY(m.stop, g->n_stops, mem);
    m.n_stop = g->n_stops;
    for (uint32_t i = 0; i < g->n_stops; i++)
        m.stop[i] = bytes_of(g->stops[i]);
    SET(m, include_stop, g->include_stop);
    SET(m, n, g->n);
    if (g->deadline_ms)
        SET(m, deadline_ms, g->deadline_ms);
    SET(m, priority, g->priority);
    SET(m, skip_special, g->skip_special);
    if (g->kind == PROMPT_TEXT)
        SET(m, add_special, g->add_special);
    SET_TENANT(m, g->tenant);
    if (g->want_prompt_ids)
        SET(m, want_prompt_ids, true);
    if (g->has_limits) {
        SET(limits, max_samples, g->limits.max_samples);
        SET(limits, tokens_per_minute, g->limits.tokens_per_minute);
        m.tenant_limits = &limits;
    }
    if (g->has_grace)
        SET(m, grace_ms, g->grace_ms);
    SET_TEXT(m, client_digest, g->client_digest);
    if (g->want_prompt_text)
        SET(m, want_prompt_text, true);
    if (g->want_token_text)
        SET(m, want_token_text, true);
    if (g->keep_marks)
        SET(m, keep_marks, true);
    if (g->has_thinking_budget)
        SET(m, thinking_budget, g->thinking_budget);
    if (g->grammar_kind) {
        SET(grammar, kind, (Ingot__GrammarKind)g->grammar_kind);
        SET(grammar, source, bytes_of(g->grammar));
        m.grammar = &grammar;
    }
    if (g->resume) {
        TRY(resume_encode(&resume, g->resume, mem));
        m.resume = &resume;
    }
    return pb_pack(out, MSG_GENERATE, &m.base, mem);
}

#define ENCODE_SIMPLE(Name, init, type_value)                                                      \
    do {                                                                                           \
        Ingot__##Name m = init;                                                                    \
        m.request_id = string_of(msg->u.simple.request_id);                                        \
        return pb_pack(out, (type_value), &m.base, mem);                                           \
    } while (0)

enum status client_msg_encode_request(struct wire_bytes *out, const struct client_msg *msg,
                                      struct wire_mem *mem)
{
    switch (msg->type) {
    case MSG_HELLO: {
        Ingot__Hello m = INGOT__HELLO__INIT;
        SET(m, major_min, msg->u.hello.major_min);
        SET(m, major_max, msg->u.hello.major_max);
        m.client = string_of(msg->u.hello.client);
        SET_TENANT(m, msg->u.hello.tenant);
        SET_TEXT(m, tenants_secret, msg->u.hello.tenants_secret);
        SET_TEXT(m, token, msg->u.hello.token);
        return pb_pack(out, MSG_HELLO, &m.base, mem);
    }
    case MSG_GENERATE:
        return encode_generate(out, &msg->u.generate, mem);
    case MSG_TOKENIZE: {
        const struct msg_tokenize *t = &msg->u.tokenize;
        Ingot__Tokenize m = INGOT__TOKENIZE__INIT;
        Ingot__Chat chat;
        m.request_id = string_of(t->request_id);
        m.model = string_of(t->model);
        if (t->has_chat) {
            TRY(encode_chat(&chat, &t->chat, mem));
            m.chat = &chat;
        } else {
            SET(m, text, bytes_of(t->text));
        }
        SET(m, add_special, t->add_special);
        SET(m, want_token_text, t->want_token_text);
        SET_TENANT(m, t->tenant);
        return pb_pack(out, MSG_TOKENIZE, &m.base, mem);
    }
    case MSG_DETOKENIZE: {
        const struct msg_detokenize *t = &msg->u.detokenize;
        Ingot__Detokenize m = INGOT__DETOKENIZE__INIT;
        m.request_id = string_of(t->request_id);
        m.model = string_of(t->model);
        m.n_id = t->n_tokens;
        m.id = (int32_t *)(uintptr_t)t->tokens;
        SET(m, skip_special, t->skip_special);
        SET_TENANT(m, t->tenant);
        return pb_pack(out, MSG_DETOKENIZE, &m.base, mem);
    }
    case MSG_APPLY_TEMPLATE: {
        Ingot__ApplyTemplate m = INGOT__APPLY_TEMPLATE__INIT;
        Ingot__Chat chat;
        m.request_id = string_of(msg->u.apply_template.request_id);
        m.model = string_of(msg->u.apply_template.model);
        TRY(encode_chat(&chat, &msg->u.apply_template.chat, mem));
        m.chat = &chat;
        SET_TENANT(m, msg->u.apply_template.tenant);
        return pb_pack(out, MSG_APPLY_TEMPLATE, &m.base, mem);
    }
    case MSG_CANCEL: {
        Ingot__Cancel m = INGOT__CANCEL__INIT;
        m.request_id = string_of(msg->u.cancel.request_id);
        SET_TENANT(m, msg->u.cancel.tenant);
        return pb_pack(out, MSG_CANCEL, &m.base, mem);
    }
    case MSG_MODELS:
        ENCODE_SIMPLE(Models, INGOT__MODELS__INIT, MSG_MODELS);
    case MSG_STATS:
        ENCODE_SIMPLE(Stats, INGOT__STATS__INIT, MSG_STATS);
    case MSG_PING:
        ENCODE_SIMPLE(Ping, INGOT__PING__INIT, MSG_PING);
    case MSG_DRAIN: {
        Ingot__Drain m = INGOT__DRAIN__INIT;
        m.request_id = string_of(msg->u.simple.request_id);
        if (msg->u.simple.value)
            SET(m, timeout_ms, msg->u.simple.value);
        return pb_pack(out, MSG_DRAIN, &m.base, mem);
    }
    default:
        FAIL(ST_BUG, "message type %d is not a request", (int)msg->type);
    }
}
