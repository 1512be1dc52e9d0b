#include "tests/wire/fixtures.h"

#include <assert.h>
#include <string.h>

#define TEXT(s) ((struct wire_text){(s), sizeof(s) - 1})

static const int32_t ids[] = {1, 300, 70000};
static const struct logit_bias bias[] = {{5, -100.0f}, {9, 2.5f}};
static const int32_t stop_ids[] = {2, 3};
static const struct wire_text stops[] = {{"\n\n", 2}, {"END", 3}};

static struct sample_params params(void)
{
    return (struct sample_params){.temperature = 0.75f,
                                  .top_p = 0.9f,
                                  .min_p = 0.05f,
                                  .top_k = 40,
                                  .repetition_penalty = 1.1f,
                                  .presence_penalty = 0.5f,
                                  .frequency_penalty = -0.25f,
                                  .min_new = 4,
                                  .seed = 0x0123456789abcdefU,
                                  .top_logprobs = 3,
                                  .logprobs = true};
}

static struct msg_accepted accepted(void)
{
    return (struct msg_accepted){
        .request_id = "req-1",
        .prompt_tokens = 3,
        .queue_position = 3,
        .seed = 0xfedcba9876543210U,
        .attached = true,
        .prompt_digest = (const uint8_t *)"0123456789abcdef0123456789abcde\xff",
        .n_prompt_ids = 3,
        .prompt_ids = ids,
        .has_clock = true,
        .clock_s = 1700000000,
        .zone_s = -12600,
        .max_tokens = 100,
        .n_stop_ids = 2,
        .stop_ids = stop_ids,
        .sampling = {.sp = params(), .has_seed = true, .n_bias = 2, .bias = bias},
        .starts_in_reasoning = true,
        .prompt_text = TEXT("pro\0mpt"),
        .weights = (const uint8_t *)"weights-------------------------",
        .text = (const uint8_t *)"text----------------------------",
        .numerics = "1/cpu/strict"};
}

static struct msg_generate generate_text(void)
{
    static const struct msg_resumed_sample samples[4] = {
        {3, ids, 7, 17}, {0}, {1, ids, 0, 0}, {2, ids, 9, 0}};
    static struct msg_accepted first;
    static const struct msg_resume resume = {&first, 4, 2500, samples};
    first = accepted();
    struct msg_generate g = msg_generate_default();
    g.sampling.unset = 0;
    g.request_id = "req-1";
    g.model = "demo";
    g.kind = PROMPT_TEXT;
    g.text = TEXT("na\xc3\xafve\0text");
    g.sampling.sp = params();
    g.sampling.has_seed = true;
    g.sampling.ignore_eos = true;
    g.sampling.n_bias = 2;
    g.sampling.bias = bias;
    g.sampling.n_stop_ids = 2;
    g.sampling.stop_ids = stop_ids;
    g.max_tokens = 128;
    g.n_stops = 2;
    g.stops = stops;
    g.include_stop = true;
    g.n = 4;
    g.deadline_ms = 1500;
    g.priority = -7;
    g.skip_special = false;
    g.add_special = false;
    g.tenant = (struct tenant){4, "acme"};
    g.want_prompt_ids = g.want_prompt_text = g.want_token_text = g.keep_marks = true;
    g.has_limits = true;
    g.limits = (struct tenant_limits){.max_samples = 8, .tokens_per_minute = 100000};
    g.has_grace = true;
    g.grace_ms = 10000;
    g.client_digest = TEXT("\1\2\3");
    g.grammar_kind = 3;
    g.grammar = TEXT("[a-z]+");
    g.resume = &resume;
    return g;
}

static struct msg_generate generate_chat(void)
{
    static const struct msg_turn turns[] = {
        {.role = "system", .content = {"Be brief.", 9}, .json = {"", 0}},
        {.role = "", .content = {"", 0}, .json = {"{\"role\":\"user\",\"content\":[]}", 28}},
    };
    struct msg_generate g = msg_generate_default();
    g.sampling.unset = 0;
    g.request_id = "req-2";
    g.kind = PROMPT_CHAT;
    g.chat = (struct msg_chat){.n_turns = 2,
                               .turns = turns,
                               .tools_json = TEXT("[]"),
                               .variables_json = TEXT("{\"enable_thinking\":false}"),
                               .add_generation_prompt = true,
                               .has_clock = true,
                               .has_zone = true,
                               .clock_s = 1700000000,
                               .zone_s = -12600};
    g.add_special = false;
    g.has_thinking_budget = true;
    g.thinking_budget = 300;
    return g;
}

static struct step_plan plan(void)
{
    static struct plan_seq seqs[] = {
        {.seq_id = 0x100000010U,
         .pos = 0,
         .n_tokens = 3,
         .token_off = 0,
         .n_blocks = 1,
         .block_off = 0,
         .want = WANT_NONE,
         .keep = 3},
        {.seq_id = 7,
         .pos = 31,
         .n_tokens = 1,
         .token_off = 3,
         .n_blocks = 0,
         .block_off = 1,
         .want = WANT_LAST,
         .restore = 200},
    };
    static int32_t tokens[] = {1, 300, 70000, TOKEN_OF_LAST_STEP}, blocks[] = {42},
                   history[] = {8, 9};
    static int32_t plan_stops[] = {2};
    static struct logit_bias plan_bias[] = {{5, -1.5f}};
    static struct plan_open opens[1];
    static uint64_t closes[] = {3, 4};
    opens[0] = (struct plan_open){.seq_id = 0x100000010U,
                                  .sp = params(),
                                  .n_prompt = 5,
                                  .n_history = 2,
                                  .n_stop_ids = 1,
                                  .n_bias = 1};
    return (struct step_plan){.step_id = 12,
                              .epoch = 99,
                              .n_seqs = 2,
                              .n_tokens = 4,
                              .n_blocks = 1,
                              .n_opens = 1,
                              .n_closes = 2,
                              .n_history = 2,
                              .n_stop_ids = 1,
                              .n_bias = 1,
                              .seqs = seqs,
                              .tokens = tokens,
                              .blocks = blocks,
                              .opens = opens,
                              .closes = closes,
                              .history = history,
                              .stop_ids = plan_stops,
                              .bias = plan_bias};
}

static struct step_result result(void)
{
    static struct result_token tokens[3] = {
        {.seq_id = 7, .token = 11, .logprob = -0.5f, .n_top = 2, .top = {{11, -0.5f}, {12, -1.5f}}},
        {.seq_id = 8, .token = 0, .logprob = -2.0f, .n_top = 0},
        {.seq_id = 9, .token = TOKEN_GRAMMAR_STUCK, .place = "#/properties/a"},
    };
    return (struct step_result){.step_id = 12,
                                .epoch = 99,
                                .n = 3,
                                .tokens = tokens,
                                .compute_us = 1234,
                                .comm_us = 56,
                                .masks = 4,
                                .masks_cached = 3,
                                .mask_us = 120,
                                .mask_wait_us = 7};
}

static void replies(struct fixture *f)
{
    static const float logprobs[] = {-0.5f, -1.0f, -1.5f};
    static const uint32_t n_top[] = {1, 0, 2};
    static const uint32_t n_token_text[] = {1, 0, 5}, n_top_text[] = {1, 1, 0};
    static const struct token_logprob top[] = {{1, -0.5f}, {5, -1.5f}, {6, -1.75f}};
    static const struct msg_model model = {.name = "demo",
                                           .has_weights = true,
                                           .has_text = true,
                                           .weights = {1, 2, 3},
                                           .text = {4, 5, 6},
                                           .weights_from = "own",
                                           .vocab = 512,
                                           .max_ctx = 1024,
                                           .world = 2,
                                           .chat = true,
                                           .tool_format = "hermes",
                                           .think_open = {"<think>", 7},
                                           .think_close = {"</think>", 8}};
    static const struct msg_sample_end ends[] = {
        {0, REASON_STOP, {"END", 3}, -1, 12},
        {1, REASON_EOS, {"", 0}, 2, 9},
    };
    f[0] = (struct fixture){.name = "welcome", .kind = FIX_REPLY, .client.type = MSG_WELCOME};
    f[0].client.u.welcome = (struct msg_welcome){.major = 1,
                                                 .epoch = 5,
                                                 .server = "ingot test",
                                                 .n_models = 1,
                                                 .models = &model,
                                                 .max_message_bytes = 1 << 24,
                                                 .max_prompt_tokens = 1023,
                                                 .max_queued = 64,
                                                 .max_samples = 16,
                                                 .heartbeat_ms = 200,
                                                 .tenant = {5, "a\0b\xff!"},
                                                 .any_tenant = true};
    f[1] = (struct fixture){.name = "accepted", .kind = FIX_REPLY, .client.type = MSG_ACCEPTED};
    f[1].client.u.accepted = accepted();
    f[2] = (struct fixture){.name = "delta", .kind = FIX_REPLY, .client.type = MSG_DELTA};
    f[2].client.u.delta = (struct msg_delta){.request_id = "req-1",
                                             .sample = 1,
                                             .seq = 4,
                                             .n = 3,
                                             .ids = ids,
                                             .text = TEXT("h\xc3\xa9llo"),
                                             .logprobs = logprobs,
                                             .n_top = n_top,
                                             .top = top,
                                             .n_token_text = n_token_text,
                                             .token_text = "h\xc3\xa9llo",
                                             .n_top_text = n_top_text,
                                             .top_text = "a\xff"};
    f[3] = (struct fixture){.name = "finish", .kind = FIX_REPLY, .client.type = MSG_FINISH};
    f[3].client.u.finish = (struct msg_finish){.request_id = "req-1",
                                               .n_samples = 2,
                                               .samples = ends,
                                               .prompt_tokens = 17,
                                               .cached_tokens = 16,
                                               .completion_tokens = 21,
                                               .queue_us = 10,
                                               .first_token_us = 20,
                                               .total_us = 300,
                                               .preemptions = 1,
                                               .recoveries = 2};
    f[4] = (struct fixture){.name = "rejected", .kind = FIX_REPLY, .client.type = MSG_REJECTED};
    f[4].client.u.error = (struct msg_error){.request_id = "req-1",
                                             .code = ST_BUSY,
                                             .detail = "queue is full",
                                             .field = "n",
                                             .retryable = true,
                                             .retry_after_ms = 1000,
                                             .draining = true};
}

/* The entry of the first token has its text only. */
static struct msg_delta delta_of_a_prompt(void)
{
    static const float logprobs[] = {0, -0.25f, -3.5f};
    static const uint32_t ranks[] = {0, 1, 300}, n_top[] = {0, 1, 2}, n_token_text[] = {3, 0, 2},
                          n_top_text[] = {2, 1, 0};
    static const struct token_logprob top[] = {{300, -0.25f}, {4, -0.125f}, {70000, -2.5f}};
    return (struct msg_delta){.request_id = "req-5",
                              .prompt = {.n = 3,
                                         .logprobs = logprobs,
                                         .ranks = ranks,
                                         .n_top = n_top,
                                         .top = top,
                                         .n_token_text = n_token_text,
                                         .token_text = "<s>\xc3\xa9",
                                         .n_top_text = n_top_text,
                                         .top_text = "a\xff!"}};
}

/* Every field set; the histograms are 1 to N_STATS_HISTOGRAMS bounds long. */
static struct msg_ranks figures_of_two_ranks(void)
{
    static const uint64_t steps[] = {40, 41}, step_us[] = {5000, 300}, collective_us[] = {70, 0},
                          kv_bytes[] = {1u << 20, 1ull << 40};
    return (struct msg_ranks){2, steps, step_us, collective_us, kv_bytes};
}

static struct msg_stats stats(void)
{
    static const uint64_t bound[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                     1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000},
                          count[ARRAY_LEN(bound) + 1] = {3, 0, 1, 0, 0, 70000, 9},
                          ended[N_REASONS] = {0, 4, 5, 6, 7, 8, 9},
                          rejected[ST_N] = {[ST_RANGE] = 2, [ST_BUSY] = 300, [ST_NOT_FOUND] = 1};
    static struct msg_group group = {.epoch = 8,
                                     .world = 2,
                                     .slot = 3,
                                     .backend = "cpu",
                                     .coll = "shm",
                                     .numerics = "1/cpu/strict/a8/kv-f16/tp1.2.4.8",
                                     .hosts = "w1 0, w2 1-2",
                                     .address = "10.77.0.2",
                                     .running = 5,
                                     .waiting = 6,
                                     .tokens_generated = 70001,
                                     .blocks_total = 320,
                                     .blocks_free = 300,
                                     .blocks_cached = 15,
                                     .step_us_p50 = 900,
                                     .step_us_p99 = 1000,
                                     .step_us = {3, bound, count, 77},
                                     .collective_us = {2, bound, count, 7},
                                     .active = true,
                                     .has_weights = true,
                                     .weights = {1, 2, 3}};
    group.ranks = figures_of_two_ranks();
    struct msg_stats s = {.request_id = "req-4",
                          .running = 1,
                          .waiting = 2,
                          .blocks_total = 640,
                          .blocks_free = 600,
                          .blocks_cached = 30,
                          .snapshots_total = 64,
                          .snapshots_known = 9,
                          .clients = 3,
                          .steps = 1000,
                          .steps_overlapped = 900,
                          .tokens_generated = 70000,
                          .prompt_tokens = 80000,
                          .cached_tokens = 4000,
                          .pauses = 31,
                          .preemptions = 5,
                          .recoveries = 6,
                          .finished = 7,
                          .failed = 8,
                          .rejected = 303,
                          .cancelled = 10,
                          .last_step_age_us = 11,
                          .uptime_us = 12,
                          .epoch = 13,
                          .block_len = 16,
                          .prefix_queries = 90000,
                          .prefix_hits = 5000,
                          .grammars_compiled = 21,
                          .grammars_known = 22,
                          .grammars_refused = 23,
                          .grammars_dropped = 24,
                          .masks = 1025,
                          .masks_cached = 1026,
                          .mask_us = 1027,
                          .mask_wait_us = 1028,
                          .journal = "not durable: there is no journal",
                          .n_samples_ended = ARRAY_LEN(ended),
                          .samples_ended = ended,
                          .n_rejected_by_code = ARRAY_LEN(rejected),
                          .rejected_by_code = rejected,
                          .ready = true,
                          .draining = true,
                          .n_groups = 1,
                          .groups = &group};
    static_assert(N_STATS_HISTOGRAMS <= ARRAY_LEN(bound), "each has its own number of bounds");
    for (uint32_t i = 0; i < N_STATS_HISTOGRAMS; i++)
        s.histogram[i] = (struct msg_histogram){i + 1, bound, count, 1000U + i};
    return s;
}

static struct msg_tokens tokens_of_a_text(void)
{
    static const int32_t some[] = {5, 70000};
    static const uint32_t n_text[] = {1, 2}, n_spelling[] = {1, 3};
    return (struct msg_tokens){.request_id = "req-4",
                               .n_tokens = 2,
                               .tokens = some,
                               .n_token_text = n_text,
                               .token_text = "a b",
                               .n_spelling = n_spelling,
                               .spelling = "a\xc4\xa0"
                                           "b"};
}

void fixtures_make(struct fixture out[N_FIXTURES])
{
    memset(out, 0, N_FIXTURES * sizeof *out);
    out[0] = (struct fixture){.name = "hello", .kind = FIX_REQUEST, .client.type = MSG_HELLO};
    out[0].client.u.hello = (struct msg_hello){.major_min = 1,
                                               .major_max = 1,
                                               .client = "test",
                                               .tenant = {5, "a\0b\xff!"},
                                               .tenants_secret = TEXT("0123456789abcdef"),
                                               .token = TEXT("a token of 24 bytes, \0\1\2")};
    out[1] = (struct fixture){.name = "generate_text", .client.type = MSG_GENERATE};
    out[1].client.u.generate = generate_text();
    out[2] = (struct fixture){.name = "generate_chat", .client.type = MSG_GENERATE};
    out[2].client.u.generate = generate_chat();
    out[3] = (struct fixture){.name = "detokenize", .client.type = MSG_DETOKENIZE};
    out[3].client.u.detokenize = (struct msg_detokenize){
        .request_id = "req-3", .model = "", .n_tokens = 3, .tokens = ids, .skip_special = true};
    out[12] = (struct fixture){.name = "cancel", .client.type = MSG_CANCEL};
    out[12].client.u.cancel = (struct msg_cancel){"req-1", {4, "acme"}};
    out[13] = (struct fixture){
        .name = "cancel_reply", .kind = FIX_REPLY, .client.type = MSG_CANCEL_REPLY};
    out[13].client.u.cancel_reply = (struct msg_cancel_reply){"req-1", CANCEL_ENDED_BEFORE};
    replies(&out[4]);
    out[9] = (struct fixture){.name = "step_plan", .kind = FIX_WORKER};
    out[9].worker = (struct worker_msg){.type = WMSG_STEP_PLAN, .u.plan = plan()};
    out[10] = (struct fixture){.name = "step_result", .kind = FIX_WORKER};
    out[10].worker = (struct worker_msg){.type = WMSG_STEP_RESULT, .u.result = result()};
    out[11] = (struct fixture){.name = "worker_hello", .kind = FIX_WORKER};
    out[11].worker.type = WMSG_HELLO;
    out[11].worker.u.hello = (struct worker_hello){.wire_version = 1,
                                                   .model = "demo",
                                                   .backend = "cpu",
                                                   .coll = "shm",
                                                   .numerics = "1/cpu/strict/a8/kv-f16/tp1.2.4.8",
                                                   .hosts = "w1 0, w2 1",
                                                   .has_weights = true,
                                                   .has_text = true,
                                                   .weights = {1, 2, 3},
                                                   .text = {4, 5, 6},
                                                   .world = 2,
                                                   .vocab = 512,
                                                   .max_ctx = 1024,
                                                   .block_len = 16,
                                                   .n_blocks = 640,
                                                   .max_step_tokens = 512,
                                                   .max_seqs = 64,
                                                   .n_snapshots = 128,
                                                   .launch = 123456789,
                                                   .pid = 4242};
    out[16] =
        (struct fixture){.name = "stats_reply", .kind = FIX_REPLY, .client.type = MSG_STATS_REPLY};
    out[16].client.u.stats = stats();
    out[15] = (struct fixture){.name = "error", .kind = FIX_REPLY, .client.type = MSG_ERROR};
    out[15].client.u.error = (struct msg_error){.request_id = "req-1",
                                                .code = ST_RANGE,
                                                .detail = "another tenant",
                                                .field = "tenant",
                                                .request = MSG_CANCEL};
    out[14] = (struct fixture){.name = "weights", .kind = FIX_WORKER};
    out[14].worker =
        (struct worker_msg){.type = WMSG_WEIGHTS, .u.weights = {.epoch = 99, .digest = {7, 8, 9}}};
    out[20] = (struct fixture){.name = "figures", .kind = FIX_WORKER};
    out[20].worker =
        (struct worker_msg){.type = WMSG_FIGURES, .u.figures = {99, figures_of_two_ranks()}};
    out[21] = (struct fixture){.name = "grammar_ready", .kind = FIX_WORKER};
    out[21].worker = (struct worker_msg){.type = WMSG_GRAMMAR_READY, .u.ready = {99, 0x1234}};
    out[23] = (struct fixture){.name = "watch", .kind = FIX_WORKER};
    out[23].worker = (struct worker_msg){.type = WMSG_WATCH, .u.beat.epoch = 99};
    out[17] = (struct fixture){.name = "tokenize", .client.type = MSG_TOKENIZE};
    out[17].client.u.tokenize = (struct msg_tokenize){
        .request_id = "req-4", .model = "demo", .text = TEXT("a b"), .want_token_text = true};
    out[22] = (struct fixture){.name = "tokenize_chat", .client.type = MSG_TOKENIZE};
    out[22].client.u.tokenize = (struct msg_tokenize){
        .request_id = "req-5", .model = "demo", .has_chat = true, .chat = generate_chat().chat};
    out[18] = (struct fixture){.name = "tokens", .kind = FIX_REPLY, .client.type = MSG_TOKENS};
    out[18].client.u.tokens = tokens_of_a_text();
    out[19] = (struct fixture){.name = "delta_prompt", .kind = FIX_REPLY, .client.type = MSG_DELTA};
    out[19].client.u.delta = delta_of_a_prompt();
}
