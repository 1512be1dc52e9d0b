#include "bench/step_report.h"

#include <stdlib.h>
#include <string.h>

#include "common/json_escape.h"
#include "common/quant.h"

struct figures {
    char name[40];
    double median, least, most; /* tokens a second */
    struct step_cost cost;
    double gbs, gops; /* at the median */
    double limit;     /* tokens a second, 0: not known */
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double peak_gops(const struct step_report *r, const struct ceilings *top)
{
    bool rounds = r->type == DT_BF16 && r->activations != ACTIVATIONS_F32;
    if (rounds && top->bf16_gflops > 0)
        return top->bf16_gflops;
    return quant_form(r->type) && top->int8_gops > 0 ? top->int8_gops : top->fma_gflops;
}

static struct figures figures_of(const struct step_report *r, const struct step_row *row)
{
    struct figures f = {0};
    double s[MAX_REPS], tokens = (double)row->n * row->seqs;
    size_t n = (size_t)r->reps;
    memcpy(s, row->seconds, n * sizeof *s);
    qsort(s, n, sizeof *s, by_value);
    double median = n % 2 ? s[n / 2] : 0.5 * (s[n / 2 - 1] + s[n / 2]);
    f.median = tokens / median;
    f.least = tokens / s[n - 1];
    f.most = tokens / s[0];
    bool prefill = row->kind == ROW_PREFILL;
    f.cost = prefill ? prefill_cost(&r->cost, row->n, row->context, r->chunk)
                     : decode_cost(&r->cost, row->n, row->seqs, row->context);
    double bytes = f.cost.weight_bytes + f.cost.kv_bytes;
    f.gbs = bytes / median * 1e-9;
    f.gops = f.cost.ops / median * 1e-9;
    if (r->n_ceilings) {
        const struct ceilings *top = &r->ceiling[r->n_ceilings - 1].top;
        double by_bytes = bytes * 1e-9 / top->read_gbs;
        double by_ops = f.cost.ops * 1e-9 / peak_gops(r, top);
        f.limit = tokens / (by_bytes > by_ops ? by_bytes : by_ops);
    }
    int at = snprintf(f.name, sizeof f.name, "%s%d", prefill ? "pp" : "tg", row->n);
    if (row->context)
        at += snprintf(f.name + at, sizeof f.name - (size_t)at, " @%d", row->context);
    if (row->seqs > 1)
        snprintf(f.name + at, sizeof f.name - (size_t)at, " x%d", row->seqs);
    return f;
}

void step_report_table(FILE *f, const struct step_report *r)
{
    fprintf(f, "%s (%s, %s), %s\n", r->model, r->format, dtype_name(r->type), r->device);
    fprintf(f, "%d rank%s x %d thread%s, KV %s, prefill steps of %d; median of %d\n", r->ranks,
            r->ranks == 1 ? "" : "s", r->threads, r->threads == 1 ? "" : "s",
            dtype_name(r->kv_dtype), r->chunk, r->reps);
    fprintf(f, "weights: %.1f MiB packed from %.1f MiB%s\n", (double)r->weight_bytes / 0x1p20,
            (double)r->file_bytes / 0x1p20, r->ranks > 1 ? " (rank 0)" : "");
    for (int i = 0; i < r->n_ceilings; i++) {
        const struct ceilings *t = &r->ceiling[i].top;
        fprintf(f,
                "machine, %d thread%s: read %.1f GB/s, fp32 FMA %.0f GFLOP/s, bf16 %.0f, int8 %.0f "
                "GOP/s\n",
                r->ceiling[i].threads, r->ceiling[i].threads == 1 ? "" : "s", t->read_gbs,
                t->fma_gflops, t->bf16_gflops, t->int8_gops);
    }
    if (r->has_start)
        fprintf(f, "start: open %.3f s, load %.3f s, first token %.3f s: %.3f s in all\n",
                r->open_s, r->load_s, r->first_s, r->open_s + r->load_s + r->first_s);
    if (r->n_rows)
        fprintf(f, "\n%-18s %9s %9s %9s  %8s %9s  %9s %6s\n", "test", "tok/s", "least", "most",
                "GB/s", "GOP/s", "limit", "share");
    for (int i = 0; i < r->n_rows; i++) {
        struct figures g = figures_of(r, &r->row[i]);
        fprintf(f, "%-18s %9.2f %9.2f %9.2f  %8.2f %9.1f", g.name, g.median, g.least, g.most, g.gbs,
                g.gops);
        if (g.limit > 0)
            fprintf(f, "  %9.2f %4.0f %%", g.limit, 100 * g.median / g.limit);
        fprintf(f, "\n");
    }
}

static void json_row(FILE *f, const struct step_report *r, const struct step_row *row)
{
    struct figures g = figures_of(r, row);
    fprintf(f,
            "    {\"test\": \"%s\", \"kind\": \"%s\", \"n\": %d, \"seqs\": %d, \"context\": %d,\n"
            "     \"tokens_per_s\": {\"median\": %.6g, \"min\": %.6g, \"max\": %.6g},\n"
            "     \"seconds\": [",
            g.name, row->kind == ROW_PREFILL ? "prefill" : "decode", row->n, row->seqs,
            row->context, g.median, g.least, g.most);
    for (int i = 0; i < r->reps; i++)
        fprintf(f, "%s%.6f", i ? ", " : "", row->seconds[i]);
    fprintf(f,
            "],\n     \"weight_bytes\": %.0f, \"kv_bytes\": %.0f, \"ops\": %.0f, "
            "\"gb_per_s\": %.4g, \"gop_per_s\": %.5g",
            g.cost.weight_bytes, g.cost.kv_bytes, g.cost.ops, g.gbs, g.gops);
    if (g.limit > 0)
        fprintf(f, ", \"limit_tokens_per_s\": %.6g", g.limit);
    fprintf(f, "}");
}

static void json_text(FILE *f, const char *name, const char *text)
{
    size_t n = strlen(text);
    fprintf(f, "  \"%s\": \"", name);
    while (n) {
        char esc[JSON_ESCAPE_SIZE];
        size_t plain = json_plain_run(text, n);
        fwrite(text, 1, plain, f);
        text += plain, n -= plain;
        if (n)
            fwrite(esc, 1, json_escape(*text++, esc), f), n--;
    }
    fprintf(f, "\",\n");
}

void step_report_json(FILE *f, const struct step_report *r)
{
    fprintf(f, "{\n");
    json_text(f, "model", r->model);
    json_text(f, "format", r->format);
    json_text(f, "device", r->device);
    fprintf(f,
            "  \"type\": \"%s\", \"kv\": \"%s\", \"ranks\": %d, \"threads\": %d, \"chunk\": %d,\n"
            "  \"weight_bytes\": %zu, \"file_bytes\": %zu,\n  \"ceilings\": [",
            dtype_name(r->type), dtype_name(r->kv_dtype), r->ranks, r->threads, r->chunk,
            r->weight_bytes, r->file_bytes);
    for (int i = 0; i < r->n_ceilings; i++)
        fprintf(f,
                "%s{\"threads\": %d, \"read_gb_per_s\": %.4g, \"fma_gflop_per_s\": %.5g, "
                "\"bf16_gflop_per_s\": %.5g, \"int8_gop_per_s\": %.5g}",
                i ? ", " : "", r->ceiling[i].threads, r->ceiling[i].top.read_gbs,
                r->ceiling[i].top.fma_gflops, r->ceiling[i].top.bf16_gflops,
                r->ceiling[i].top.int8_gops);
    fprintf(f, "],\n");
    if (r->has_start)
        fprintf(f, "  \"start_s\": {\"open\": %.4f, \"load\": %.4f, \"first_token\": %.4f},\n",
                r->open_s, r->load_s, r->first_s);
    fprintf(f, "  \"rows\": [\n");
    for (int i = 0; i < r->n_rows; i++) {
        json_row(f, r, &r->row[i]);
        fprintf(f, i + 1 < r->n_rows ? ",\n" : "\n");
    }
    fprintf(f, "  ]\n}\n");
}
