#include "client/cli/serve_options.h"

#include <inttypes.h>
#include <stdio.h>

#define ROW(member, kind) .type = (kind), .at = offsetof(struct serve_args, member)

static const char *const colls[] = {"auto", "local", "shm", "mpi", "ipc", "nccl"};
static const char *const kv_dtypes[] = {"auto", "f32", "f16", "bf16", "int8", "e4m3"};
static const char *const binds[] = {"auto", "none"};
static const char *const isas[] = {"auto",       "plain", "avx2", "avxvnni", "avx512",
                                   "avx512vnni", "amx",   "neon", "neondot"};
static const char *const numerics[] = {"strict", "fast"};
static const char *const graphs[] = {"auto", "off"};
static const char *const levels[] = {"debug", "info", "warn", "error"};

static const struct option_row engine_table[] = {
    {.help = "Ranks"},
    {.name = "tp",
     ROW(c.tp, OPT_INT),
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = 64,
     .help = "Ranks that share the model (tensor parallelism); started by mpirun."},
    {.name = "threads",
     ROW(c.threads, OPT_INT),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = 1024,
     .help = "Compute threads of each rank; 0 shares the cores among the ranks."},
    {.name = "coll",
     ROW(coll, OPT_ENUM),
     .arg = "auto|local|shm|mpi|ipc|nccl",
     .def = "auto",
     .help = "How ranks add their partial results."},
    {.name = "standby",
     ROW(c.standby, OPT_INT),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = MAX_STANDBY,
     .help = "Further worker groups that are loaded and wait; one takes over at once when the "
             "active group is lost."},
    {.name = "backend",
     ROW(c.backend, OPT_STRING),
     .arg = "NAME",
     .def = "cpu",
     .help = "Device to compute on: cpu, or cuda where the worker was built with it."},
    {.name = "device",
     ROW(c.device, OPT_INT),
     .arg = "N",
     .def = "-1",
     .min = -1,
     .max = 1023,
     .help =
         "Which GPU; -1: each rank of a host takes the one of its own number there.  With N its "
         "ranks share that one: slow, for tests."},
    {.name = "bind",
     ROW(bind, OPT_ENUM),
     .arg = "auto|none",
     .def = "auto",
     .help = "auto: the ranks of --tp share the machine's cores, each on its own part of them."},
    {.name = "isa",
     ROW(isa, OPT_ENUM),
     .arg = "auto|plain|avx2|avxvnni|avx512|avx512vnni|amx|neon|neondot",
     .def = "auto",
     .help = "Instruction set of the CPU backend."},
    {.name = "numerics",
     ROW(numerics, OPT_ENUM),
     .arg = "strict|fast",
     .def = "strict",
     .help =
         "strict: the same bits in any batch and on 1, 2, 4 or 8 ranks.  fast: a GPU's libraries "
         "choose the order of sums.  The CPU is strict either way."},
    {.name = "graphs",
     ROW(graphs, OPT_ENUM),
     .arg = "auto|off",
     .def = "auto",
     .help = "Record decode steps of 1, 2, 4, 8, 16, 24, 32, 48, ... sequences at start and launch "
             "each as one graph, where device and collective can.  The bits are the same."},
    {.help = "Sizes"},
    {.name = "max-seqs",
     ROW(c.max_seqs, OPT_INT),
     .arg = "N",
     .def = "64",
     .min = 1,
     .max = 4096,
     .help = "Sequences that are computed at the same time."},
    {.name = "max-step-tokens",
     ROW(c.max_step_tokens, OPT_INT),
     .arg = "N",
     .def = "512",
     .min = 1,
     .max = 65536,
     .help = "Tokens of one step; longer prompts are cut into chunks."},
    {.name = "max-ctx",
     ROW(c.max_ctx, OPT_INT),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = 16777216,
     .help = "Longest sequence in tokens; 0 is the model's own limit."},
    {.name = "max-queued",
     ROW(c.max_queued, OPT_INT),
     .arg = "N",
     .def = "1024",
     .min = 1,
     .max = 32768,
     .help = "Sequences that may wait; more are refused with retry_after."},
    {.name = "kv-blocks",
     ROW(c.kv_blocks, OPT_INT),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = 100000000,
     .help = "Blocks of the KV cache; 0 is decided by --kv-memory."},
    {.name = "kv-memory",
     ROW(kv_memory, OPT_SIZE),
     .arg = "BYTES",
     .def = "0",
     .help = "Bytes of the KV cache on each rank, such as 2G; 0 is what the sizes above need, "
             "within the free memory."},
    {.name = "kv-dtype",
     ROW(kv_dtype, OPT_ENUM),
     .arg = "auto|f32|f16|bf16|int8|e4m3",
     .def = "auto",
     .help = "Element type of the KV cache."},
    {.name = "pack-cache",
     ROW(c.pack_cache, OPT_STRING),
     .arg = "DIR|auto|off",
     .def = "off",
     .help = "Keep the ranks' packed weights in files, so that the next start need not pack them; "
             "auto is MODEL.ingot-cache."},
    {.name = "block-len",
     ROW(c.block_len, OPT_INT),
     .arg = "N",
     .def = "16",
     .min = 1,
     .max = 4096,
     .help = "Tokens in one block of the KV cache."},
    {.name = "prefix-cache",
     ROW(prefix_cache, OPT_FLAG),
     .def = "true",
     .help = "Share the KV blocks of equal prompt beginnings between requests."},
    {.name = "overlap",
     ROW(overlap, OPT_FLAG),
     .def = "true",
     .help = "Plan and send the next step while one runs, so that the device does not wait for the "
             "coordinator; a device feeds greedy and top_k <= 64 sequences their own tokens."},
    {.help = "Process"},
    {.name = "log-level",
     ROW(log_level, OPT_ENUM),
     .arg = "debug|info|warn|error",
     .def = "info",
     .help = "Least level that coordinator and workers log."},
};

static const struct option_row server_table[] = {
    {.help = "Where"},
    {.name = "listen",
     ROW(c.listen, OPT_STRING),
     .arg = "EP,...",
     .def = "tcp://127.0.0.1:5555",
     .help = "Endpoints for clients: tcp://ADDRESS:PORT or ipc://PATH, separated by commas."},
    {.name = "name",
     ROW(c.name, OPT_STRING),
     .arg = "NAME",
     .help = "Name of the model for clients; default: the last part of MODEL."},
    {.name = "allow-remote",
     ROW(c.allow_remote, OPT_FLAG),
     .help = "Listen on addresses other than loopback. Messages are not encrypted."},
    {.help = "Behaviour"},
    {.name = "drain-ms",
     ROW(c.drain_ms, OPT_INT),
     .arg = "MS",
     .def = "30000",
     .min = 1,
     .max = 3600000,
     .help = "After Ctrl-C or SIGTERM: how long running requests may go on."},
    {.name = "step-deadline-ms",
     ROW(c.step_deadline_ms, OPT_INT),
     .arg = "MS",
     .def = "3000",
     .min = 10,
     .max = 3600000,
     .help = "A worker group that does not answer a step in that time is replaced; slower models "
             "get longer by themselves."},
    {.name = "journal",
     ROW(c.journal, OPT_STRING),
     .arg = "DIR",
     .help = "Write all inputs and decisions into files there, for `ingot replay`."},
};

void serve_engine_rows(struct row_list *l, size_t base)
{
    rows_add(l, engine_table, ARRAY_LEN(engine_table), base);
}

void serve_server_rows(struct row_list *l, size_t base)
{
    rows_add(l, server_table, ARRAY_LEN(server_table), base);
}

const struct supervisor_config *serve_config(struct serve_args *a, const char *model)
{
    struct supervisor_config *c = &a->c;
    c->model = model;
    c->coll = colls[a->coll];
    c->kv_dtype = kv_dtypes[a->kv_dtype];
    c->isa = isas[a->isa];
    c->bind = binds[a->bind];
    c->numerics = numerics[a->numerics];
    c->graphs = graphs[a->graphs];
    c->log_level = levels[a->log_level];
    c->no_prefix_cache = !a->prefix_cache;
    c->no_overlap = !a->overlap;
    if (a->kv_memory) {
        snprintf(a->kv_memory_text, sizeof a->kv_memory_text, "%" PRIu64, a->kv_memory);
        c->kv_memory = a->kv_memory_text;
    }
    return c;
}
