/* ingot-quantize: `ingot quantize` runs it; `ingot quantize --help` is its manual. */
#include <cjson/cJSON.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/build_info.h"
#include "common/formats/gguf_file.h"
#include "common/options.h"
#include "worker/quantize/convert.h"
#include "worker/quantize/keys.h"
#include "worker/quantize/pieces_make.h"
#include "worker/quantize/quality.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_WRONG_USE = 2, EXIT_MODEL = 3, EXIT_STOPPED = 130 };

struct args {
    int type, output_type, embed_type; /* the last two: 0 auto, else a target plus 1 */
    int64_t threads, text_tokens, window;
    bool overwrite, json;
    const char *text;
};

#define AT(member) .at = offsetof(struct args, member)

static const struct option_row rows[] = {
    {.name = "type",
     .type = OPT_ENUM,
     AT(type),
     .arg = QUANT_TARGET_NAMES,
     .required = true,
     .help = "Element type of the matrices."},
    {.name = "output-type",
     .type = OPT_ENUM,
     AT(output_type),
     .arg = "auto|" QUANT_TARGET_NAMES,
     .def = "auto",
     .help = "Of the head (output.weight).  auto: q6_k with q4_k and q4_k_m, else --type."},
    {.name = "embed-type",
     .type = OPT_ENUM,
     AT(embed_type),
     .arg = "auto|" QUANT_TARGET_NAMES,
     .def = "auto",
     .help = "Of the embedding (token_embd.weight).  auto: --type; where the embedding is the head "
             "too, as for the head."},
    {.name = "threads",
     .type = OPT_INT,
     AT(threads),
     .arg = "N",
     .def = "0",
     .max = 1024,
     .help = "Compute threads; 0 is one for each core."},
    {.name = "overwrite", .type = OPT_FLAG, AT(overwrite), .help = "Replace OUT if it is there."},
    {.help = "Quality"},
    {.name = "text",
     .type = OPT_STRING,
     AT(text),
     .arg = "FILE",
     .help = "Run the source and the new model over this text and print how far their predictions "
             "are apart.  Both are in memory at once."},
    {.name = "text-tokens",
     .type = OPT_INT,
     AT(text_tokens),
     .arg = "N",
     .def = "4096",
     .min = 2,
     .max = 10000000,
     .help = "Tokens of the text to use."},
    {.name = "window",
     .type = OPT_INT,
     AT(window),
     .arg = "N",
     .def = "512",
     .min = 16,
     .max = 1048576,
     .help = "The text is cut into sequences of that many tokens."},
    {.help = "Output"},
    {.name = "json", .type = OPT_FLAG, AT(json), .help = "Print the summary as JSON."},
};

static const struct option_set options = {
    .program = "ingot quantize",
    .usage = "SOURCE OUT.gguf --type TYPE [options]",
    .summary =
        "Writes a model as a GGUF file with smaller weights.  SOURCE is a model folder "
        "(config.json, "
        "safetensors) or a GGUF file, also one in several parts or one that is quantised already; "
        "tokenizer and chat template go into the file.",
    .epilog =
        "Which type?\n"
        "  q8_0    8.5 bits a weight, hardly any loss\n"
        "  q6_k    6.6 bits, very little loss\n"
        "  q5_k_m  5.7 bits, little loss\n"
        "  q4_k_m  4.8 bits, the usual choice\n"
        "  q4_k    4.5 bits; q4_0, q4_1, q5_0, q5_1 are older forms of 4 and 5 bits\n"
        "The K types need rows of a multiple of 256, the others of 32; rows that are not take the "
        "next\n"
        "type that fits (q4_k q5_0, q5_k q5_1, q6_k q8_0, else f16), and the summary says so.\n"
        "_m: in the first and the last eighth of the layers and in every third between, attn_v "
        "and\n"
        "ffn_down are q6_k.  Norms, biases, expert routers, convolutions and other small tensors "
        "are\n"
        "f32; experts in MXFP4 (gpt-oss) stay as they are.\n"
        "Examples:\n"
        "  ingot quantize models/Qwen3-0.6B qwen3-q4_k_m.gguf --type q4_k_m\n"
        "  ingot quantize model-f16.gguf model-q8_0.gguf --type q8_0 --text prose.txt\n"
        "OUT appears when it is complete; an interrupted or failed run leaves nothing.\n"
        "Exit codes: 0 done, 1 failure, 2 wrong options or arguments, 3 the model cannot be read "
        "or\n"
        "written as GGUF, 130 interrupted.",
    .rows = rows,
    .n_rows = ARRAY_LEN(rows),
    .min_args = 2,
    .max_args = 2,
};

static volatile sig_atomic_t stop_asked;

static void on_signal(int sig)
{
    (void)sig;
    stop_asked = 1;
}

/* The first asks, the second kills. */
static void set_signals(void)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&a.sa_mask);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGHUP, &a, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of write */
}

/* ---- progress, on standard error ---- */

struct progress {
    bool terminal;
    int shown; /* percent; lines come every ten */
};

static void show_progress(struct progress *p, const char *what, uint64_t done, uint64_t total)
{
    int percent = total ? (int)(100.0 * (double)done / (double)total) : 100;
    if (p->terminal && percent != p->shown) {
        char bar[31];
        for (int i = 0; i < 30; i++)
            bar[i] = i < percent * 30 / 100 ? '#' : '.';
        bar[30] = '\0';
        fprintf(stderr, "\r[%s] %3d %%  %-40.40s", bar, percent, what);
        if (done == total)
            fprintf(stderr, "\r%79s\r", "");
        p->shown = percent;
    } else if (!p->terminal && percent / 10 != p->shown / 10) {
        fprintf(stderr, "%3d %%  %s\n", percent, what);
        p->shown = percent;
    }
}

static void report_tensor(void *ctx, const char *name, uint64_t done, uint64_t total)
{
    show_progress(ctx, name, done, total);
}

static void report_tokens(void *ctx, int32_t done, int32_t total)
{
    show_progress(ctx, "tokens of the text", (uint64_t)done, (uint64_t)total);
}

/* ---- the work ---- */

struct job {
    const struct args *a;
    const char *source, *out;
    struct loader *ld;
    struct gguf_file *gguf; /* NULL: the source is a folder */
    struct choice choice;
    struct pieces pieces;
    struct gguf_writer *w;
    struct text_buf notes;
    struct convert cv;
    struct quality quality;
    struct progress progress;
    uint64_t size;
    bool model_fault; /* what failed is the model's, not the system's */
};

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n > m && strcmp(s + n - m, end) == 0;
}

static enum status check_out(const struct job *j)
{
    struct stat from, to;
    if (!ends_with(j->out, ".gguf"))
        FAIL(ST_RANGE, "%s: the new file's name must end in .gguf", j->out);
    if (stat(j->out, &to) != 0)
        return ST_OK;
    if (stat(j->source, &from) == 0 && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
        FAIL(ST_RANGE, "%s is the source", j->out);
    if (!j->a->overwrite)
        FAIL(ST_RANGE, "%s is there already (--overwrite replaces it)", j->out);
    return ST_OK;
}

static enum status open_source(struct job *j)
{
    TRY(loader_open(&j->ld, j->source));
    if (strcmp(loader_format(j->ld), "gguf") == 0)
        TRY(gguf_file_open(&j->gguf, j->source));
    const struct model_config *mc = loader_config(j->ld);
    if (mc->headless)
        FAIL(ST_UNSUPPORTED, "%s: a model without a head is not converted", j->source);
    if (mc->fp8)
        FAIL(ST_UNSUPPORTED, "%s: weights of the method fp8 are not converted", j->source);
    if (mc->fp4 != FP4_NONE)
        FAIL(ST_UNSUPPORTED, "%s: weights of 4-bit floats are not converted", j->source);
    if (mc->ints != INTS_NONE)
        FAIL(ST_UNSUPPORTED, "%s: weights of packed integers are not converted", j->source);
    j->choice = choice_make(j->a->type, j->a->output_type - 1, j->a->embed_type - 1, mc->tied,
                            mc->n_layers);
    return pieces_make(&j->pieces, j->ld, &j->choice);
}

static enum status put_head(struct job *j)
{
    struct keys_source s = {.path = j->source,
                            .mc = loader_config(j->ld),
                            .file_type = j->choice.target->file_type,
                            .notes = &j->notes};
    TRY(gguf_writer_create(&j->w, j->out));
    TRY(j->gguf ? keys_copy(j->w, &s, gguf_file_model(j->gguf)) : keys_from_folder(j->w, &s));
    for (size_t i = 0; i < j->pieces.n; i++) {
        const struct piece *p = &j->pieces.v[i];
        TRY(gguf_put_tensor(j->w, p->name, p->type, p->n_dims, p->shape));
    }
    j->size = gguf_writer_size(j->w);
    return ST_OK;
}

/* Rather now than after an hour. */
static enum status check_space(const struct job *j)
{
    char dir[4100] = ".";
    struct statvfs fs;
    const char *slash = strrchr(j->out, '/');
    if (slash)
        snprintf(dir, sizeof dir, "%.*s", slash == j->out ? 1 : (int)(slash - j->out), j->out);
    if (statvfs(dir, &fs) != 0)
        return ST_OK; /* the open will say why */
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (room < j->size)
        FAIL(ST_IO, "%s needs %llu bytes, and its disk has %llu", j->out,
             (unsigned long long)j->size, (unsigned long long)room);
    return ST_OK;
}

static int thread_count(const struct args *a)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return a->threads ? (int)a->threads : n > 1 ? (int)n : 1;
}

static enum status write_out(struct job *j)
{
    j->cv = (struct convert){.n_threads = thread_count(j->a),
                             .stop = &stop_asked,
                             .report = report_tensor,
                             .ctx = &j->progress};
    TRY(check_space(j));
    TRY(gguf_begin_data(j->w));
    TRY(convert_run(&j->cv, &j->pieces, j->w));
    return gguf_finish(j->w);
}

static enum status measure(struct job *j)
{
    struct quality_config c = {.source = j->source,
                               .quantised = j->out,
                               .text = j->a->text,
                               .window = (int32_t)j->a->window,
                               .max_tokens = (int32_t)j->a->text_tokens,
                               .n_threads = (int)j->a->threads,
                               .stop = &stop_asked,
                               .report = report_tokens,
                               .ctx = &j->progress};
    j->progress.shown = 0;
    return quality_measure(&j->quality, &c);
}

static enum status run_job(struct job *j)
{
    j->model_fault = true;
    TRY(open_source(j));
    TRY(put_head(j));
    j->model_fault = false;
    TRY(write_out(j));
    return j->a->text ? measure(j) : ST_OK;
}

/* ---- the summary ---- */

static double rms(const struct convert_stats *s)
{
    return s->n_elements ? sqrt(s->error2 / (double)s->n_elements) : 0;
}

static double relative(const struct convert_stats *s)
{
    return s->value2 > 0 ? sqrt(s->error2 / s->value2) : 0;
}

static void print_types(const struct job *j)
{
    printf("%-5s %8s %14s %14s %12s %10s\n", "type", "tensors", "weights", "bytes", "rms error",
           "relative");
    for (int t = 0; t < CONVERT_TYPES; t++) {
        const struct convert_stats *s = &j->cv.stats[t];
        if (s->n_tensors)
            printf("%-5s %8zu %14llu %14llu %12.3e %9.3f%%\n", ggml_type_info((uint32_t)t)->name,
                   s->n_tensors, (unsigned long long)s->n_elements, (unsigned long long)s->n_bytes,
                   rms(s), 100 * relative(s));
    }
}

/* Tensors that did not take the type that they should have. */
static void print_replaced(const struct job *j)
{
    for (int from = 0; from < CONVERT_TYPES; from++) {
        for (int to = 0; to < CONVERT_TYPES; to++) {
            const struct piece *first = NULL;
            int n = 0;
            for (size_t i = 0; i < j->pieces.n; i++) {
                const struct piece *p = &j->pieces.v[i];
                if ((int)p->wanted != from || (int)p->type != to || p->wanted == p->type)
                    continue;
                first = first ? first : p;
                n++;
            }
            if (first)
                printf("%d tensor%s %s, not %s: rows of %llu (%s) are not whole blocks of %u\n", n,
                       n == 1 ? " is" : "s are", ggml_type_info((uint32_t)to)->name,
                       ggml_type_info((uint32_t)from)->name, (unsigned long long)first->row_len,
                       first->name, (unsigned)ggml_type_info((uint32_t)from)->block);
        }
    }
}

static void print_summary(const struct job *j)
{
    const struct quality *q = &j->quality;
    uint64_t n = 0;
    for (int t = 0; t < CONVERT_TYPES; t++)
        n += j->cv.stats[t].n_elements;
    print_types(j);
    print_replaced(j);
    for (size_t at = 0; at < j->notes.len;) {
        const char *line = j->notes.data + at, *end = memchr(line, '\n', j->notes.len - at);
        printf("note: %.*s\n", (int)(end - line), line);
        at += (size_t)(end - line) + 1;
    }
    printf("%s: %llu bytes, %.2f bits a weight\n", j->out, (unsigned long long)j->size,
           8.0 * (double)j->size / (double)n);
    if (q->n_positions)
        printf("on %d tokens of %s: KL divergence %.5f (mean), %.5f (99 %%); same first choice "
               "%.2f %%;\nperplexity %.4f, of the source %.4f\n",
               q->n_positions, j->a->text, q->mean_kl, q->kl_99, 100 * q->same_top, q->perplexity,
               q->perplexity_source);
}

static cJSON *json_types(const struct job *j)
{
    cJSON *list = cJSON_CreateArray();
    for (int t = 0; t < CONVERT_TYPES; t++) {
        const struct convert_stats *s = &j->cv.stats[t];
        if (!s->n_tensors)
            continue;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "type", ggml_type_info((uint32_t)t)->name);
        cJSON_AddNumberToObject(o, "tensors", (double)s->n_tensors);
        cJSON_AddNumberToObject(o, "weights", (double)s->n_elements);
        cJSON_AddNumberToObject(o, "bytes", (double)s->n_bytes);
        cJSON_AddNumberToObject(o, "rms_error", rms(s));
        cJSON_AddNumberToObject(o, "relative_error", relative(s));
        cJSON_AddItemToArray(list, o);
    }
    return list;
}

static cJSON *json_tensors(const struct job *j)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < j->pieces.n; i++) {
        const struct piece *p = &j->pieces.v[i];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", p->name);
        cJSON_AddStringToObject(o, "type", ggml_type_info(p->type)->name);
        cJSON_AddStringToObject(o, "wanted", ggml_type_info(p->wanted)->name);
        cJSON_AddItemToArray(list, o);
    }
    return list;
}

static enum status print_json(const struct job *j)
{
    cJSON *root = cJSON_CreateObject();
    const struct quality *q = &j->quality;
    cJSON_AddStringToObject(root, "file", j->out);
    cJSON_AddNumberToObject(root, "bytes", (double)j->size);
    cJSON_AddItemToObject(root, "types", json_types(j));
    cJSON_AddItemToObject(root, "tensors", json_tensors(j));
    if (q->n_positions) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddNumberToObject(o, "tokens", q->n_positions);
        cJSON_AddNumberToObject(o, "kl_mean", q->mean_kl);
        cJSON_AddNumberToObject(o, "kl_99", q->kl_99);
        cJSON_AddNumberToObject(o, "same_top", q->same_top);
        cJSON_AddNumberToObject(o, "perplexity", q->perplexity);
        cJSON_AddNumberToObject(o, "perplexity_source", q->perplexity_source);
        cJSON_AddItemToObject(root, "quality", o);
    }
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text)
        FAIL(ST_NOMEM, "no memory for the summary");
    printf("%s\n", text);
    free(text);
    return ST_OK;
}

static int finish(struct job *j, enum status st)
{
    if (j->progress.terminal && st != ST_OK)
        fprintf(stderr, "\r%79s\r", "");
    if (st == ST_OK && j->a->json)
        st = print_json(j);
    else if (st == ST_OK)
        print_summary(j);
    if (st == ST_OK && (fflush(stdout) != 0 || ferror(stdout)))
        st = status_fail(ST_IO, __FILE__, __LINE__, "cannot write to standard output");
    if (st == ST_OK)
        return EXIT_DONE;
    fprintf(stderr, "ingot quantize: %s\n", status_text());
    return st == ST_CANCELED ? EXIT_STOPPED : j->model_fault ? EXIT_MODEL : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct args a;
    struct option_result res;
    if (options_parse(&options, &a, argc, argv, &res) != ST_OK) {
        fprintf(stderr, "ingot quantize: %s\n", status_text());
        return EXIT_WRONG_USE;
    }
    if (res.help) {
        options_print_help(stdout, &options, res.help);
        return EXIT_DONE;
    }
    if (res.version) {
        build_info_print(stdout, "ingot-quantize");
        return EXIT_DONE;
    }
    set_signals();
    struct job j = {.a = &a, .source = res.args[0], .out = res.args[1]};
    j.progress.terminal = isatty(STDERR_FILENO);
    if (check_out(&j) != ST_OK) {
        fprintf(stderr, "ingot quantize: %s\n", status_text());
        return EXIT_WRONG_USE;
    }
    enum status st = run_job(&j);
    gguf_writer_destroy(j.w); /* whatever is not finished is removed before anything is said */
    j.w = NULL;
    int rc = finish(&j, st);
    pieces_free(&j.pieces);
    gguf_file_close(j.gguf);
    loader_close(j.ld);
    text_buf_free(&j.notes);
    return rc;
}
