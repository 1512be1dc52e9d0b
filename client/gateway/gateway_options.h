/* The command line of ingot-gateway. */
#ifndef CLIENT_GATEWAY_GATEWAY_OPTIONS_H
#define CLIENT_GATEWAY_GATEWAY_OPTIONS_H

#include "client/gateway/http_server.h"
#include "common/options.h"

struct gateway_options {
    struct option_list connect;           /* coordinators of one service, tried in order */
    struct option_list http;              /* addresses; empty: 127.0.0.1:8080 */
    struct option_list served_model_name; /* each "A,B" */
    struct option_list api_key, cors, host;
    const char *tls_cert, *tls_key;
    const char *api_keys, *tenants_secret;
    const char *key, *server_key; /* of the connection to the coordinator; NULL: none */
    int64_t resume_grace_ms;
    const char *metrics_prefix;
    bool metrics_need_key;
    const char *access_log;
    bool log_prompts;
    bool allow_remote, die_with_parent, print_config;
    int64_t max_connections, max_headers;
    int64_t idle_ms, head_ms, body_ms, stall_ms, comment_ms, drain_ms;
    uint64_t max_body, max_body_memory, max_output, max_head; /* bytes */
    uint64_t max_answer, max_answer_memory;
    int64_t notify_fd;
    int log_level;
};

/* Fills o from the command line; -1 to go on, else the exit code, after help, version or an error was printed. */
int gateway_options_parse(struct gateway_options *o, int argc, char **argv);

/* The part that concerns the server; it borrows from o. */
struct http_options gateway_http_options(const struct gateway_options *o);

/* ST_RANGE: other hosts could reach the gateway and it has neither a key nor the word of the operator; or one of --key and
 * --server-key is there without the other. */
MUST_CHECK enum status gateway_check_exposure(const struct gateway_options *o);

#endif
