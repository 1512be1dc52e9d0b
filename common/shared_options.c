#include "common/shared_options.h"

struct shared_row {
    struct option_row row;
    unsigned users;              /* of enum option_user */
    const char *coordinator_def; /* not NULL: the coordinator's default, where it differs */
};

#define ROW(member, kind) .type = (kind), .at = offsetof(struct shared_options, member)
#define BOTH (FOR_COORDINATOR | FOR_WORKER)
#define STARTERS (FOR_SERVE | FOR_LOAD)

/* clang-format off */
static const struct shared_row table[] = {
    {{.help = "Model"}, .users = BOTH | STARTERS},
    {{.name = "model", ROW(model, OPT_STRING), .arg = "PATH",
      .help = "The model: a folder in HuggingFace layout (config.json, *.safetensors, "
              "tokenizer.json) or a .gguf file.  The coordinator reads its tokenizer and chat "
              "template, each rank its part of the weights."},
     .users = BOTH},
    {{.name = "name", ROW(name, OPT_STRING), .arg = "NAME",
      .help = "The model's name for clients, in logs and in `ingot status`; default: the last "
              "part of its path."},
     .users = BOTH | FOR_SERVE},
    {{.name = "pack-cache", ROW(pack_cache, OPT_STRING), .arg = "DIR|auto|off", .def = "off",
      .help = "Keep each rank's packed weights in files of DIR, so that the next start need not "
              "pack them; auto is MODEL.ingot-cache.  They take as much disk as the weights take "
              "memory, are checked whole at every start, and packed again when the model has "
              "changed.  The CPU begins with the file's pages and copies them beside the first "
              "answers (at once on hosts with several nodes of memory); Metal uses them as its "
              "memory; CUDA keeps none."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "embed", ROW(embed, OPT_FLAG),
      .help = "Let a model without sentence-transformers' modules give embeddings too: the state "
              "of the last token, normalised.  A folder with modules.json needs no option."},
     .users = BOTH | STARTERS},
    {{.name = "rerank", ROW(rerank, OPT_ENUM), .arg = "off|qwen3", .def = "off",
      .help = "qwen3: a decoder gives scores of documents as Qwen3-Reranker's model card says: with its "
              "prompt around query and document, and the logits of \"yes\" and \"no\" behind it, or the "
              "model's head for classification.  A folder with LogitScore in its modules.json, or with "
              "such a head and a chat template for query and document, needs no option."},
     .users = BOTH | STARTERS},

    {{.help = "Endpoints"}, .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "listen", ROW(listen, OPT_STRING), .arg = "EP,...", .def = "tcp://127.0.0.1:5555",
      .help = "Endpoints for clients, tcp://ADDRESS:PORT or ipc://PATH, separated by commas."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "allow-remote", ROW(allow_remote, OPT_FLAG),
      .help = "Listen on addresses other than loopback without keys: any host may connect, and "
              "messages are not encrypted."},
     .users = FOR_COORDINATOR | FOR_SERVE},

    {{.help = "Keys"}, .users = BOTH | FOR_SERVE},
    {{.name = "key", ROW(key, OPT_STRING), .arg = "FILE",
      .help = "This program's own key, made by `ingot key new FILE`: TCP connections between a "
              "server and its clients and workers are encrypted, and each side proves its key."},
     .users = BOTH | FOR_SERVE},
    {{.name = "allowed-keys", ROW(allowed_keys, OPT_STRING), .arg = "FILE",
      .help = "The keys that may connect, and what for, kept by `ingot key add`; read again when "
              "the file changes.  Connections of a key that was removed are ended."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "server-key", ROW(server_key, OPT_STRING), .arg = "KEY|FILE",
      .help = "The coordinator's public key, or a file with it (FILE.pub of its key): needed with "
              "--key."},
     .users = FOR_WORKER},

    {{.help = "Ranks and device"}, .users = FOR_WORKER | STARTERS},
    {{.name = "tp", ROW(tp, OPT_INT), .arg = "N", .def = "1", .min = 1, .max = 1024,
      .help = "Ranks that share the model (tensor parallelism), which mpirun starts; 1, 2, 4 and "
              "8 give the same bytes."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "threads", ROW(threads, OPT_INT), .arg = "N", .def = "0", .min = 0, .max = 1024,
      .help = "Compute threads of each rank; 0 shares the cores of the host among its ranks."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "backend", ROW(backend, OPT_ENUM), .arg = "cpu|cuda|metal",
      .def = "cpu",
      .help = "Device to compute on.  cuda: an NVIDIA GPU of compute capability 8.0 or newer, in "
              "builds with a CUDA toolkit.  metal: the GPU of a Mac from M1 on, with --tp 1; its "
              "kernels have run in an emulation alone, not yet on a Mac."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "device", ROW(device, OPT_INT), .arg = "N", .def = "-1", .min = -1, .max = 1023,
      .help = "Which GPU; -1: each rank of a host takes the one of its own number there, or the only "
              "one that it sees.  With N a rank takes the N-th that it sees, and ranks that see the "
              "same one share it: slow, for tests."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "coll", ROW(coll, OPT_ENUM), .arg = "auto|local|shm|mpi|ipc|nccl", .def = "auto",
      .help = "How ranks add their partial results: shm between ranks of one host, mpi anywhere, "
              "nccl between GPUs, ipc between GPUs of one host, local for one rank.  auto takes "
              "the fastest that is possible."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "bind", ROW(bind, OPT_ENUM), .arg = "auto|none", .def = "auto",
      .help = "auto: ranks that share the cores of a host take an equal part of them each, "
              "unless the launcher has bound them or a quota leaves fewer cores than there are."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "isa", ROW(isa, OPT_ENUM),
      .arg = "auto|plain|avx2|avxvnni|avx512|avx512vnni|amx|neon|neondot|neoni8mm", .def = "auto",
      .help = "Instruction set of the CPU backend."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "activations", ROW(activations, OPT_ENUM), .arg = "auto|f32|bf16|bf16-tiles|checkpoint",
      .def = "auto",
      .help = "How the CPU backend multiplies activations with BF16 weights.  f32: as they are.  "
              "bf16: rounded to BF16, about twice as fast on processors with AVX-512 BF16 at full "
              "rate; the same bytes on every processor.  bf16-tiles: the same in the order of "
              "AMX's sums, about four times as fast there.  auto: bf16-tiles with AMX, bf16 on "
              "AMD's processors that have it, otherwise f32; an encoder's stay f32.  f32 also keeps "
              "the inputs of GPTQ weights with desc_act in f32, which are rounded to 8 bits otherwise. "
              " CUDA has auto, which rounds the inputs of e4m3 weights and floats of 4 bits to f16 for the matrix units, "
              "and f32, which does not.  checkpoint: the inputs of quantised matrices are rounded as the "
              "scheme in config.json says; those of BF16 weights are as with f32, on CUDA as with "
              "auto."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "numerics", ROW(numerics, OPT_ENUM), .arg = "strict|fast", .def = "strict",
      .help = "strict: the same bytes in any batch and on 1, 2, 4 or 8 ranks.  fast: a GPU's "
              "libraries choose the order of sums.  The CPU is strict either way."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "graphs", ROW(graphs, OPT_ENUM), .arg = "auto|off", .def = "auto",
      .help = "Record decode steps of 1, 2, 4, 8, 16, 24, 32, 48, ... sequences at start and "
              "launch each as one graph, where device and collective can.  The bytes are the "
              "same."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "forced-tokens", ROW(forced_tokens, OPT_FLAG), .def = "true",
      .help = "Where a grammar allows one token alone, take it and those forced behind it without "
              "a step for each.  The bytes are the same."},
     .users = FOR_WORKER | STARTERS},

    {{.help = "Sizes"}, .users = BOTH | STARTERS},
    {{.name = "max-seqs", ROW(max_seqs, OPT_INT), .arg = "N", .def = "64", .min = 1, .max = 4096,
      .help = "Sequences that are computed at the same time.  Of the coordinator's limit and the "
              "workers' the lower one holds."},
     .users = BOTH | STARTERS, .coordinator_def = "4096"},
    {{.name = "max-step-tokens", ROW(max_step_tokens, OPT_INT), .arg = "N",
      .def = "512", .min = 1, .max = 65536,
      .help = "Tokens of one step: longer prompts are cut into chunks of at most that.  Of the "
              "coordinator's limit and the workers' the lower one holds."},
     .users = BOTH | STARTERS, .coordinator_def = "65536"},
    {{.name = "max-ctx", ROW(max_ctx, OPT_INT), .arg = "N", .def = "0", .min = 0, .max = 16777216,
      .help = "Longest sequence in tokens; 0 is the model's own limit."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "block-len", ROW(block_len, OPT_INT), .arg = "N", .def = "16", .min = 1, .max = 4096,
      .help = "Tokens in one block of the KV cache."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "kv-blocks", ROW(kv_blocks, OPT_INT), .arg = "N",
      .def = "0", .min = 0, .max = 100000000,
      .help = "Blocks of the KV cache; 0 is decided by --kv-memory.  All ranks take the least "
              "number that any of them has room for."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "kv-memory", ROW(kv_memory, OPT_SIZE), .arg = "BYTES", .def = "0",
      .help = "Bytes of the KV cache on each rank, such as 2G; 0 takes what --max-seqs sequences "
              "of --max-ctx tokens need, at most 70 % of the memory that is free after loading."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "state-snapshots", ROW(state_snapshots, OPT_INT), .arg = "N", .def = "-1",
      .min = -1, .max = 65536,
      .help = "For models with states beside the KV cache (gated delta nets, Mamba-2): copies of states that "
              "each rank keeps, so that prompts that begin alike share what is computed.  Each takes "
              "the memory of one sequence's state.  -1: as many as --max-seqs; 0: none."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "kv-dtype", ROW(kv_dtype, OPT_ENUM), .arg = "auto|f32|f16|bf16|int8|e4m3",
      .def = "auto",
      .help = "Element type of the KV cache.  auto is f32 for a model stored in f32, else f16, "
              "which holds numbers up to 65504: a sequence with larger keys or values ends with an "
              "error that advises bf16.  "
              "int8 and e4m3 have a scale for each token and head."},
     .users = FOR_WORKER | STARTERS},

    {{.help = "Queue"}, .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "max-queued", ROW(max_queued, OPT_INT), .arg = "N",
      .def = "1024", .min = 1, .max = 262144,
      .help = "Sequences that may wait; more are refused with retry_after."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "max-queued-tokens", ROW(max_queued_tokens, OPT_INT), .arg = "N",
      .def = "4194304", .min = 1, .max = 1e12,
      .help = "Prompt tokens that may wait together."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "prompt-logprob-memory", ROW(prompt_logprob_memory, OPT_SIZE), .arg = "BYTES",
      .def = "256M", .min = 1 << 16, .max = 1e15,
      .help = "Log probabilities of prompts are kept with their request, so that a client can come "
              "back for them.  A request for more than is left is refused as busy, one for more than "
              "all of it as out of range."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "tenant-requests", ROW(tenant_requests, OPT_INT), .arg = "N",
      .def = "0", .min = 0, .max = 1048576,
      .help = "Sequences of one tenant that run or wait; more are refused with retry_after.  0: three "
              "quarters of what the server takes, --max-queued and 512."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "tenant-queued-tokens", ROW(tenant_queued_tokens, OPT_INT), .arg = "N",
      .def = "0", .min = 0, .max = 1e12,
      .help = "Prompt tokens of one tenant that may wait.  0: three quarters of --max-queued-tokens.  "
              "Of the places of --max-queued no tenant has more than three quarters either."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "overtake", ROW(overtake, OPT_INT), .arg = "N", .def = "1024", .min = 0,
      .max = 1 << 20,
      .help = "How many rounds one level of priority may pass (in a round each tenant has a turn; "
              "with --target-itl-ms 0: how many later requests).  0: priority is strict, and a "
              "permanent load of urgent requests lets the others wait for ever."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "turn-tokens", ROW(turn_tokens, OPT_INT), .arg = "N", .def = "64", .min = 0,
      .max = 1 << 24,
      .help = "When more requests are there than --max-seqs, a running one may be paused for one "
              "that waits after it has generated N tokens, and for one of higher priority after "
              "N tokens of any kind.  It goes on later with the same bytes.  0: none is paused."},
     .users = FOR_COORDINATOR | FOR_SERVE},

    {{.help = "Steps"}, .users = FOR_COORDINATOR | STARTERS},
    {{.name = "target-itl-ms", ROW(target_itl_ms, OPT_FLOAT), .arg = "MS", .def = "-1", .min = -1,
      .max = 60000,
      .help = "Time between two tokens of an answer: a step in which sequences decode computes as "
              "much of new prompts as fits into it, by the measured time of steps before, at least "
              "a quarter of a step.  -1: 2.5 times that of a step in which all live sequences, up to "
              "--max-seqs, decode.  0: steps are filled up to --max-step-tokens, prompts are "
              "computed in order, and tenants have no turns."},
     .users = FOR_COORDINATOR | STARTERS},
    {{.name = "max-step-ms", ROW(max_step_ms, OPT_FLOAT), .arg = "MS", .def = "-1", .min = -1,
      .max = 60000,
      .help = "The same for a step in which nothing decodes: a new request waits for at most two of "
              "them.  -1: as short as costs at most 4 % of the prompts' speed.  0: only "
              "--max-step-tokens bounds it."},
     .users = FOR_COORDINATOR | STARTERS},
    {{.name = "prefix-cache", ROW(prefix_cache, OPT_FLAG), .def = "true",
      .help = "Share the KV blocks of equal prompt beginnings between requests.  Models with states "
              "beside the KV cache share them up to a kept copy of the state: --state-snapshots."},
     .users = FOR_COORDINATOR | STARTERS},
    {{.name = "generation-config", ROW(generation_config, OPT_ENUM), .arg = "auto|none",
      .def = "auto",
      .help = "auto: temperature, top_p, top_k, min_p, repetition_penalty and max_new_tokens of the "
              "model's generation_config.json hold for requests that do not set them.  none: the "
              "protocol's defaults do."},
     .users = FOR_COORDINATOR | STARTERS},
    {{.name = "overlap", ROW(overlap, OPT_FLAG), .def = "true",
      .help = "Plan and send the next step while one runs, so that the device does not wait for "
              "the coordinator; a device feeds greedy and top_k <= 64 sequences their own tokens."},
     .users = FOR_COORDINATOR | STARTERS},

    {{.help = "Clients"}, .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "max-clients", ROW(max_clients, OPT_INT), .arg = "N",
      .def = "4096", .min = 1, .max = 65536,
      .help = "Connections that are answered."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "tenant-clients", ROW(tenant_clients, OPT_INT), .arg = "N",
      .def = "0", .min = 0, .max = 65536,
      .help = "Connections of one key; without keys, of one user of this host (ipc) or of one address.  "
              "0: three quarters of --max-clients."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "max-message", ROW(max_message, OPT_SIZE), .arg = "BYTES",
      .def = "16M", .min = 65536, .max = 1U << 30,
      .help = "Largest message of a client."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "tenants", ROW(tenants, OPT_ENUM), .arg = "own|any",
      .def = "own",
      .help = "own: a request that names another tenant than its connection's own is refused. any: "
              "clients, a gateway for example, may speak for every tenant."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "client-grace-ms", ROW(client_grace_ms, OPT_INT), .arg = "MS",
      .def = "3000", .min = 0, .max = 3600000,
      .help = "How long a request goes on when its client is gone, so that the client can attach "
              "to it again; ZeroMQ takes up to a second to connect again."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "slow-client-ms", ROW(slow_client_ms, OPT_INT), .arg = "MS",
      .def = "30000", .min = 100, .max = 3600000,
      .help = "A client that reads nothing for that long is dropped."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "drain-ms", ROW(drain_ms, OPT_INT), .arg = "MS",
      .def = "30000", .min = 0, .max = 3600000,
      .help = "After SIGTERM, Ctrl-C or `ingot drain`: how long running requests may go on."},
     .users = FOR_COORDINATOR | FOR_SERVE},

    {{.help = "Time limits between coordinator and ranks"}, .users = BOTH | STARTERS},
    {{.name = "heartbeat-ms", ROW(heartbeat_ms, OPT_INT), .arg = "MS",
      .def = "200", .min = 10, .max = 60000,
      .help = "Between heartbeats, to and from workers and clients."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "silence-ms", ROW(silence_ms, OPT_INT), .arg = "MS",
      .def = "3000", .min = 100, .max = 600000,
      .help = "An idle worker group silent for longer is lost."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "step-deadline-ms", ROW(step_deadline_ms, OPT_INT), .arg = "MS",
      .def = "3000", .min = 10, .max = 3600000,
      .help = "A worker group that does not answer a step in that time is lost; a step that is "
              "expected to take long, by the times of steps before, has ten times the expected one. "
              "`ingot serve` also ends a group of which a process is stopped for that long."},
     .users = FOR_COORDINATOR | STARTERS},
    {{.name = "first-step-ms", ROW(first_step_ms, OPT_INT), .arg = "MS",
      .def = "120000", .min = 10, .max = 3600000,
      .help = "The same for the first three steps after the start; a later group is expected to be "
              "as fast as the one before it."},
     .users = FOR_COORDINATOR | STARTERS},
    {{.name = "peer-ms", ROW(peer_ms, OPT_INT), .arg = "MS",
      .def = "30000", .min = 100, .max = 3600000,
      .help = "How long a rank waits in a step for its device or for another rank before the "
              "group is given up."},
     .users = FOR_WORKER | STARTERS},
    {{.name = "contact-ms", ROW(contact_ms, OPT_INT), .arg = "MS",
      .def = "60000", .min = 100, .max = 3600000,
      .help = "How long the ranks may take at start to reach each other."},
     .users = FOR_WORKER},
    {{.name = "lease-ms", ROW(lease_ms, OPT_INT), .arg = "MS",
      .def = "10000", .min = 100, .max = 3600000,
      .help = "Workers that hear nothing from the coordinator for that long have lost it; the "
              "coordinator's value holds from their first contact on."},
     .users = BOTH | FOR_SERVE},
    {{.name = "rejoin-ms", ROW(rejoin_ms, OPT_INT), .arg = "MS",
      .def = "30000", .min = 0, .max = 86400000,
      .help = "A worker group that has lost its coordinator keeps its weights and looks for one for "
              "that long before it ends itself."},
     .users = FOR_WORKER | FOR_SERVE},
    {{.name = "group-wait-ms", ROW(group_wait_ms, OPT_INT), .arg = "MS",
      .def = "120000", .min = 100, .max = 86400000,
      .help = "When the worker group was lost, a request waits that long for another one, from the "
              "loss or from its arrival, whichever is later."},
     .users = FOR_COORDINATOR | FOR_SERVE},

    {{.help = "Process"}, .users = BOTH | STARTERS},
    {{.name = "journal", ROW(journal, OPT_STRING), .arg = "DIR|off",
      .help = "Write all requests, decisions and tokens into files there, for `ingot replay` and for the next "
              "server on that folder, which goes on with the requests.  Prompts and answers are in "
              "them, readable by their owner only.  The folder has mode 700.  `ingot serve` has one by default: "
              "$XDG_STATE_HOME/ingot/journal/ENDPOINT, else ~/.local/state/ingot/journal/ENDPOINT."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "journal-size", ROW(journal_size, OPT_SIZE), .arg = "BYTES",
      .def = "1G", .min = 4 << 20, .max = 1e15,
      .help = "The journal's oldest files are deleted when all of them would be larger."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "journal-hours", ROW(journal_hours, OPT_INT), .arg = "N",
      .def = "168", .min = 1, .max = 87600,
      .help = "Files of the journal to which nothing was written for that long are deleted when a new "
              "one begins: after a quarter of that time, or when the last is full."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "journal-sync", ROW(journal_sync, OPT_ENUM), .arg = "batch|each|none", .def = "batch",
      .help = "When a request counts as taken: batch: it is written to the journal, and on the disk "
              "within a second; each: it is on the disk; with both, new requests are refused while "
              "the journal cannot be written.  none: the journal stops nothing."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "journal-content", ROW(journal_content, OPT_ENUM), .arg = "all|none", .def = "all",
      .help = "none: the journal has hashes of prompts and answers under a key that ends with the process, no "
              "stop strings, biases, grammars and log probabilities.  `ingot replay verify` works, "
              "`recompute` and texts do not, and a restarted server goes on only with requests whose "
              "clients send them again.  Files that were written before stay as they are."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "parse-special", ROW(parse_special, OPT_ENUM), .arg = "all|none", .def = "all",
      .help = "Whether special tokens that are spelled in chats are recognised as such.  none: only those of the "
              "chat template, so that no text of a message or a tool can end its turn or begin another.  Prompts of "
              "text are not affected."},
     .users = FOR_COORDINATOR | FOR_SERVE},
    {{.name = "print-config", ROW(print_config, OPT_FLAG),
      .help = "Print the configuration in effect on standard error at start."},
     .users = BOTH | FOR_SERVE},
    {{.name = "die-with-parent", ROW(die_with_parent, OPT_FLAG),
      .help = "End when the process that started this one ends (Linux)."},
     .users = BOTH},
    {{.name = "launch", ROW(launch, OPT_INT), .arg = "N", .def = "0", .min = 0, .max = 9e15,
      .help = "The name by which the coordinator tells its supervisor of this group, another one for "
              "each start; 0 is random."},
     .users = FOR_WORKER},
    {{.name = "failure-file", ROW(failure_file, OPT_STRING), .arg = "PATH",
      .help = "Write the reason to that new file when the program cannot start."},
     .users = BOTH},
    {{.name = "log-level", ROW(log_level, OPT_ENUM), .arg = "debug|info|warn|error", .def = "info",
      .help = "Least level that is logged, on standard error."},
     .users = BOTH | STARTERS},
};
/* clang-format on */

static void add_row(struct row_list *l, const struct shared_row *s, enum option_user program)
{
    struct option_row row = s->row;
    if (program == FOR_COORDINATOR && s->coordinator_def)
        row.def = s->coordinator_def;
    rows_add(l, &row, 1, 0);
}

void shared_rows(struct row_list *l, enum option_user user, size_t base)
{
    struct row_list rows = {.n = 0};
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (table[i].users & user)
            add_row(&rows, &table[i], user);
    rows_add(l, rows.row, rows.n, base);
}

void shared_rows_passed(struct row_list *l, enum option_user command, enum option_user program)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (table[i].row.name && (table[i].users & command) && (table[i].users & program))
            add_row(l, &table[i], program);
}
