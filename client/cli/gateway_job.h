/* ingot-gateway as a child of `ingot serve`: HTTP before its coordinator.  Serving goes on without it. */
#ifndef CLIENT_CLI_GATEWAY_JOB_H
#define CLIENT_CLI_GATEWAY_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "client/cli/child.h"
#include "client/cli/serve_options.h"

struct gateway_job {
    const char *http; /* ADDR:PORT; NULL: there is no gateway, or none any more */
    const struct serve_args *args;
    const char *endpoint;
    pid_t pid; /* 0: does not run */
    int notify_fd;
    uint64_t start_at_us;
    uint64_t looked_us; /* the last time */
    uint64_t silent_us; /* how long it has been looked at in vain */
    char address[128];  /* "127.0.0.1:8080", "": does not listen now */
    bool listened;      /* once */
    char why[256];      /* there is no gateway any more; "": there is, or none was wanted */
};

/* args is borrowed: http, and the options that the gateway gets. */
void gateway_job_init(struct gateway_job *g, const struct serve_args *args);
/* Starts it, sees whether it listens or has ended, starts it again after a crash.  One that listens and then gives no sign
 * of life for 10 s (it is stopped, or its loop hangs) is killed.  endpoint: of the coordinator; NULL:
 * not there yet.  ST_RANGE: the address is not one, or is open to other hosts without a key. */
MUST_CHECK enum status gateway_job_poll(struct gateway_job *g, const char *endpoint);
/* Does it listen, or is it given up? */
bool gateway_job_is_settled(const struct gateway_job *g);
/* It takes nothing new and ends after its answers. */
void gateway_job_drain(struct gateway_job *g);
/* Ends it now. */
void gateway_job_stop(struct gateway_job *g);

#endif
