/* What the machine can do at best, measured: the rooflines that the benchmarks print beside their
 * figures. */
#ifndef TESTS_BENCH_CEILINGS_H
#define TESTS_BENCH_CEILINGS_H

#include <stddef.h>
#include <stdint.h>

struct ceilings {
    double read_gbs;    /* 1e9 bytes a second read from memory in address order, huge pages where
                          there are any: the better of loads alone and of loads with the backend's
                          prefetching (backends/cpu/read_ahead.h), which are up to 1.4 times faster */
    double fma_gflops;  /* 1e9 fp32 operations a second, a fused multiply-add counting as two */
    double bf16_gflops; /* likewise of BF16 operands summed in f32 (AMX's TDPBF16PS, or
                           VDPBF16PS); 0: no such instruction */
    double int8_gops;   /* 1e9 operations a second of products of bytes summed in int32, by AMX's
                           tiles or vectors, likewise; 0: no such instruction in this build */
};

/* isa: "amx" (of a process that may use its tiles, as a backend that runs on them has asked),
 * "avx512", "avx2", anything else: fmaf in plain C.  Best of several tries; 0 when out of
 * memory. */
struct ceilings ceilings_measure(int threads, const char *isa);

/* Wall time, or after bench_use_cpu_time the processor time of this process: for one thread on a
 * machine that others use. */
uint64_t bench_now_ns(void);
void bench_use_cpu_time(void);

#endif
