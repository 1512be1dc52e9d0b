/* The public API (proto/ingot.proto) as plain structs, for the coordinator and the client library.
 * Pointers of decoded messages lie in the wire_mem or in the received frame and are valid until the
 * wire_mem is reset.  Strings are "" when unset; wire_text may hold NUL bytes. */
#ifndef COMMON_WIRE_CLIENT_MSG_H
#define COMMON_WIRE_CLIENT_MSG_H

#include <stdbool.h>

#include "common/histogram.h"
#include "common/plan.h"
#include "common/sha256.h"
#include "common/wire/frame.h"
#include "common/wire/ranks_msg.h"

/* Header types, as in ingot.proto. */
enum msg_type {
    MSG_HELLO = 1,
    MSG_GENERATE,
    MSG_CANCEL,
    MSG_TOKENIZE,
    MSG_DETOKENIZE,
    MSG_APPLY_TEMPLATE,
    MSG_MODELS,
    MSG_STATS,
    MSG_PING,
    MSG_DRAIN,
    MSG_WELCOME = 64,
    MSG_ACCEPTED,
    MSG_DELTA,
    MSG_FINISH,
    MSG_ERROR,
    MSG_REJECTED,
    MSG_TOKENS,
    MSG_TEXT,
    MSG_MODEL_LIST,
    MSG_STATS_REPLY,
    MSG_PONG,
    MSG_DRAINING,
    MSG_CANCEL_REPLY,
};

enum { MAX_REQUEST_ID = 64, MAX_TENANT = 64, MAX_STOPS = 16, PROMPT_DIGEST = 32 /* bytes */ };
enum { MAX_REPLY = 64 << 20 }; /* bytes: clients take no larger message */
enum { MIN_TOKEN = 16, MAX_TOKEN = 64 /* bytes */ };
enum { MAX_CLIENT_DIGEST = 64 /* bytes */, MAX_GRACE_MS = 600000 };
#define MAX_CLOCK_S INT64_C(253402300799) /* the last second of the year 9999 */
enum { MAX_ZONE_S = 86399 };

/* Who owns a request: any bytes. */
struct tenant {
    uint8_t n; /* bytes, 0 = unset */
    uint8_t bytes[MAX_TENANT];
};

/* What a tenant may use, of all connections together; 0: no limit. */
struct tenant_limits {
    uint32_t max_samples; /* in flight */
    uint32_t tokens_per_minute;
};

struct wire_text {
    const char *data;
    size_t n; /* bytes */
};

struct msg_hello {
    uint32_t major_min, major_max;
    const char *client;
    struct tenant tenant;
    struct wire_text tenants_secret; /* n 0: none */
    struct wire_text token;          /* MIN_TOKEN to MAX_TOKEN bytes; n 0: none */
};

struct msg_model {
    const char *name;
    bool has_weights, has_text;
    uint8_t weights[SHA256_BYTES], text[SHA256_BYTES]; /* digests */
    const char *weights_from;                          /* "own", "told", "pending", "none" */
    uint32_t vocab, max_ctx, world;
    bool chat;
    const char *tool_format;
    struct wire_text think_open, think_close;
    uint32_t embedding; /* components of its embeddings; 0: it gives none */
    bool rerank;        /* it gives scores */
};

struct msg_welcome {
    uint32_t major, minor;
    uint64_t epoch;
    const char *server;
    uint32_t n_models;
    const struct msg_model *models;
    uint64_t max_message_bytes;
    uint32_t max_prompt_tokens, max_queued, max_samples, heartbeat_ms;
    struct tenant tenant;
    bool any_tenant;
};

struct msg_turn {
    const char *role;
    struct wire_text content, json; /* json.n != 0: the whole turn as a JSON object */
};

/* As ToolChoice of ingot.proto. */
enum msg_tool_choice { TOOL_CHOICE_AUTO, TOOL_CHOICE_REQUIRED, TOOL_CHOICE_NAMED };

struct msg_chat {
    uint32_t n_turns;
    const struct msg_turn *turns;
    struct wire_text tools_json, variables_json;
    bool add_generation_prompt, continue_final_message;
    bool has_clock, has_zone;
    int64_t clock_s; /* seconds since 1970 UTC */
    int32_t zone_s;  /* seconds east of UTC */
    enum msg_tool_choice tool_choice;
    const char *tool_name; /* with TOOL_CHOICE_NAMED */
    bool one_call;
};

/* Parameters that a request can leave to the server, which has its model's defaults. */
enum sampling_unset {
    UNSET_TEMPERATURE = 1,
    UNSET_TOP_P = 2,
    UNSET_MIN_P = 4,
    UNSET_TOP_K = 8,
    UNSET_REPETITION_PENALTY = 16,
    UNSET_ALL = 31,
};

struct msg_sampling {
    struct sample_params sp;
    unsigned unset; /* bits of enum sampling_unset; sp has the protocol's defaults there */
    bool has_seed, ignore_eos;
    uint32_t n_bias;
    const struct logit_bias *bias;
    uint32_t n_stop_ids;
    const int32_t *stop_ids; /* the request's own, without the model's */
};

enum prompt_kind { PROMPT_TEXT, PROMPT_TOKENS, PROMPT_CHAT };

struct msg_resumed_sample {
    uint32_t n;
    const int32_t *ids; /* [n] */
    uint64_t n_text;    /* bytes */
    uint32_t n_scores;  /* entries of Delta.prompt_logprob */
};

/* What a client has received of an answer that it wants to be continued. */
struct msg_resume {
    const struct msg_accepted *accepted; /* its prompt_digest is not NULL */
    uint32_t n_samples, elapsed_ms;
    const struct msg_resumed_sample *samples; /* [n_samples] */
};

struct msg_generate {
    const char *request_id, *model;
    enum prompt_kind kind;
    struct wire_text text;
    uint32_t n_tokens;
    const int32_t *tokens;
    struct msg_chat chat;
    struct msg_sampling sampling;
    uint32_t max_tokens; /* 0 = to the end of the context */
    uint32_t n_stops;
    const struct wire_text *stops;
    bool include_stop;
    uint32_t n;           /* samples */
    uint32_t deadline_ms; /* 0 = none */
    int32_t priority;
    bool skip_special;
    bool add_special;
    bool want_prompt_ids, want_prompt_text, want_token_text, keep_marks;
    struct tenant tenant;
    bool has_limits, has_grace;
    struct tenant_limits limits;
    uint32_t grace_ms;
    struct wire_text client_digest; /* n 0: none */
    bool has_thinking_budget;
    uint32_t thinking_budget;        /* tokens */
    uint32_t grammar_kind;           /* common/grammar/grammar.h has the values; 0: none */
    struct wire_text grammar;        /* its source */
    const struct msg_resume *resume; /* NULL: none */
    bool embed;                      /* the prompt's embedding is wanted, no answer */
    struct wire_text prompt_name;    /* of the model's prompts; n 0: the default one */
    uint32_t dimensions;             /* of the embedding; 0: all */
    bool has_document;               /* of a reranker: the prompt is a query */
    struct wire_text document;
    const char *pair_prompt;     /* set by prompt_embed: the system message of a pair; NULL: none */
    uint32_t n_token_types;      /* n_tokens, or 0: they are all 0 */
    const uint32_t *token_types; /* [n_token_types] of an encoder's tokens */
};

struct msg_tokenize {
    const char *request_id, *model;
    struct wire_text text; /* or chat, if has_chat */
    bool has_chat;
    struct msg_chat chat;
    bool add_special, want_token_text;
    struct tenant tenant;
};

struct msg_detokenize {
    const char *request_id, *model;
    uint32_t n_tokens;
    const int32_t *tokens;
    bool skip_special;
    struct tenant tenant;
};

struct msg_apply_template {
    const char *request_id, *model;
    struct msg_chat chat;
    struct tenant tenant;
};

struct msg_cancel {
    const char *request_id;
    struct tenant tenant;
};

/* As CancelResult of ingot.proto. */
enum cancel_result {
    CANCEL_STOPPED = 1,
    CANCEL_ENDED_BEFORE,
    CANCEL_UNKNOWN,
};

struct msg_cancel_reply {
    const char *request_id;
    enum cancel_result result;
};

struct msg_simple { /* Models, Stats, Ping, Drain, Draining */
    const char *request_id;
    uint32_t value; /* Drain: timeout in ms, 0 = server's; Draining: running requests */
};

struct msg_accepted {
    const char *request_id;
    uint32_t prompt_tokens, queue_position;
    uint64_t seed;
    bool attached;
    const uint8_t *prompt_digest; /* [PROMPT_DIGEST]; NULL: the request was not resolved, and none
                                     of the following is known */
    uint32_t n_prompt_ids;        /* 0: not asked for */
    const int32_t *prompt_ids;
    bool has_clock; /* a chat */
    int64_t clock_s;
    int32_t zone_s;
    uint32_t max_tokens, n_stop_ids;
    const int32_t *stop_ids; /* in force */
    struct msg_sampling sampling;
    bool starts_in_reasoning;
    struct wire_text prompt_text;
    const uint8_t *weights, *text; /* [SHA256_BYTES] digests; NULL: not known */
    const char *numerics;          /* "": not known */
};

/* Log probabilities of the prompt's tokens. */
struct msg_prompt_scores {
    uint32_t n;
    const float *logprobs;           /* [n]; the first token's means nothing */
    const uint32_t *ranks;           /* [n]; 0: not known */
    const uint32_t *n_top;           /* [n], or NULL */
    const struct token_logprob *top; /* concatenated */
    const uint32_t *n_token_text;    /* [n] bytes, or NULL */
    const char *token_text;          /* concatenated */
    const uint32_t *n_top_text;      /* bytes of each of top, or NULL */
    const char *top_text;            /* concatenated */
};

struct msg_delta {
    const char *request_id;
    uint32_t sample, seq;
    uint32_t n; /* tokens */
    const int32_t *ids;
    struct wire_text text;
    const float *logprobs;           /* [n], or NULL */
    const uint32_t *n_top;           /* [n], or NULL */
    const struct token_logprob *top; /* concatenated */
    const uint32_t *n_token_text;    /* [n] bytes, or NULL */
    const char *token_text;          /* concatenated */
    const uint32_t *n_top_text;      /* bytes of each of top, or NULL */
    const char *top_text;            /* concatenated */
    struct msg_prompt_scores prompt; /* of sample 0 */
};

/* As Reason of ingot.proto. */
enum msg_reason {
    REASON_NONE,
    REASON_EOS,
    REASON_LENGTH,
    REASON_STOP,
    REASON_CANCELLED,
    REASON_DEADLINE,
    REASON_FAILED,
};
enum { N_REASONS = REASON_FAILED + 1 };

struct msg_sample_end {
    uint32_t sample;
    enum msg_reason reason;
    struct wire_text matched_stop;
    int32_t stop_id; /* -1 = none */
    uint32_t completion_tokens;
};

struct msg_finish {
    const char *request_id;
    uint32_t n_samples;
    const struct msg_sample_end *samples;
    uint32_t prompt_tokens, cached_tokens, completion_tokens;
    uint64_t queue_us, first_token_us, total_us;
    uint32_t preemptions, recoveries;
    uint32_t n_embedding;
    const float *embedding; /* [n_embedding] */
};

struct msg_error { /* Error and Rejected */
    const char *request_id;
    enum status code;
    const char *detail, *field;
    bool retryable;
    uint32_t retry_after_ms; /* Rejected */
    enum msg_type request;   /* Error: the type of the request that it answers; 0: not known */
    bool draining;           /* Rejected */
};

struct msg_tokens {
    const char *request_id;
    uint32_t n_tokens;
    const int32_t *tokens;
    const uint32_t *n_token_text, *n_spelling; /* [n_tokens] bytes, or NULL */
    const char *token_text, *spelling;         /* concatenated */
};

struct msg_text {
    const char *request_id;
    struct wire_text text;
};

struct msg_model_list {
    const char *request_id;
    uint32_t n_models;
    const struct msg_model *models;
};

/* Counts between fixed bounds (common/histogram.h): ingot.proto, Histogram. */
struct msg_histogram {
    uint32_t n;                    /* bounds; 0: absent */
    const uint64_t *bound, *count; /* [n], [n + 1] */
    uint64_t sum;
};

/* The histograms of StatsReply, with their fields. */
#define STATS_HISTOGRAM_ROWS(X)                                                                    \
    X(STATS_FIRST_TOKEN_US, first_token_us)                                                        \
    X(STATS_BETWEEN_TOKENS_US, between_tokens_us)                                                  \
    X(STATS_PER_TOKEN_US, per_token_us)                                                            \
    X(STATS_TOTAL_US, total_us)                                                                    \
    X(STATS_QUEUE_US, queue_us)                                                                    \
    X(STATS_PREFILL_US, prefill_us)                                                                \
    X(STATS_DECODE_US, decode_us)                                                                  \
    X(STATS_INFERENCE_US, inference_us)                                                            \
    X(STATS_PROMPT_TOKENS, request_prompt_tokens)                                                  \
    X(STATS_COMPUTED_PROMPT_TOKENS, request_computed_prompt_tokens)                                \
    X(STATS_COMPLETION_TOKENS, sample_tokens)                                                      \
    X(STATS_LONGEST_SAMPLE_TOKENS, longest_sample_tokens)                                          \
    X(STATS_MAX_TOKENS, request_max_tokens)                                                        \
    X(STATS_SAMPLES, request_samples)                                                              \
    X(STATS_PREEMPTIONS, request_preemptions)                                                      \
    X(STATS_STEP_TOKENS, step_tokens)                                                              \
    X(STATS_GRAMMAR_COMPILE_US, grammar_compile_us)

enum stats_histogram {
#define STATS_HISTOGRAM_ID(id, field) id,
    STATS_HISTOGRAM_ROWS(STATS_HISTOGRAM_ID)
#undef STATS_HISTOGRAM_ID
        N_STATS_HISTOGRAMS
};

struct msg_group {
    uint64_t epoch;
    uint32_t world, slot;
    const char *backend, *coll, *numerics;
    const char *hosts, *address; /* of the ranks; of rank 0's connection */
    uint64_t step_us_p50, step_us_p99;
    struct msg_histogram step_us, collective_us;
    uint32_t running, waiting;
    uint64_t tokens_generated;
    uint32_t blocks_total, blocks_free, blocks_cached; /* 0 unless active */
    struct msg_ranks ranks;
    bool active; /* false: it stands by */
    bool has_weights;
    uint8_t weights[SHA256_BYTES];
};

struct msg_stats {
    const char *request_id;
    uint32_t running, waiting, blocks_total, blocks_free, blocks_cached, clients;
    uint32_t snapshots_total, snapshots_known; /* of states */
    uint64_t steps, steps_overlapped;
    uint64_t tokens_generated, prompt_tokens, cached_tokens, preemptions, pauses, recoveries;
    uint64_t finished, failed, rejected, cancelled;
    uint64_t last_step_age_us, uptime_us, epoch;
    uint32_t block_len;
    uint64_t prefix_queries, prefix_hits;
    uint64_t grammars_compiled, grammars_known, grammars_refused, grammars_dropped;
    uint64_t masks, masks_cached, mask_us, mask_wait_us;
    const char *journal; /* NULL: not said */
    uint32_t n_samples_ended, n_rejected_by_code;
    const uint64_t *samples_ended;    /* [n_samples_ended], by enum msg_reason */
    const uint64_t *rejected_by_code; /* [n_rejected_by_code], by enum status */
    struct msg_histogram histogram[N_STATS_HISTOGRAMS];
    bool ready, draining;
    uint32_t n_groups;
    const struct msg_group *groups;
};

struct msg_pong {
    const char *request_id;
    uint64_t steps, last_step_age_us, epoch;
    uint32_t running, waiting;
    bool ready, draining;
};

struct client_msg {
    enum msg_type type;
    union {
        struct msg_hello hello;
        struct msg_generate generate;
        struct msg_tokenize tokenize;
        struct msg_detokenize detokenize;
        struct msg_apply_template apply_template;
        struct msg_cancel cancel;
        struct msg_cancel_reply cancel_reply;
        struct msg_simple simple;
        struct msg_welcome welcome;
        struct msg_accepted accepted;
        struct msg_delta delta;
        struct msg_finish finish;
        struct msg_error error;
        struct msg_tokens tokens;
        struct msg_text text;
        struct msg_model_list model_list;
        struct msg_stats stats;
        struct msg_pong pong;
    } u;
};

/* Defaults of a Generate: one sample, temperature 1, special tokens skipped; add_special as add
 * says (true for text prompts). */
struct msg_generate msg_generate_default(void);

/* What is read of a request before it is decoded. */
struct request_head {
    enum msg_type type;          /* 0: not a request */
    char id[MAX_REQUEST_ID + 1]; /* "" for Hello, and when no good one was found */
    struct tenant tenant;        /* not of Hello */
    /* of a Generate */
    uint64_t digest; /* of all of its fields but tenant_limits, grace_ms and resume */
    bool has_limits, has_grace;
    struct tenant_limits limits;
    uint32_t grace_ms;
    bool has_resume;
    uint32_t n_resumed; /* samples */
    struct resumed_count {
        uint32_t n_ids, n_scores;
        uint64_t n_text; /* bytes */
    } resumed[MAX_SAMPLES];
};

/* Reads the frame's header and the fields of request_head alone: one pass over the message's
 * outermost fields, nothing is unpacked.  Finds the same ones as client_msg_decode_request in every message that this
 * one takes.  On failure *field is the path of the field at fault or "", and out holds what is
 * known. */
MUST_CHECK enum status client_msg_head(struct request_head *out, const void *data, size_t n,
                                       const char **field);

/* Client -> coordinator.  On failure *field (if not NULL) is the path of the field at fault or "",
 * and *request_id the request it names or "": the reply can say so.  Checks presence, counts, the
 * bounds of sampling parameters and that text is UTF-8. */
MUST_CHECK enum status client_msg_decode_request(struct client_msg *out, const void *data, size_t n,
                                                 struct wire_mem *mem, const char **request_id,
                                                 const char **field);
MUST_CHECK enum status client_msg_encode_request(struct wire_bytes *out,
                                                 const struct client_msg *msg,
                                                 struct wire_mem *mem);

/* Coordinator -> client. */
MUST_CHECK enum status client_msg_decode_reply(struct client_msg *out, const void *data, size_t n,
                                               struct wire_mem *mem);
MUST_CHECK enum status client_msg_encode_reply(struct wire_bytes *out, const struct client_msg *msg,
                                               struct wire_mem *mem);

/* Copies n bytes; ST_RANGE unless 1 to MAX_TENANT. */
MUST_CHECK enum status tenant_of_bytes(struct tenant *out, const void *data, size_t n);
bool tenant_equal(const struct tenant *a, const struct tenant *b);

/* "eos", "length", "stop", "cancelled", "deadline", "failed". */
const char *msg_reason_name(enum msg_reason r);

#endif
