#include "worker/options.h"

#include <string.h>

#define AT(member) offsetof(struct worker_options, member)

static const char *const coll_choices[] = {"auto", "local", "shm", "mpi", "ipc", "nccl"};
static const char *const isa_choices[] = {"auto",       "plain", "avx2", "avxvnni", "avx512",
                                          "avx512vnni", "amx",   "neon", "neondot", "neoni8mm"};

static const enum activations activations[] = {ACTIVATIONS_AUTO, ACTIVATIONS_F32, ACTIVATIONS_BF16,
                                               ACTIVATIONS_BF16_TILES, ACTIVATIONS_F32};
enum { AUTO, F32, CHECKPOINT = ARRAY_LEN(activations) - 1 };

static const struct option_row own_rows[] = {
    {.help = "Model"},
    {.name = "connect",
     .type = OPT_STRING,
     .at = AT(connect),
     .arg = "ENDPOINT",
     .help =
         "Where the coordinator listens for workers: tcp://ADDRESS:PORT or ipc://PATH.  Several, "
         "with commas between them, are tried in turn.  Needed unless --inspect or --hello is "
         "given."},
    {.name = "signs-of-life",
     .type = OPT_FLAG,
     .at = AT(signs_of_life),
     .help = "Each rank writes a line to standard output every second, for a launcher that ends a "
             "group whose ranks stop doing so, as ingot-run-group does."},
    {.name = "no-warm-up",
     .type = OPT_FLAG,
     .at = AT(no_warm_up),
     .help = "No first steps before the group says Hello: the first request does what they would "
             "have done.  For a group that serves one request."},
    {.name = "watch-epoch",
     .type = OPT_INT,
     .at = AT(watch_epoch),
     .arg = "N",
     .help =
         "Serve nothing: write a line and end with 5 when the coordinator at --connect gives up "
         "the "
         "worker group of this epoch; end with 4 when it has no such group.  For a launcher, as "
         "ingot-run-group."},
    {.help = "Inspection"},
    {.name = "inspect",
     .type = OPT_FLAG,
     .at = AT(inspect),
     .help = "Print the model's configuration, tensors and memory plan per rank, then end."},
    {.name = "json", .type = OPT_FLAG, .at = AT(json), .help = "With --inspect: as JSON."},
    {.name = "device-info",
     .type = OPT_FLAG,
     .at = AT(device_info),
     .help = "Print a line about the device of --backend, then end: for `ingot doctor`."},
    {.name = "hello",
     .type = OPT_FLAG,
     .at = AT(hello),
     .help = "Start, let all ranks hear from each other, say so, and end: a test of mpirun."},
};

static struct option_set options_of(struct row_list *rows)
{
    shared_rows(rows, FOR_WORKER, AT(shared));
    rows_add(rows, own_rows, ARRAY_LEN(own_rows), 0);
    return (struct option_set){
        .program = "ingot-worker",
        .usage = "--model PATH --connect ENDPOINT [options]",
        .summary =
            "One rank of a worker group: holds a shard of a model's weights and its part of the KV "
            "cache, and carries out the steps that the coordinator plans.  Started alone it is a "
            "group of one rank; under mpirun -np N the N ranks share the model (tensor "
            "parallelism).",
        .epilog =
            "Examples:\n"
            "  ingot-worker --model deploy/demo-model --connect tcp://127.0.0.1:5556\n"
            "  mpirun -np 4 ingot-worker --model /models/m --connect tcp://head:5556 --kv-memory "
            "8G\n"
            "  ingot-worker --model /models/m --inspect --tp 4\n"
            "\n"
            "Signals: SIGTERM or SIGINT to rank 0 (mpirun passes them on) finishes the step, says\n"
            "Goodbye to the coordinator and ends the group with 0; a second one kills.\n"
            "\n"
            "When a rank has died the other ranks of its host end at once.  For ranks on several "
            "hosts add\n"
            "--mca odls_base_sigkill_timeout 0 to mpirun, which otherwise waits for two seconds.\n"
            "\n"
            "Files: the weight files' digests are kept in $XDG_CACHE_HOME/ingot/digests, else in\n"
            "~/.cache/ingot/digests (macOS: ~/Library/Caches/ingot/digests); compiled Metal "
            "kernels in\n"
            "the folder metal beside it.\n"
            "\n"
            "Exit codes: 0 ended as asked (signal, or Shutdown by the coordinator); 1 could not "
            "start;\n"
            "2 wrong options; 3 the model or these settings cannot be served; 4 no coordinator (or "
            "no\n"
            "rank 0) for longer than --rejoin-ms; 5 refused or given up by the coordinator; 6 a "
            "fault:\n"
            "an impossible plan, a failed device or a failed rank.",
        .rows = rows->row,
        .n_rows = rows->n,
    };
}

enum status worker_options_parse(struct worker_options *o, int argc, char **argv,
                                 struct option_result *res)
{
    struct row_list rows = {.n = 0};
    struct option_set set = options_of(&rows);
    *o = (struct worker_options){.connect = NULL};
    return options_parse(&set, o, argc, argv, res);
}

void worker_options_print_help(FILE *f, enum option_help form)
{
    struct row_list rows = {.n = 0};
    struct option_set set = options_of(&rows);
    options_print_help(f, &set, form);
}

void worker_options_print(FILE *f, const struct worker_options *o, const struct option_result *res)
{
    struct row_list rows = {.n = 0};
    struct option_set set = options_of(&rows);
    fputs("ingot-worker, the configuration in effect:\n", f);
    options_print_effective(f, &set, o, res);
}

const char *worker_backend_name(const struct shared_options *o)
{
    static const char *const names[] = {"cpu", "cuda", "metal"};
    return names[o->backend];
}

bool worker_wants_graphs(const struct shared_options *o)
{
    return o->graphs == 0;
}

bool worker_has_activations(const struct shared_options *o)
{
    bool f32 = o->activations == AUTO || o->activations == F32;
    if (strcmp(worker_backend_name(o), "cpu") == 0 || worker_rounds_inputs(o))
        return true;
    return strcmp(worker_backend_name(o), "cuda") == 0 ? f32 : o->activations == AUTO;
}

bool worker_wants_f32(const struct shared_options *o)
{
    return o->activations == F32;
}

bool worker_rounds_inputs(const struct shared_options *o)
{
    return o->activations == CHECKPOINT;
}

const char *worker_coll_name(const struct shared_options *o)
{
    return coll_choices[o->coll];
}

bool worker_wants_binding(const struct shared_options *o)
{
    return o->bind == 0;
}

struct backend_config worker_backend_config(const struct shared_options *o, int threads,
                                            int local_rank)
{
    return (struct backend_config){.threads = threads,
                                   .max_rows = (int32_t)o->max_step_tokens,
                                   .device = o->device < 0 ? local_rank : (int)o->device,
                                   .by_rank = o->device < 0,
                                   .isa = isa_choices[o->isa],
                                   .activations = activations[o->activations],
                                   .planned = true,
                                   .numerics = o->numerics ? NUMERICS_FAST : NUMERICS_STRICT};
}

enum dtype worker_kv_dtype(const struct shared_options *o, enum dtype weights)
{
    static const enum dtype types[] = {DT_N, DT_F32, DT_F16, DT_BF16, DT_I8, DT_E4M3};
    if (o->kv_dtype == 0)
        return weights == DT_F32 ? DT_F32 : DT_F16;
    return types[o->kv_dtype];
}

struct decoder_config worker_decoder_config(const struct shared_options *o, enum dtype weights,
                                            int world)
{
    struct decoder_config dc = {
        .world = world,
        .max_tokens = (int32_t)o->max_step_tokens,
        .max_seqs = (int32_t)o->max_seqs,
        .max_out = (int32_t)o->max_seqs + MAX_SCORED_ROWS,
        .n_blocks = (int32_t)o->kv_blocks,
        .block_len = (int32_t)o->block_len,
        .n_snapshots = (int32_t)(o->state_snapshots < 0 ? o->max_seqs : o->state_snapshots),
        .max_ctx = (int32_t)o->max_ctx,
        .kv_dtype = worker_kv_dtype(o, weights),
    };
    if (dc.max_tokens < dc.max_out)
        dc.max_out = dc.max_tokens; /* a row of logits is of a token */
    return dc;
}

enum status worker_options_check(const struct worker_options *o)
{
    const struct shared_options *s = &o->shared;
    if (o->hello || o->device_info)
        return ST_OK;
    if (o->watch_epoch && (!o->connect || strchr(o->connect, ',')))
        FAIL(ST_RANGE, "--watch-epoch needs --connect with one endpoint");
    if (o->watch_epoch)
        return ST_OK;
    if (!s->model)
        FAIL(ST_RANGE, "--model PATH is required");
    if (!o->inspect && !o->connect)
        FAIL(ST_RANGE, "--connect ENDPOINT is required (or --inspect to look only)");
    if (s->kv_blocks && s->kv_memory)
        FAIL(ST_RANGE, "--kv-blocks and --kv-memory say the same thing: give one of them");
    if (!o->inspect && o->json)
        FAIL(ST_RANGE, "--json goes with --inspect");
    return ST_OK;
}

enum status worker_options_check_world(const struct worker_options *o, int world)
{
    int tp = (int)o->shared.tp;
    if (tp != 1 && tp != world)
        FAIL(ST_RANGE, "--tp %d: this group has %d rank%s (mpirun -np %d ingot-worker ...)", tp,
             world, world == 1 ? "" : "s", tp);
    return ST_OK;
}
