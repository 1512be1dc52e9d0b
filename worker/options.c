#include "worker/options.h"

#define AT(member) offsetof(struct worker_options, member)

static const char *const coll_choices[] = {"auto", "local", "shm", "mpi", "ipc", "nccl"};
static const char *const isa_choices[] = {"auto",       "plain", "avx2", "avxvnni", "avx512",
                                          "avx512vnni", "amx",   "neon", "neondot"};

static const struct option_row rows[] = {
    {.help = "What to serve"},
    {.name = "model",
     .type = OPT_STRING,
     .at = AT(model),
     .arg = "PATH",
     .help =
         "The model's folder (config.json, model.safetensors).  Every rank reads its own part."},
    {.name = "connect",
     .type = OPT_STRING,
     .at = AT(connect),
     .arg = "ENDPOINT",
     .help = "Where the coordinator listens for workers: tcp://ADDRESS:PORT or ipc://PATH.  Needed "
             "unless --inspect is given."},
    {.name = "name",
     .type = OPT_STRING,
     .at = AT(name),
     .arg = "NAME",
     .help = "Name of the model in logs and in `ingot status`; else the last part of its path."},

    {.name = "pack-cache",
     .type = OPT_STRING,
     .at = AT(pack_cache),
     .arg = "DIR|auto|off",
     .def = "off",
     .help =
         "Keep each rank's packed weights in files of DIR, so that the next start need not pack "
         "them; auto is MODEL.ingot-cache.  They take as much disk as the weights take memory, "
         "are checked whole at every start, and packed again when the model has changed."},

    {.help = "Device and ranks"},
    {.name = "backend",
     .type = OPT_ENUM,
     .at = AT(backend),
     .arg = "cpu|cuda",
     .def = "cpu",
     .help = "Device to compute on.  cuda: an NVIDIA GPU of compute capability 8.0 or newer, in "
             "builds with a CUDA toolkit."},
    {.name = "device",
     .type = OPT_INT,
     .at = AT(device),
     .arg = "N",
     .def = "-1",
     .min = -1,
     .max = 1023,
     .help =
         "Which GPU; -1: each rank of a host takes the one of its own number there.  With N its "
         "ranks share that one: slow, for tests."},
    {.name = "coll",
     .type = OPT_ENUM,
     .at = AT(coll),
     .arg = "auto|local|shm|mpi|ipc|nccl",
     .def = "auto",
     .help = "How ranks add their partial results: shm between ranks of one host, mpi anywhere, "
             "nccl between GPUs, ipc between GPUs of one host, local for one rank.  auto takes the "
             "fastest that is possible."},
    {.name = "threads",
     .type = OPT_INT,
     .at = AT(threads),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = 1024,
     .help = "Compute threads of each rank; 0 shares the cores of the host among its ranks."},
    {.name = "bind",
     .type = OPT_ENUM,
     .at = AT(bind),
     .arg = "auto|none",
     .def = "auto",
     .help = "auto: ranks that share the cores of a host take an equal part of them each, unless "
             "the launcher has bound them or a quota leaves fewer cores than there are."},
    {.name = "isa",
     .type = OPT_ENUM,
     .at = AT(isa),
     .arg = "auto|plain|avx2|avxvnni|avx512|avx512vnni|amx|neon|neondot",
     .def = "auto",
     .help = "Instruction set of the CPU backend.  All give the same bits."},
    {.name = "numerics",
     .type = OPT_ENUM,
     .at = AT(numerics),
     .arg = "strict|fast",
     .def = "strict",
     .help =
         "strict: the same bits in any batch and on 1, 2, 4 or 8 ranks.  fast: a GPU's libraries "
         "choose the order of sums.  The CPU is strict either way."},
    {.name = "graphs",
     .type = OPT_ENUM,
     .at = AT(graphs),
     .arg = "auto|off",
     .def = "auto",
     .help = "Record decode steps of 1, 2, 4, 8, 16, 24, 32, 48, ... sequences at start and launch "
             "each as one graph, where device and collective can.  The bits are the same."},
    {.name = "peer-ms",
     .type = OPT_INT,
     .at = AT(peer_ms),
     .arg = "MS",
     .def = "30000",
     .min = 100,
     .max = 3600000,
     .help = "How long a rank waits for another one in a step before the group is given up."},

    {.help = "Sizes"},
    {.name = "max-seqs",
     .type = OPT_INT,
     .at = AT(max_seqs),
     .arg = "N",
     .def = "64",
     .min = 1,
     .max = 4096,
     .help = "Sequences that are computed at the same time."},
    {.name = "max-step-tokens",
     .type = OPT_INT,
     .at = AT(max_step_tokens),
     .arg = "N",
     .def = "512",
     .min = 1,
     .max = 65536,
     .help = "Tokens of one step: longer prompts are cut into chunks of at most that."},
    {.name = "max-ctx",
     .type = OPT_INT,
     .at = AT(max_ctx),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = 16777216,
     .help = "Longest sequence in tokens; 0 is the model's own limit."},
    {.name = "block-len",
     .type = OPT_INT,
     .at = AT(block_len),
     .arg = "N",
     .def = "16",
     .min = 1,
     .max = 4096,
     .help = "Tokens in one block of the KV cache."},
    {.name = "kv-blocks",
     .type = OPT_INT,
     .at = AT(kv_blocks),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = 100000000,
     .help = "Blocks of the KV cache; 0 is decided by --kv-memory.  All ranks take the least "
             "number that any of them has room for."},
    {.name = "kv-memory",
     .type = OPT_SIZE,
     .at = AT(kv_memory),
     .arg = "BYTES",
     .def = "0",
     .help = "Bytes of the KV cache on each rank, such as 2G; 0 takes what --max-seqs sequences of "
             "--max-ctx tokens need, at most 70 % of the memory that is free after loading."},
    {.name = "kv-dtype",
     .type = OPT_ENUM,
     .at = AT(kv_dtype),
     .arg = "auto|f32|f16|bf16|int8|e4m3",
     .def = "auto",
     .help =
         "Element type of the KV cache.  auto is f32 for a model stored in f32, else f16.  int8 "
         "and e4m3 have a scale for each token and head."},

    {.help = "Look, do not serve"},
    {.name = "inspect",
     .type = OPT_FLAG,
     .at = AT(inspect),
     .help = "Print the model's configuration, tensors and memory plan per rank, then end."},
    {.name = "tp",
     .type = OPT_INT,
     .at = AT(tp),
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = 1024,
     .help = "With --inspect: ranks to plan for.  (A serving group has as many as mpirun starts.)"},
    {.name = "json", .type = OPT_FLAG, .at = AT(json), .help = "With --inspect: as JSON."},
    {.name = "hello",
     .type = OPT_FLAG,
     .at = AT(hello),
     .help = "Start, let all ranks hear from each other, say so, and end: a test of mpirun."},

    {.help = "Process"},
    {.name = "lease-ms",
     .type = OPT_INT,
     .at = AT(lease_ms),
     .arg = "MS",
     .def = "10000",
     .min = 100,
     .max = 3600000,
     .help = "End after that long without a coordinator, until its Welcome names another time."},
    {.name = "die-with-parent",
     .type = OPT_FLAG,
     .at = AT(die_with_parent),
     .help = "End when the process that started this one dies (Linux)."},
    {.name = "print-config",
     .type = OPT_FLAG,
     .at = AT(print_config),
     .help = "Print the configuration in effect (rank 0) before loading."},
    {.name = "log-level",
     .type = OPT_ENUM,
     .at = AT(log_level),
     .arg = "debug|info|warn|error",
     .def = "info",
     .help = "Least important lines to log on standard error."},
};

const struct option_set worker_option_set = {
    .program = "ingot-worker",
    .usage = "--model PATH --connect ENDPOINT [options]",
    .summary =
        "One rank of a worker group: holds a shard of a model's weights and its part of the KV "
        "cache, and carries out the steps that the coordinator plans.  Started alone it is a group "
        "of one rank; under mpirun -np N the N ranks share the model (tensor parallelism).",
    .epilog =
        "Examples:\n"
        "  ingot-worker --model deploy/demo-model --connect tcp://127.0.0.1:5556\n"
        "  mpirun -np 4 ingot-worker --model /models/m --connect tcp://head:5556 --kv-memory 8G\n"
        "  ingot-worker --model /models/m --inspect --tp 4\n"
        "\n"
        "Signals: SIGTERM or SIGINT to rank 0 (mpirun passes them on) finishes the step, says\n"
        "Goodbye to the coordinator and ends the group with 0; a second one kills.\n"
        "\n"
        "Exit codes: 0 ended as asked (signal, or Shutdown by the coordinator); 1 could not "
        "start;\n"
        "2 wrong options; 3 the model or these settings cannot be served; 4 no coordinator (or no\n"
        "rank 0) for longer than the lease; 5 refused or given up by the coordinator; 6 a fault:\n"
        "an impossible plan, a failed device or a failed rank.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
};

const char *worker_backend_name(const struct worker_options *o)
{
    static const char *const names[] = {"cpu", "cuda"};
    return names[o->backend];
}

bool worker_wants_graphs(const struct worker_options *o)
{
    return o->graphs == 0;
}

const char *worker_coll_name(const struct worker_options *o)
{
    return coll_choices[o->coll];
}

bool worker_wants_binding(const struct worker_options *o)
{
    return o->bind == 0;
}

struct backend_config worker_backend_config(const struct worker_options *o, int threads,
                                            int local_rank)
{
    return (struct backend_config){.threads = threads,
                                   .max_rows = (int32_t)o->max_step_tokens,
                                   .device = o->device < 0 ? local_rank : (int)o->device,
                                   .isa = isa_choices[o->isa],
                                   .planned = true,
                                   .numerics = o->numerics ? NUMERICS_FAST : NUMERICS_STRICT};
}

enum dtype worker_kv_dtype(const struct worker_options *o, enum dtype weights)
{
    static const enum dtype types[] = {DT_N, DT_F32, DT_F16, DT_BF16, DT_I8, DT_E4M3};
    if (o->kv_dtype == 0)
        return weights == DT_F32 ? DT_F32 : DT_F16;
    return types[o->kv_dtype];
}

struct decoder_config worker_decoder_config(const struct worker_options *o, enum dtype weights,
                                            int world)
{
    struct decoder_config dc = {
        .world = world,
        .max_tokens = (int32_t)o->max_step_tokens,
        .max_seqs = (int32_t)o->max_seqs,
        .max_out = (int32_t)o->max_seqs,
        .n_blocks = (int32_t)o->kv_blocks,
        .block_len = (int32_t)o->block_len,
        .max_ctx = (int32_t)o->max_ctx,
        .kv_dtype = worker_kv_dtype(o, weights),
    };
    if (dc.max_tokens < dc.max_out)
        dc.max_out = dc.max_tokens; /* a row of logits is of a token */
    return dc;
}

enum status worker_options_check(const struct worker_options *o)
{
    if (o->hello)
        return ST_OK;
    if (!o->model)
        FAIL(ST_RANGE, "--model PATH is required");
    if (!o->inspect && !o->connect)
        FAIL(ST_RANGE, "--connect ENDPOINT is required (or --inspect to look only)");
    if (o->kv_blocks && o->kv_memory)
        FAIL(ST_RANGE, "--kv-blocks and --kv-memory say the same thing: give one of them");
    if (!o->inspect && (o->json || o->tp != 1))
        FAIL(ST_RANGE, "--json and --tp go with --inspect; the ranks of a group are mpirun's -np");
    return ST_OK;
}
