/* The report of `ingot doctor`: one line a finding. */
#ifndef CLIENT_CLI_DOCTOR_H
#define CLIENT_CLI_DOCTOR_H

#include <stddef.h>

#include "common/status.h"

enum finding { FINDING_OK, FINDING_WARN, FINDING_FAIL };

struct report {
    int n[3];
};

/* doctor_report.c: "ok    memory  23.5 GiB ..."; advice (NULL: none) says what to do. */
void report_line(struct report *r, enum finding f, const char *what, const char *advice,
                 const char *fmt, ...) PRINTF_LIKE(5, 6);

/* doctor_system.c: the machine */
void doctor_cpu(struct report *r);
void doctor_memory(struct report *r);
void doctor_shared_memory(struct report *r);
void doctor_limits(struct report *r);
void doctor_gpu(struct report *r);
/* doctor_parts.c: programs, libraries and ports that Ingot needs; what a worker tells */
void doctor_programs(struct report *r);
void doctor_libraries(struct report *r);
void doctor_ports(struct report *r);
void doctor_mpi(struct report *r);
/* Nothing where the worker is built without the backend metal. */
void doctor_metal(struct report *r);

#endif
