/* API keys of requests, compared as SHA-256 digests in constant time. */
#ifndef CLIENT_GATEWAY_API_KEYS_H
#define CLIENT_GATEWAY_API_KEYS_H

#include "client/gateway/http_parser.h"
#include "common/options.h"
#include "common/sha256.h"

struct api_keys {
    uint8_t digest[MAX_OPTION_LIST][SHA256_BYTES];
    size_t n;
};

void api_keys_init(struct api_keys *k, const struct option_list *keys);

/* Does the request carry one of the keys, as "Authorization: Bearer KEY" or "x-api-key: KEY"?  Yes when there are
 * none. */
bool api_keys_allow(const struct api_keys *k, const struct http_request *q);

#endif
