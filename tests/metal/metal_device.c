/* The Metal device as the backend sees it: name, families, limits, and of each kernel the most
 * threads of a group, which falls when a kernel takes many registers; how long a start takes.  With
 * --second, behind such a run: the same start with the kernels that it has left.  TAP and facts on stdout. */
#include <string.h>

#include "backends/metal/archive.h"
#include "backends/metal/metal_backend.h"
#include "backends/metal/objc.h"
#include "common/clock.h"
#include "report.h"

/* MTLGPUFamily. */
static const struct {
    const char *name;
    long value;
} families[] = {{"Apple7", 1007},  {"Apple8", 1008}, {"Apple9", 1009}, {"Apple10", 1010},
                {"Common3", 3003}, {"Metal3", 5001}, {"Metal4", 5002}};

static void tell_families(const struct backend *be)
{
    for (size_t i = 0; i < ARRAY_LEN(families); i++)
        fact("family.%s %s", families[i].name,
             MTL(supports_family, be->device, families[i].value) ? "yes" : "no");
}

/* Kernels that the products in use need: of matrices or of chains. */
static bool is_used(const struct backend *be, int i)
{
    return be->matrices || !metal_kernel_is_of_matrices(i);
}

/* Compiles all of them, models' too. */
static enum status compile_all(struct backend *be, int *n)
{
    *n = 0;
    for (int i = 0; i < N_METAL_KERNELS; i++)
        if (is_used(be, i)) {
            TRY(metal_make_pipeline(be, (enum metal_kernel)i));
            ++*n;
        }
    return ST_OK;
}

static void tell_ms(const char *which, const char *what, uint64_t from)
{
    fact("start.%s.%s.ms %.1f", which, what, (double)(clock_us() - from) / 1e3);
}

/* The first start, or one that finds the first one's archive: its text is compiled, and all pipelines are there. */
static enum status start(struct backend **be, const char *which, int *n)
{
    uint64_t from = clock_us();
    TRY(backend_open(be, "metal", &(struct backend_config){0}));
    tell_ms(which, "open", from);
    TRY(compile_all(*be, n));
    tell_ms(which, "all_kernels", from);
    fact("start.%s.from_archive %d of %d", which, (*be)->n_kept, *n);
    metal_keep_archive(*be);
    tell_ms(which, "all", from);
    return ST_OK;
}

/* The kernel with the fewest; all have at least the 256 that the backend asks for. */
static unsigned long tell_kernels(const struct backend *be)
{
    unsigned long least = ~0UL;
    for (int i = 0; i < N_METAL_KERNELS; i++) {
        if (!is_used(be, i))
            continue;
        unsigned long n = MTL_GET(max_threads, be->pipeline[i]);
        fact("threads.%s %lu", metal_kernel_names[i], n);
        least = n < least ? n : least;
    }
    return least;
}

/* Behind a run of this program. */
static void second_start(struct tap *t)
{
    int n;
    struct backend *be = NULL;
    if (start(&be, "second", &n) != ST_OK)
        tap_ok(t, false, "%s", status_detail());
    else
        tap_ok(t, be->n_kept == n, "%d of %d kernels are from the archive of the first start",
               be->n_kept, n);
    if (be)
        backend_ops_of(be)->close(be);
}

int main(int argc, char **argv)
{
    int n;
    struct tap t = {0};
    struct backend *be = NULL;
    struct backend_info info;
    if (argc > 1 && strcmp(argv[1], "--second") == 0) {
        second_start(&t);
        return tap_end(&t);
    }
    bool compiled = start(&be, "first", &n) == ST_OK;
    if (!be) {
        tap_ok(&t, false, "open: %s", status_detail());
        return tap_end(&t);
    }
    backend_ops_of(be)->info(be, &info);
    fact("device %s", info.device);
    fact("working_set_bytes %zu", info.mem_total);
    fact("max_buffer_bytes %zu", be->max_buffer);
    tell_families(be);
    tap_ok(&t, compiled, "%s: %d kernels compiled%s", info.device, n,
           compiled ? "" : status_detail());
    unsigned long least = compiled ? tell_kernels(be) : 0;
    tap_ok(&t, least >= (be->matrices ? 32 * METAL_LINEAR_SIMDS : METAL_STRIP),
           "groups of %lu threads at least", least);
    tap_ok(&t, info.mem_free > 0 && be->max_buffer > 0, "%zu of %zu bytes are free", info.mem_free,
           info.mem_total);
    backend_ops_of(be)->close(be);
    return tap_end(&t);
}
