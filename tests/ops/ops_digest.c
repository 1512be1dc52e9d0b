/* Prints a digest (FNV-1a of the results' bits) of every op case of moderate size:
 *   ops_digest [ISA [ACTIVATIONS]]
 * ACTIVATIONS: f32, or bf16 or bf16-tiles, then of the cases with BF16 weights alone.
 * digests.txt, digests-bf16.txt and digests-bf16-tiles.txt hold them; the same bits are promised for every instruction set, so a build for
 * another processor is checked by comparing its output, under an emulator too (neon_digests.sh): it
 * needs no library.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ops/op_cases.h"

enum { MAX_ROWS = 150, MAX_INPUTS = 1000000 };

static int print_digest(struct backend *be, const struct op_case *c)
{
    size_t n = (size_t)c->rows * (size_t)c->op->cols(c);
    float *out = calloc(n + 1, sizeof *out);
    uint64_t h = 0xcbf29ce484222325U;
    if (!out || c->op->run(be, c, 0, c->rows, out) != ST_OK) {
        fprintf(stderr, "ops_digest: %s: %s\n", op_case_name(c), status_detail());
        free(out);
        return 1;
    }
    for (size_t i = 0; i < n; i++)
        h = (h ^ bits_of_f32(out[i])) * 0x100000001b3U;
    printf("%016llx %s\n", (unsigned long long)h, op_case_name(c));
    free(out);
    return 0;
}

static enum activations activations_of(const char *name)
{
    return strcmp(name, "bf16") == 0         ? ACTIVATIONS_BF16
           : strcmp(name, "bf16-tiles") == 0 ? ACTIVATIONS_BF16_TILES
                                             : ACTIVATIONS_F32;
}

int main(int argc, char **argv)
{
    struct backend *be;
    struct backend_config cfg = {.isa = argc > 1 ? argv[1] : "auto", .threads = 2};
    cfg.activations = activations_of(argc > 2 ? argv[2] : "f32");
    if (backend_open(&be, "cpu", &cfg) != ST_OK) {
        fprintf(stderr, "ops_digest: %s\n", status_detail());
        return 1;
    }
    int failed = 0;
    for (size_t i = 0; i < n_op_cases && !failed; i++)
        if ((cfg.activations == ACTIVATIONS_F32 || op_has_bf16_weights(&op_cases[i])) &&
            op_cases[i].rows <= MAX_ROWS && (int64_t)op_cases[i].rows * op_cases[i].k <= MAX_INPUTS)
            failed = print_digest(be, &op_cases[i]);
    backend_ops_of(be)->close(be);
    return failed;
}
