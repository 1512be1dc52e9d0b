/* Who asks: the API key of a request, and the tenant that it stands for.
 *
 * Keys come from options (any text, without limits) and from the file of `ingot api-key` (client/keys/key_file.h),
 * which is read again when it changes; a file with a mistake leaves the keys of before in force.  Without keys all may
 * ask, as the gateway's own tenant. */
#ifndef CLIENT_GATEWAY_API_KEYS_H
#define CLIENT_GATEWAY_API_KEYS_H

#include "client/gateway/http_parser.h"
#include "client/lib/ingot.h"
#include "common/options.h"
#include "common/secret.h"

enum { CALLER_TENANT = 32, CALLER_ID_SIZE = 32 };

struct caller {
    char id[CALLER_ID_SIZE]; /* of the key, for logs; "": there are no keys */
    uint8_t tenant[CALLER_TENANT];
    bool own_tenant; /* the gateway's, tenant is not used */
    bool has_limits;
    struct ingot_limits limits;
    int32_t max_priority;
};

struct api_keys;

struct api_keys_config {
    const struct option_list *keys; /* borrowed, as the others */
    const char *path;               /* of the file, or NULL */
    const struct secret
        *secret; /* of the service: tenants' names are hashed with it, so that clients of the
                                     * coordinator cannot guess them */
};

/* ST_NOT_FOUND, ST_IO, ST_FORMAT, ST_RANGE: the file. */
MUST_CHECK enum status api_keys_create(struct api_keys **out, const struct api_keys_config *cfg);
void api_keys_destroy(struct api_keys *k); /* NULL is fine */

/* Are keys asked for?  Also when the file has none. */
bool api_keys_required(const struct api_keys *k);
/* Does a tenant other than the gateway's own exist? */
bool api_keys_have_tenants(const struct api_keys *k);
/* The gateway's own tenant: made of the secret, so that it is the same in every gateway of the service without keys, or
 * with the same only key; without a secret random.  ST_IO. */
MUST_CHECK enum status api_keys_own_tenant(const struct api_keys *k, uint8_t out[CALLER_TENANT]);
/* Reads the file again if it has changed. */
void api_keys_poll(struct api_keys *k);

/* The sender of "Authorization: Bearer KEY" or "x-api-key: KEY".  false: no key, or a wrong one. */
bool api_keys_caller(const struct api_keys *k, const struct http_request *q, struct caller *out);

#endif
