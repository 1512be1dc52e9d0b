/* One message of every important kind, with every field set, for the golden bytes. */
#ifndef TESTS_WIRE_FIXTURES_H
#define TESTS_WIRE_FIXTURES_H

#include "common/wire/client_msg.h"
#include "common/wire/worker_msg.h"

struct fixture {
    const char *name; /* proto/golden/NAME.bin */
    enum { FIX_REQUEST, FIX_REPLY, FIX_WORKER } kind;
    struct client_msg client;
    struct worker_msg worker;
};

enum { N_FIXTURES = 24 };

void fixtures_make(struct fixture out[N_FIXTURES]);

#endif
