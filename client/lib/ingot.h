/* libingot: the C client of an Ingot server.
 *
 *   struct ingot_client *c;
 *   struct ingot_event ev;
 *   if (ingot_connect(&c, "tcp://127.0.0.1:5555", 5000) != INGOT_OK)
 *       die(ingot_last_error());
 *   struct ingot_request r = ingot_request_default();
 *   r.text = "Once upon a time";
 *   r.n_text = strlen(r.text);
 *   ingot_generate(c, &r, NULL);
 *   while (ingot_next(c, &ev, 10000) == INGOT_OK && ev.kind != INGOT_EVENT_FINISH &&
 *          ev.kind != INGOT_EVENT_ERROR)
 *       if (ev.kind == INGOT_EVENT_DELTA)
 *           fwrite(ev.text, 1, ev.n_text, stdout);
 *   ingot_close(c);
 *
 * A client may be used by one thread at a time.  Any number of requests may run at once over one
 * client; their events are interleaved, and each names its request.  Pointers in an event are valid
 * until the next call with the same client.  Functions return a code; ingot_last_error() returns the
 * text of this thread's last failure. */
#ifndef INGOT_H
#define INGOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values are those of the protocol. */
enum ingot_code {
    INGOT_OK = 0,
    INGOT_OUT_OF_MEMORY,
    INGOT_IO,
    INGOT_FORMAT,
    INGOT_RANGE,
    INGOT_UNSUPPORTED,
    INGOT_BUSY,
    INGOT_CANCELLED,
    INGOT_TIMEOUT,
    INGOT_PEER,
    INGOT_DEVICE,
    INGOT_BUG,
    INGOT_NOT_FOUND,
};

const char *ingot_code_name(enum ingot_code code); /* "range"; never NULL */
const char *ingot_last_error(void);
const char *ingot_version(void);

struct ingot_client;

enum { INGOT_TENANT_SIZE = 64, INGOT_TOKEN_SIZE = 64 };

struct ingot_options {
    const char *endpoint; /* one or several with commas between them; NULL: tcp://127.0.0.1:5555 */
    uint32_t timeout_ms;
    /* When the connection is lost, ingot_next connects again, to the same or the next endpoint, tries
     * that for so long, and resumes all requests of ingot_generate: their events go on as if nothing had
     * happened.  A server of several that has no worker group for 1.5 s while requests run is left for the next in the
     * same way, and a request that ends because the server's memory is short is sent again with what it has.
     * 0: ingot_next returns INGOT_PEER, and the program calls ingot_reconnect. */
    uint32_t reconnect_ms;
    const void *tenant; /* 1 to INGOT_TENANT_SIZE bytes; NULL: a random one, for this client */
    size_t n_tenant;
    const void *tenants_secret; /* the server's; with it requests may name any tenant; NULL: none */
    size_t n_tenants_secret;
    const void
        *token; /* 16 to INGOT_TOKEN_SIZE bytes that only this program knows; NULL: random ones */
    size_t n_token;
    /* The path of this program's key (ingot key new), and the server's public key or the path of a file with it: over
     * TCP the connection is encrypted, and each side proves its key.  NULL, both: no keys. */
    const char *key, *server_key;
    /* Without a key: if the endpoint is a TCP port of this host, connect to the ipc endpoint that its server has for
     * operators (ingot_drain), where the kernel tells whose process this is. */
    bool operate;
};

/* Connects and exchanges Hello with the server.  INGOT_TIMEOUT: no answer within timeout_ms.
 * INGOT_PEER: the server refuses the key, or this client has none and the server wants one.
 *
 * Requests belong to the tenant and token together: a client with the same tenant and the same token
 * can attach to them and cancel them, and its prompts share blocks of the server's prefix cache.  With
 * another token the same tenant is another owner. */
enum ingot_code ingot_open(struct ingot_client **out, const struct ingot_options *o);
/* ingot_open with this endpoint, this timeout and a random tenant. */
enum ingot_code ingot_connect(struct ingot_client **out, const char *endpoint, uint32_t timeout_ms);
/* Replaces a broken or silent connection by a new one of the same tenant.  Unread events are
 * lost, and requests are not resumed.  ingot_generate with the same request and request_id attaches to the running
 * request and gives all its events from the beginning. */
enum ingot_code ingot_reconnect(struct ingot_client *c, uint32_t timeout_ms);
/* false: the connection is lost, and ingot_next is making a new one. */
bool ingot_connected(const struct ingot_client *c);
/* Valid as long as c. */
const void *ingot_tenant(const struct ingot_client *c, size_t *n);
const void *ingot_token(const struct ingot_client *c, size_t *n);
void ingot_close(struct ingot_client *c); /* c may be NULL; running requests are abandoned */

struct ingot_model {
    const char *name;
    /* hexadecimal; "": not known */
    char weights_digest[65], text_digest[65];
    char weights_from[16]; /* "own", "told", "pending", "none": proto/ingot.proto, ModelInfo */
    uint32_t vocab;        /* ids are below it */
    uint32_t max_ctx;      /* tokens, prompt and answer together */
    uint32_t world;        /* ranks; 0 while there is no worker group */
    bool chat;             /* has a chat template */
    /* format of tool calls (proto/ingot.proto, ModelInfo): "hermes" ...; "": not known */
    char tool_format[16];
    char think_open[32], think_close[32]; /* marks of thinking; "": none, or not known */
    uint32_t embedding;                   /* components of its embeddings; 0: it gives none */
    bool rerank;                          /* it gives scores of a query and a document */
};

struct ingot_server {
    const char *version; /* version and build: "ingot 0.1.0 (...)" */
    uint64_t epoch;      /* changes when the server is restarted */
    uint64_t max_message_bytes;
    uint32_t max_prompt_tokens, max_queued, max_samples;
    bool any_tenant; /* requests may name any tenant */
    struct ingot_model model;
};

/* The server's answer to Hello; valid as long as the client.  The model's sizes are 0 until a worker group
 * has connected; each INGOT_EVENT_PONG after ingot_probe updates them. */
const struct ingot_server *ingot_server(const struct ingot_client *c);

/* ---- requests ---- */

struct ingot_turn {
    const char *role, *content;
    size_t n_content; /* bytes */
    const char *json; /* the whole message as a JSON object; replaces role and content; or NULL */
    size_t n_json;
};

struct ingot_bias {
    int32_t id;
    float bias; /* [-100, 100] */
};

/* Limits of a tenant over all its connections; 0: no limit.  A request beyond them gets INGOT_BUSY. */
struct ingot_limits {
    uint32_t max_samples; /* in flight */
    uint32_t tokens_per_minute;
};

/* What an answer must follow (proto/ingot.proto, Grammar). */
enum ingot_grammar {
    INGOT_GRAMMAR_NONE,
    INGOT_GRAMMAR_JSON_SCHEMA,
    INGOT_GRAMMAR_JSON_OBJECT, /* without a source */
    INGOT_GRAMMAR_REGEX,
    INGOT_GRAMMAR_CHOICE, /* source: a JSON array of strings */
    INGOT_GRAMMAR_TAGS,   /* source: structural tags, a JSON object */
    INGOT_GRAMMAR_GBNF,   /* source: a context-free grammar */
    /* what requests with a thinking_budget become; not with turns */
    INGOT_GRAMMAR_THINKING,
    INGOT_GRAMMAR_THINKING_TAGS,
};

/* Must the answer call tools (proto/ingot.proto, ToolChoice)? */
enum ingot_tool_choice {
    INGOT_TOOL_AUTO, /* as the model decides */
    INGOT_TOOL_REQUIRED,
    INGOT_TOOL_NAMED, /* the tool tool_name */
};

/* Exactly one of text, ids and turns must be set. */
struct ingot_request {
    const char *request_id; /* 1 to 64 bytes; NULL: chosen by the library */
    const void *tenant;     /* NULL: the client's; the server must allow any other */
    size_t n_tenant;
    const char *model; /* NULL: the server's only one */
    const char *text;
    size_t n_text; /* bytes */
    const int32_t *ids;
    size_t n_ids;
    const struct ingot_turn *turns;
    size_t n_turns;
    const char *tools_json, *variables_json; /* NULL: none; with turns */
    enum ingot_tool_choice tool_choice;      /* with tools_json */
    const char *tool_name;                   /* with INGOT_TOOL_NAMED */
    bool
        one_call; /* at most one call, where calls follow a grammar: INGOT_TOOL_REQUIRED, strict tools */
    bool add_generation_prompt, continue_final_message;
    bool add_special; /* add BOS and similar tokens to text; ignored with ids and turns */
    /* with turns: the current time for the template; unset: the server's clock and zone */
    bool has_clock, has_zone;
    int64_t clock_s; /* seconds since 1970 UTC */
    int32_t zone_s;  /* seconds east of UTC */

    /* NaN or INGOT_TOP_K_UNSET: the value that the server's model recommends, else the protocol's default */
    float temperature; /* 0 = greedy */
    float top_p, min_p;
    uint32_t top_k; /* 0 = off */
    float repetition_penalty, presence_penalty, frequency_penalty;
    bool has_seed; /* false: the library derives the seed from tenant and request_id */
    uint64_t seed;
    const struct ingot_bias *bias;
    size_t n_bias;
    uint32_t min_tokens, max_tokens; /* max_tokens 0: to the end of the context */
    bool ignore_eos;
    const int32_t *stop_ids;
    size_t n_stop_ids;
    const char *const *stops; /* NUL-terminated stop strings */
    size_t n_stops;
    bool include_stop, logprobs;
    uint32_t top_logprobs;
    bool prompt_logprobs; /* of the prompt's tokens: in the events DELTA of sample 0 */
    uint32_t prompt_top;  /* and the most probable tokens, at most 20; implies prompt_logprobs */
    uint32_t n;           /* samples */
    uint32_t deadline_ms; /* 0 = none */
    int32_t priority;
    bool skip_special;
    bool want_prompt_ids, want_prompt_text; /* in the event ACCEPTED */
    bool want_token_text;                   /* in the events DELTA; also for the tokens of top */
    enum ingot_grammar grammar_kind; /* what the answer must follow; INGOT_GRAMMAR_NONE: anything */
    const void *grammar;             /* its source, UTF-8 */
    size_t n_grammar;
    bool has_thinking_budget; /* with turns, of a model with marks of thinking */
    uint32_t thinking_budget; /* tokens of thinking, then it is closed */
    /* The prompt's embedding is wanted, no answer: FINISH has it; fields of answers have no effect. */
    bool embed;
    const char
        *prompt_name;    /* with embed and text: of the model's prompts; NULL: its default one */
    uint32_t dimensions; /* of the embedding; 0: all */
    /* With embed and text, of a reranker: the score of the text, a query, and this document is the one
     * component of the embedding.  NULL: none. */
    const char *document;
    size_t n_document; /* bytes */
    const uint32_t
        *token_types; /* [n_ids] with embed and ids, of an encoder's tokens; NULL: all 0 */
    bool keep_marks; /* the marks of tool calls and thinking are text, whatever skip_special says */
    const struct ingot_limits *limits; /* of the tenant; NULL: no limits, usage is not counted */
    bool has_grace;
    uint32_t grace_ms;         /* how long the request continues after this connection is lost */
    const void *client_digest; /* at most 64 bytes; part of the request's identity; NULL: none */
    size_t n_client_digest;
};

#define INGOT_TOP_K_UNSET UINT32_MAX

struct ingot_request ingot_request_default(void);

enum { INGOT_ID_SIZE = 65 };

/* Sends the request; id (may be NULL) gets its request id.  Does not wait. */
enum ingot_code ingot_generate(struct ingot_client *c, const struct ingot_request *r,
                               char id[INGOT_ID_SIZE]);
/* Cancels a request of the client's own tenant.  Its Finish comes as an event; if the request has
 * ended or is not known, no event comes. */
enum ingot_code ingot_cancel(struct ingot_client *c, const char *request_id);

/* A request packed into the bytes of its message, for programs that send it again: to attach to it
 * after a connection was lost, or to have another server compute it again. */
struct ingot_packed;
/* As ingot_generate, but packs the request and does not send it. */
enum ingot_code ingot_pack(struct ingot_client *c, const struct ingot_request *r,
                           struct ingot_packed **out);
const char *ingot_packed_id(const struct ingot_packed *p);
/* c may be any client; if its tenant is another one, the request must name its tenant. */
enum ingot_code ingot_send_packed(struct ingot_client *c, const struct ingot_packed *p);
/* Cancels the request, as ingot_cancel. */
enum ingot_code ingot_cancel_packed(struct ingot_client *c, const struct ingot_packed *p);
void ingot_packed_free(struct ingot_packed *p); /* NULL is fine */

/* ---- events ---- */

/* How a request samples, with all defaults filled in. */
struct ingot_sampling {
    float temperature, top_p, min_p;
    uint32_t top_k;
    float repetition_penalty, presence_penalty, frequency_penalty;
    uint64_t seed; /* of sample 0 */
    uint32_t min_tokens, top_logprobs, prompt_top;
    bool ignore_eos, logprobs, prompt_logprobs;
    const struct ingot_bias *bias;
    size_t n_bias;
};

enum ingot_event_kind {
    INGOT_EVENT_ACCEPTED,
    INGOT_EVENT_DELTA,
    INGOT_EVENT_FINISH, /* terminal */
    INGOT_EVENT_ERROR,  /* terminal: Error or Rejected; also for queries */
    INGOT_EVENT_PONG,   /* the answer to ingot_probe; belongs to no request */
    INGOT_EVENT_TOKENS, /* the answer to ingot_send_tokenize */
    INGOT_EVENT_STATS,  /* the answer to ingot_send_stats */
    INGOT_EVENT_TEXT,   /* the answer to ingot_send_detokenize and ingot_send_apply_template */
};

enum ingot_reason {
    INGOT_REASON_NONE,
    INGOT_REASON_EOS,
    INGOT_REASON_LENGTH,
    INGOT_REASON_STOP,
    INGOT_REASON_CANCELLED,
    INGOT_REASON_DEADLINE,
    INGOT_REASON_FAILED,
};

const char *ingot_reason_name(enum ingot_reason reason);

struct ingot_logprob {
    int32_t id;
    float logprob;
};

/* Log probabilities of the next tokens of the prompt.  The first token of a prompt has none: its entry is 0. */
struct ingot_prompt_logprobs {
    uint32_t n;
    const float *logprobs; /* [n] */
    const uint32_t *ranks; /* [n]; 1: the most probable token; 0: not among the first 64 */
    const uint32_t *n_top; /* [n] or NULL */
    const struct ingot_logprob *top; /* concatenated */
    const uint32_t *n_token_text;    /* [n] bytes, or NULL */
    const char *token_text;          /* concatenated */
    const uint32_t *n_top_text;      /* bytes of each of top, or NULL */
    const char *top_text;            /* concatenated */
};

struct ingot_sample_end {
    uint32_t sample;
    enum ingot_reason reason;
    const char *matched_stop; /* not NUL-terminated */
    size_t n_matched_stop;
    int32_t stop_id; /* -1: none */
    uint32_t completion_tokens;
};

struct ingot_event {
    enum ingot_event_kind kind;
    const char *request_id;
    /* ACCEPTED, FINISH */
    uint32_t prompt_tokens;
    /* ACCEPTED */
    uint32_t queue_position;
    uint64_t seed;
    bool attached;                /* to an earlier request; its text comes again, in other deltas */
    const uint8_t *prompt_digest; /* [32] SHA-256 over the prompt's ids, each as 4 bytes, little
                                     endian; NULL: cancelled before the prompt was known; then the
                                     following fields of ACCEPTED are not set */
    const int32_t *prompt_ids;    /* [prompt_tokens] when wanted, else NULL */
    bool has_clock;               /* with turns: the clock that the template was given */
    int64_t clock_s;
    int32_t zone_s;
    uint32_t max_tokens, n_stop_ids;
    const int32_t *stop_ids; /* the model's end-of-sequence ids and the request's own */
    const struct ingot_sampling *sampling;
    bool starts_in_reasoning; /* with turns: the prompt ends inside thinking */
    const char *prompt_text;  /* when wanted, else NULL; not NUL-terminated */
    size_t n_prompt_text;
    /* DELTA; ids and token_text of TOKENS, text of TEXT */
    uint32_t sample, seq, n_ids;
    const int32_t *ids;
    const char *text; /* UTF-8 in whole characters, not NUL-terminated */
    size_t n_text;
    const float *logprobs;           /* [n_ids] or NULL */
    const uint32_t *n_top;           /* [n_ids] or NULL */
    const struct ingot_logprob *top; /* concatenated */
    const uint32_t *n_token_text;    /* [n_ids] bytes that each id adds to the text, or NULL */
    const char *token_text; /* concatenated; not UTF-8 where a token holds a part of a character */
    const uint32_t
        *n_spelling; /* TOKENS: [n_ids] bytes of each id as the vocabulary spells it, or NULL */
    const char *spelling;                /* concatenated */
    const uint32_t *n_top_text;          /* bytes of each of top, or NULL */
    const char *top_text;                /* concatenated */
    struct ingot_prompt_logprobs prompt; /* DELTA; n 0: none */
    /* FINISH */
    uint32_t n_samples;
    const struct ingot_sample_end *samples;
    uint32_t cached_tokens, completion_tokens, preemptions, recoveries;
    uint64_t queue_us, first_token_us, total_us;
    const float *embedding; /* [n_embedding], or NULL */
    uint32_t n_embedding;
    /* ERROR */
    enum ingot_code code;
    const char *detail, *field;
    bool retryable, rejected;
    uint32_t retry_after_ms;
    bool draining; /* rejected because the server ends; in PONG: it accepts no new requests */
    /* PONG */
    uint64_t epoch; /* differs from ingot_server's: the server was restarted, connect again */
    bool ready;     /* a worker group is connected */
    /* STATS */
    const struct ingot_stats *stats;
};

/* Asks the server for a sign of life without waiting; INGOT_EVENT_PONG comes as an event.  For programs
 * with an event loop of their own; ingot_ping waits for the answer. */
enum ingot_code ingot_probe(struct ingot_client *c);

/* The next event of any request.  INGOT_TIMEOUT: none within timeout_ms.  INGOT_PEER: no server has
 * answered for reconnect_ms; or, if that is 0, the connection has ended, or the server has been silent for longer than its heartbeats allow (only time in which
 * this process listened counts).  All events that had arrived have then been returned; call
 * ingot_reconnect.  INGOT_OUT_OF_MEMORY: what a message brings could not be kept.  The connection has ended with it, so
 * that nothing is left out: the next call goes on over a new one, or, if reconnect_ms is 0, returns INGOT_PEER.  The
 * queries that wait for their reply do the same to events that arrive meanwhile. */
enum ingot_code ingot_next(struct ingot_client *c, struct ingot_event *ev, uint32_t timeout_ms);

/* A descriptor that becomes readable when ingot_next may have an event.  It is edge-triggered, like
 * ZeroMQ's: call ingot_next with timeout 0 until it returns INGOT_TIMEOUT. */
int ingot_fd(const struct ingot_client *c);

/* ---- queries that do not wait ---- */

/* The reply comes as an event: INGOT_EVENT_TOKENS, INGOT_EVENT_TEXT, INGOT_EVENT_STATS or
 * INGOT_EVENT_ERROR.  With reconnect_ms a query whose connection was lost before its reply came ends with
 * INGOT_EVENT_ERROR, INGOT_PEER and retryable.  request_id: 1 to 64 bytes, different from those of all running queries and
 * requests of this client. */
enum ingot_code ingot_send_tokenize(struct ingot_client *c, const char *request_id,
                                    const char *text, size_t n, bool add_special,
                                    bool want_token_text);
/* As ingot_tokenize_chat, with the request_id of r. */
enum ingot_code ingot_send_tokenize_chat(struct ingot_client *c, const struct ingot_request *r,
                                         bool add_special, bool want_token_text);
enum ingot_code ingot_send_detokenize(struct ingot_client *c, const char *request_id,
                                      const int32_t *ids, size_t n, bool skip_special);
/* As ingot_apply_template, with the request_id of r. */
enum ingot_code ingot_send_apply_template(struct ingot_client *c, const struct ingot_request *r);

enum ingot_code ingot_send_stats(struct ingot_client *c, const char *request_id);

/* ---- queries, which wait for the reply ---- */

/* Results are valid until the next call with the same client. */
enum ingot_code ingot_tokenize(struct ingot_client *c, const char *text, size_t n, bool add_special,
                               const int32_t **ids, size_t *n_ids);
/* The tokens of the prompt that a generation makes of the chat in r; uses the fields that ingot_apply_template uses.
 * The tokens of the text from ingot_apply_template may differ: there, control tokens that the content spells cannot
 * be told from those of the template (`--parse-special none`). */
enum ingot_code ingot_tokenize_chat(struct ingot_client *c, const struct ingot_request *r,
                                    bool add_special, const int32_t **ids, size_t *n_ids);
enum ingot_code ingot_detokenize(struct ingot_client *c, const int32_t *ids, size_t n,
                                 bool skip_special, const char **text, size_t *n_text);
/* Uses turns, tools_json, variables_json, add_generation_prompt and continue_final_message of r. */
enum ingot_code ingot_apply_template(struct ingot_client *c, const struct ingot_request *r,
                                     const char **text, size_t *n_text);
enum ingot_code ingot_models(struct ingot_client *c, const struct ingot_model **models, size_t *n);

/* A histogram of all values since the server started. */
struct ingot_histogram {
    uint32_t n;            /* number of bounds; 0: the server does not report this histogram */
    const uint64_t *bound; /* [n] ascending */
    const uint64_t *count; /* [n + 1]: values in (bound[i - 1], bound[i]]; last: above all bounds */
    uint64_t sum;
};

/* Times are in us, one per request; BETWEEN_TOKENS and PER_TOKEN are counted for each sample. */
enum ingot_histogram_id {
    INGOT_FIRST_TOKEN_US,
    INGOT_BETWEEN_TOKENS_US,
    INGOT_PER_TOKEN_US, /* the mean time between the tokens of a sample */
    INGOT_TOTAL_US,
    INGOT_QUEUE_US,
    INGOT_PREFILL_US,   /* first step to first token */
    INGOT_DECODE_US,    /* first token to last one */
    INGOT_INFERENCE_US, /* first step to last token */
    INGOT_PROMPT_TOKENS,
    INGOT_COMPUTED_PROMPT_TOKENS,
    INGOT_COMPLETION_TOKENS, /* of each sample */
    INGOT_LONGEST_SAMPLE_TOKENS,
    INGOT_MAX_TOKENS,
    INGOT_SAMPLES,
    INGOT_PREEMPTIONS,
    INGOT_STEP_TOKENS,        /* of each step */
    INGOT_GRAMMAR_COMPILE_US, /* of each grammar that was compiled */
    INGOT_HISTOGRAMS
};

/* Columns of n ranks each. */
struct ingot_ranks {
    uint32_t n;                    /* 0: not known yet */
    const uint64_t *steps;         /* since the group connected, about a second old */
    const uint64_t *step_us;       /* time in them, collectives included */
    const uint64_t *collective_us; /* in their collectives, waiting for other ranks included */
    const uint64_t *kv_bytes;      /* size of the rank's part of the KV cache */
};

struct ingot_group {
    uint64_t epoch;
    uint32_t world, slot; /* slot: 0..63, used again after the group is lost */
    const char *backend, *coll;
    const char *numerics;    /* numerics id: the settings that change bits */
    const char *hosts;       /* of its ranks, each with its ranks: "w1 0-3, w2 4-7" */
    const char *address;     /* from which rank 0 has connected; "": over ipc */
    char weights_digest[65]; /* hexadecimal; "": not known yet */
    uint64_t step_us_p50, step_us_p99;
    struct ingot_histogram step_us,
        collective_us;         /* collective_us: of rank 0; absent with one rank */
    uint32_t running, waiting; /* samples that it runs, and will run next */
    uint64_t tokens_generated; /* since it connected */
    uint32_t blocks_total, blocks_free, blocks_cached; /* of its KV cache; 0 unless active */
    struct ingot_ranks ranks;
    bool active; /* it runs steps; false: it stands by */
};

struct ingot_stats {
    uint32_t running, waiting, blocks_total, blocks_free, blocks_cached, clients;
    uint32_t snapshots_total, snapshots_known; /* of states beside the KV cache */
    uint64_t steps, steps_overlapped;          /* overlapped: sent while another one ran */
    uint64_t tokens_generated, prompt_tokens, cached_tokens, recoveries;
    uint64_t preemptions; /* samples that lost their cache blocks because blocks ran out */
    uint64_t pauses; /* samples that went back to the queue: end of a turn, or a higher priority */
    uint64_t finished, failed, rejected, cancelled;
    uint64_t last_step_age_us, uptime_us, epoch;
    uint32_t block_tokens;                /* tokens in one block */
    uint64_t prefix_queries, prefix_hits; /* prompt tokens looked up and found, per sample */
    /* Grammars of requests: compiled (or refused while compiling), not compiled because the same source had been,
     * refused, given up because the client had left. */
    uint64_t grammars_compiled, grammars_known, grammars_refused, grammars_dropped;
    /* Masks of the active groups' rank 0: taken, of these found ready, time of all, and for which steps waited for
     * them. */
    uint64_t masks, masks_cached, mask_us, mask_wait_us;
    const char *journal; /* "batch", "each" or "not durable: REASON"; "": an older server */
    uint64_t samples_ended[INGOT_REASON_FAILED + 1];
    uint64_t rejected_by_code[INGOT_NOT_FOUND + 1]; /* requests */
    struct ingot_histogram histogram[INGOT_HISTOGRAMS];
    bool ready, draining;
    uint32_t n_groups;
    struct ingot_group groups[64];
};

enum ingot_code ingot_stats(struct ingot_client *c, struct ingot_stats *out);

struct ingot_pong {
    uint64_t steps, last_step_age_us, epoch;
    uint32_t running, waiting;
    bool ready, draining;
};

enum ingot_code ingot_ping(struct ingot_client *c, struct ingot_pong *out);
/* Makes the server refuse new requests, finish the running ones and end.  *running gets the
 * number of running requests. */
enum ingot_code ingot_drain(struct ingot_client *c, uint32_t timeout_ms, uint32_t *running);

#ifdef __cplusplus
}
#endif

#endif
