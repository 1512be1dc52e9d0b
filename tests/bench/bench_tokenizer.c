/* Times encoding on one thread, and loading.  usage: bench_tokenizer TOKENIZER TEXT-FILE [ROUNDS]
 * Prints "load MS" and "encode BYTES MS TOKENS" for the first 16 KiB and the first 1 MiB: the best
 * of ROUNDS by this process's CPU time.  tests/bench/bench_tokenizer.py times the HuggingFace
 * library beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/mapped_file.h"
#include "common/utf8.h"
#include "coordinator/tokenizer/tokenizer.h"

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static enum status bench_load(const char *path, int rounds, struct tokenizer **t)
{
    double best = 0;
    for (int i = 0; i < rounds; i++) {
        tokenizer_destroy(*t);
        double start = now_ms();
        TRY(tokenizer_open(t, path));
        double ms = now_ms() - start;
        best = i == 0 || ms < best ? ms : best;
    }
    printf("load %.1f\n", best);
    return ST_OK;
}

static enum status bench_encode(const struct tokenizer *t, const char *text, size_t n, int rounds)
{
    struct token_list ids = {0};
    enum status st = ST_OK;
    double best = 0;
    for (int i = 0; i < rounds && st == ST_OK; i++) {
        double start = now_ms();
        st = tokenizer_encode(t, text, n, 0, &ids);
        double ms = now_ms() - start;
        best = i == 0 || ms < best ? ms : best;
    }
    if (st == ST_OK)
        printf("encode %zu %.3f %zu\n", n, best, ids.n);
    token_list_free(&ids);
    return st;
}

static enum status bench(const char *path, const char *text_path, int rounds)
{
    struct tokenizer *t = NULL;
    struct mapped_file f;
    TRY(mapped_file_open(&f, text_path));
    enum status st = bench_load(path, rounds < 5 ? rounds : 5, &t);
    for (size_t size = 16384; size <= 1 << 20 && st == ST_OK; size *= 64) {
        size_t n = utf8_valid_prefix((const char *)f.data, size < f.size ? size : f.size);
        st = bench_encode(t, (const char *)f.data, n, rounds);
    }
    tokenizer_destroy(t);
    mapped_file_close(&f);
    return st;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s TOKENIZER TEXT-FILE [ROUNDS]\n", argv[0]);
        return 2;
    }
    if (bench(argv[1], argv[2], argc > 3 ? atoi(argv[3]) : 20) != ST_OK) {
        fprintf(stderr, "%s\n", status_text());
        return 1;
    }
    return 0;
}
