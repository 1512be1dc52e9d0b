/* The speed of whole steps of a model beside the machine's limits.  `bench_step --help` is its
 * manual. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/shape_source.h"
#include "bench/step_report.h"
#include "common/host.h"
#include "common/options.h"
#include "common/parent.h"
#include "common/quant.h"

enum { MAX_LIST = 16, MAX_RANKS = 64, FIRST_PROMPT = 16 };

struct options {
    const char *model, *shape, *type, *head_type, *pp, *tg, *context, *batch, *json, *pack_cache;
    int kv, isa, activations;
    int64_t chunk, threads, ranks, reps;
    bool ceilings, start;
};

static const enum activations activation_choices[] = {
    ACTIVATIONS_AUTO, ACTIVATIONS_F32, ACTIVATIONS_BF16, ACTIVATIONS_BF16_TILES, ACTIVATIONS_F32};
enum { CHECKPOINT = ARRAY_LEN(activation_choices) - 1 };
static const char *const isa_choices[] = {"auto",       "plain", "avx2", "avxvnni", "avx512",
                                          "avx512vnni", "amx",   "neon", "neondot", "neoni8mm"};
static const enum dtype kv_choices[] = {DT_F16, DT_BF16, DT_F32, DT_I8, DT_E4M3};

#define AT(member) offsetof(struct options, member)

static const struct option_row rows[] = {
    {.help = "What to run"},
    {.name = "model",
     .type = OPT_STRING,
     .at = AT(model),
     .arg = "PATH",
     .help = "A model's folder (config.json, safetensors) or a .gguf file."},
    {.name = "shape",
     .type = OPT_STRING,
     .at = AT(shape),
     .arg = "NAME",
     .help = "Instead of a file: random weights of the sizes of llama-3.2-1b, qwen3-0.6b, mla-1b "
             "(latent attention), delta-1b (gated delta nets), mamba-1b (Mamba-2), 200m or tiny."},
    {.name = "type",
     .type = OPT_STRING,
     .at = AT(type),
     .arg = "TYPE",
     .def = "q8_0",
     .help = "Type of a shape's matrices: f32, f16, bf16, e4m3, q8_0, q4_0, "
             "q4_k, int4-zero-f16, ... (with e4m3 the embedding needs a --head-type)"},
    {.name = "head-type",
     .type = OPT_STRING,
     .at = AT(head_type),
     .arg = "TYPE",
     .help = "Type of a shape's embedding, which is its head too; else that of the others."},

    {.help = "Tests"},
    {.name = "pp",
     .type = OPT_STRING,
     .at = AT(pp),
     .arg = "LIST",
     .def = "512",
     .help = "Prefill: prompts of so many tokens, as 128,512; 0: none."},
    {.name = "tg",
     .type = OPT_STRING,
     .at = AT(tg),
     .arg = "LIST",
     .def = "64",
     .help = "Decode: so many tokens, one a step, as 32,128; 0: none."},
    {.name = "context",
     .type = OPT_STRING,
     .at = AT(context),
     .arg = "LIST",
     .def = "0",
     .help = "Each test with so many tokens in the cache before it.  They are made up, not "
             "computed."},
    {.name = "batch",
     .type = OPT_STRING,
     .at = AT(batch),
     .arg = "LIST",
     .def = "1",
     .help = "Decode tests with so many sequences in a step, as 1,4,16 (up to 256)."},
    {.name = "chunk",
     .type = OPT_INT,
     .at = AT(chunk),
     .arg = "N",
     .def = "512",
     .min = 1,
     .max = 65536,
     .help = "Most tokens of a prefill step."},
    {.name = "reps",
     .type = OPT_INT,
     .at = AT(reps),
     .arg = "N",
     .def = "5",
     .min = 1,
     .max = MAX_REPS,
     .help = "Repetitions of a test, after one that does not count."},
    {.name = "start",
     .type = OPT_FLAG,
     .at = AT(start),
     .help = "Also the time from the program's start to the first token after a prompt of 16: open "
             "(parse the file), load (pack the weights), first token.  The machine is measured "
             "afterwards then."},

    {.name = "pack-cache",
     .type = OPT_STRING,
     .at = AT(pack_cache),
     .arg = "DIR",
     .help = "Keep the packed weights of a --model in DIR: run twice with --start and compare."},

    {.help = "Machine"},
    {.name = "threads",
     .type = OPT_INT,
     .at = AT(threads),
     .arg = "N",
     .def = "0",
     .min = 0,
     .max = 1024,
     .help = "Compute threads of each rank; 0 shares the processors among the ranks."},
    {.name = "ranks",
     .type = OPT_INT,
     .at = AT(ranks),
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = MAX_RANKS,
     .help = "Processes that share the model, over shared memory."},
    {.name = "isa",
     .type = OPT_ENUM,
     .at = AT(isa),
     .arg = "auto|plain|avx2|avxvnni|avx512|avx512vnni|amx|neon|neondot|neoni8mm",
     .def = "auto",
     .help = "Instruction set."},
    {.name = "activations",
     .type = OPT_ENUM,
     .at = AT(activations),
     .arg = "auto|f32|bf16|bf16-tiles|checkpoint",
     .def = "auto",
     .help = "How activations meet BF16 weights; checkpoint: the inputs of a --model's quantised "
             "matrices are rounded as its config.json says."},
    {.name = "kv",
     .type = OPT_ENUM,
     .at = AT(kv),
     .arg = "f16|bf16|f32|int8|e4m3",
     .def = "f16",
     .help = "Type of the KV cache."},
    {.name = "ceilings",
     .type = OPT_FLAG,
     .at = AT(ceilings),
     .def = "true",
     .help = "Measure what the machine can do, and print each figure's share of it."},

    {.help = "Output"},
    {.name = "json",
     .type = OPT_STRING,
     .at = AT(json),
     .arg = "FILE",
     .help = "Write all figures, with every repetition, to FILE; - is standard output, instead of "
             "the table."},
};

static const struct option_set option_set = {
    .program = "bench_step",
    .usage = "(--model PATH | --shape NAME --type TYPE) [options]",
    .summary = "How fast one model runs whole steps: prompts (pp), decoding (tg), several "
               "sequences at once.",
    .epilog =
        "Reading the table\n"
        "  tok/s is the median of the repetitions.  GB/s counts the packed weights and the KV\n"
        "  entries that the steps must read, GOP/s their multiply-adds (each two operations).\n"
        "  limit is the speed at which either the memory or the arithmetic would be at its "
        "measured\n"
        "  best (quantised weights: int8 dot products; BF16 with rounded activations: BF16 "
        "products;\n"
        "  others: fp32 FMA); share is tok/s of limit.\n"
        "\n"
        "Examples\n"
        "  bench_step --shape llama-3.2-1b --type q8_0\n"
        "  bench_step --shape llama-3.2-1b --type q4_k --head-type q6_k --pp 0 --batch 1,4,16\n"
        "  bench_step --model model.gguf --tg 32 --context 0,4096 --threads 2\n"
        "  bench_step --model model.gguf --ranks 2 --threads 1 --json two-ranks.json\n"
        "  bench_step --model model.gguf --pp 0 --tg 0 --start\n",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
};

static enum status parse_list(const char *name, const char *text, int32_t least, int32_t most,
                              int32_t *out, int *n)
{
    const char *at = text;
    for (*n = 0; *n < MAX_LIST; at++) {
        char *end;
        long v = strtol(at, &end, 10);
        if (end == at || v < least || v > most || (*end && *end != ','))
            break;
        out[(*n)++] = (int32_t)v;
        at = end;
        if (!*at)
            return ST_OK;
    }
    FAIL(ST_RANGE, "--%s %s: up to %d numbers from %d to %d, with commas between them", name, text,
         MAX_LIST, least, most);
}

static enum status parse_type(const char *name, enum dtype *out)
{
    for (int t = 0; t < DT_N; t++) {
        *out = (enum dtype)t;
        bool ok = *out == DT_F32 || *out == DT_F16 || *out == DT_BF16 || *out == DT_E4M3 ||
                  quant_form(*out);
        if (ok && strcmp(name, dtype_name(*out)) == 0)
            return ST_OK;
    }
    FAIL(ST_RANGE, "'%s' is no type of weights", name);
}

static enum status add_row(struct step_row *list, int *n, struct step_row row)
{
    if (*n == MAX_ROWS)
        FAIL(ST_RANGE, "more than %d tests", MAX_ROWS);
    list[(*n)++] = row;
    return ST_OK;
}

/* Every prompt, and every decode length with every batch, in every context. */
static enum status make_rows(const struct options *o, struct step_row *list, int *n)
{
    int32_t pp[MAX_LIST], tg[MAX_LIST], context[MAX_LIST], batch[MAX_LIST];
    int n_pp, n_tg, n_context, n_batch;
    *n = 0;
    TRY(parse_list("pp", o->pp, 0, 1 << 20, pp, &n_pp));
    TRY(parse_list("tg", o->tg, 0, 1 << 20, tg, &n_tg));
    TRY(parse_list("context", o->context, 0, 1 << 20, context, &n_context));
    TRY(parse_list("batch", o->batch, 1, MAX_BATCH, batch, &n_batch));
    for (int c = 0; c < n_context; c++) {
        for (int i = 0; i < n_pp; i++)
            if (pp[i])
                TRY(add_row(list, n, (struct step_row){ROW_PREFILL, pp[i], 1, context[c], {0}}));
        for (int i = 0; i < n_tg; i++)
            for (int b = 0; b < n_batch; b++)
                if (tg[i])
                    TRY(add_row(list, n,
                                (struct step_row){ROW_DECODE, tg[i], batch[b], context[c], {0}}));
    }
    return ST_OK;
}

static enum status open_model(const struct options *o, struct loader **ld)
{
    enum dtype type, head;
    if (!o->model == !o->shape)
        FAIL(ST_RANGE, "either --model or --shape says what to run");
    if (o->model)
        TRY(loader_open(ld, o->model));
    if (o->model)
        return o->activations == CHECKPOINT ? loader_round_inputs(*ld) : ST_OK;
    TRY(parse_type(o->type, &type));
    TRY(parse_type(o->head_type ? o->head_type : o->type, &head));
    return shape_loader_open(ld, o->shape, type, head);
}

/* ---- ranks ---- */

struct bench {
    const struct options *opt;
    struct loader *ld;
    struct step_rig_config rig;
    struct step_report report;
    uint64_t began_ns; /* main() */
    pid_t child[MAX_RANKS];
};

static enum status run_rows(struct bench *b, struct step_rig *rig)
{
    for (int i = 0; i < b->rig.n_rows; i++)
        TRY(step_rig_run(rig, &b->rig.row[i]));
    return ST_OK;
}

/* A copy of this process as rank r: runs everything, says nothing. */
static int be_rank(struct bench *b, int r)
{
    struct step_rig rig;
    if (die_with_parent() != ST_OK)
        return 1;
    b->rig.rank = r;
    enum status st = step_rig_open(&rig, b->ld, &b->rig);
    if (st == ST_OK && b->opt->start)
        st = step_rig_first_token(&rig);
    if (st == ST_OK)
        st = run_rows(b, &rig);
    if (st != ST_OK)
        fprintf(stderr, "bench_step, rank %d: %s\n", r, status_text());
    if (st != ST_OK && rig.co)
        rig.co->ops->abort(rig.co);
    step_rig_close(&rig);
    return st != ST_OK;
}

static enum status fork_ranks(struct bench *b)
{
    fflush(NULL);
    for (int r = 1; r < b->rig.world; r++) {
        b->child[r] = fork();
        if (b->child[r] == 0)
            _exit(be_rank(b, r));
        if (b->child[r] < 0)
            FAIL(ST_IO, "cannot start rank %d", r);
    }
    return ST_OK;
}

/* The greatest rank that failed, or 0. */
static int join_ranks(struct bench *b)
{
    int failed = 0;
    for (int r = 1; r < b->rig.world; r++) {
        int how = 0;
        if (b->child[r] > 0 && (waitpid(b->child[r], &how, 0) < 0 || how != 0))
            failed = r;
    }
    return failed;
}

/* ---- rank 0 ---- */

static double since_s(uint64_t ns)
{
    return (double)(bench_now_ns() - ns) * 1e-9;
}

static const char *isa_of(const char *device)
{
    if (strstr(device, ", amx"))
        return "amx";
    if (strstr(device, ", avx512"))
        return "avx512";
    return strstr(device, ", avx") ? "avx2" : "plain";
}

/* 1, 2, 4, ... and all threads of all ranks. */
static void measure_machine(struct step_report *r)
{
    int all = r->ranks * r->threads;
    for (int t = 1; r->n_ceilings < MAX_CEILINGS; t = 2 * t < all ? 2 * t : all) {
        r->ceiling[r->n_ceilings].top = ceilings_measure(t, isa_of(r->device));
        r->ceiling[r->n_ceilings++].threads = t;
        if (t == all)
            break;
    }
}

static enum status set_report(struct bench *b, struct step_rig *rig, const char *device)
{
    struct step_report *r = &b->report;
    const struct model_config *mc = loader_config(b->ld);
    struct decoder_memory memory;
    TRY(decoder_plan_memory(&memory, mc, b->ld, rig->be, &rig->dc));
    TRY(model_cost(&r->cost, b->ld, rig->be, b->rig.world, b->rig.kv_dtype));
    r->model = b->opt->model ? b->opt->model : b->opt->shape;
    r->format = loader_format(b->ld);
    r->device = device;
    r->type = mc->dtype;
    r->kv_dtype = b->rig.kv_dtype;
    r->ranks = b->rig.world;
    r->threads = b->rig.threads;
    r->chunk = rig->dc.max_tokens;
    r->weight_bytes = memory.weights;
    r->file_bytes = memory.file_bytes;
    r->row = b->rig.row;
    r->n_rows = b->rig.n_rows;
    r->reps = b->rig.reps;
    return ST_OK;
}

static enum status lead(struct bench *b, struct step_rig *rig, struct backend_info *info)
{
    struct step_report *r = &b->report;
    TRY(step_rig_open(rig, b->ld, &b->rig));
    r->load_s = since_s(b->began_ns) - r->open_s;
    r->has_start = b->opt->start;
    if (b->opt->start)
        TRY(step_rig_first_token(rig));
    r->first_s = since_s(b->began_ns) - r->open_s - r->load_s;
    TRY(run_rows(b, rig));
    backend_ops_of(rig->be)->info(rig->be, info);
    b->report.activations = info->activations;
    return set_report(b, rig, info->device);
}

static enum status write_report(const struct bench *b)
{
    const char *path = b->opt->json;
    bool to_stdout = path && strcmp(path, "-") == 0;
    if (!to_stdout)
        step_report_table(stdout, &b->report);
    if (!path)
        return ST_OK;
    FILE *f = to_stdout ? stdout : fopen(path, "w");
    if (!f)
        FAIL(ST_IO, "cannot write %s", path);
    step_report_json(f, &b->report);
    if (!to_stdout && fclose(f) != 0)
        FAIL(ST_IO, "cannot write %s", path);
    return ST_OK;
}

static enum status run(struct bench *b)
{
    struct step_rig rig = {0};
    struct backend_info info;
    enum status st = fork_ranks(b);
    if (st == ST_OK)
        st = lead(b, &rig, &info);
    if (st != ST_OK && rig.co)
        rig.co->ops->abort(rig.co);
    step_rig_close(&rig);
    int failed = join_ranks(b);
    TRY(st);
    if (failed)
        FAIL(ST_PEER, "rank %d failed", failed);
    if (b->opt->ceilings)
        measure_machine(&b->report);
    return write_report(b);
}

static enum status bench(const struct options *o, uint64_t began_ns)
{
    static struct step_row list[MAX_ROWS];
    struct bench b = {.opt = o, .began_ns = began_ns};
    int n_rows, share = host_cpus() / (int)o->ranks;
    TRY(make_rows(o, list, &n_rows));
    TRY(open_model(o, &b.ld));
    b.report.open_s = since_s(began_ns);
    b.rig = (struct step_rig_config){.world = (int)o->ranks,
                                     .session = (uint64_t)getpid() << 32 ^ began_ns,
                                     .threads = o->threads  ? (int)o->threads
                                                : share > 0 ? share
                                                            : 1,
                                     .isa = isa_choices[o->isa],
                                     .activations = activation_choices[o->activations],
                                     .kv_dtype = kv_choices[o->kv],
                                     .max_chunk = (int32_t)o->chunk,
                                     .model = o->model,
                                     .pack_cache = o->model ? o->pack_cache : NULL,
                                     .first_prompt = o->start ? FIRST_PROMPT : 0,
                                     .reps = (int)o->reps,
                                     .row = list,
                                     .n_rows = n_rows};
    enum status st = run(&b);
    loader_close(b.ld);
    return st;
}

int main(int argc, char **argv)
{
    uint64_t began_ns = bench_now_ns();
    struct options opt;
    struct option_result res;
    if (options_parse(&option_set, &opt, argc, argv, &res) != ST_OK) {
        fprintf(stderr, "bench_step: %s\n", status_text());
        return 2;
    }
    if (res.help) {
        options_print_help(stdout, &option_set, res.help);
        return 0;
    }
    if (bench(&opt, began_ns) != ST_OK) {
        fprintf(stderr, "bench_step: %s\n", status_text());
        return 1;
    }
    return 0;
}
