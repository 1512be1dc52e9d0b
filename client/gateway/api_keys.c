#include "client/gateway/api_keys.h"

#include <string.h>
#include <strings.h>

void api_keys_init(struct api_keys *k, const struct option_list *keys)
{
    k->n = keys->n;
    for (size_t i = 0; i < k->n; i++)
        sha256(keys->item[i], strlen(keys->item[i]), k->digest[i]);
}

static const char *key_of(const struct http_request *q)
{
    const char *bearer = http_request_header(q, "authorization");
    if (!bearer)
        return http_request_header(q, "x-api-key");
    if (strncasecmp(bearer, "bearer ", 7) != 0)
        return NULL;
    return bearer + 7 + strspn(bearer + 7, " ");
}

bool api_keys_allow(const struct api_keys *k, const struct http_request *q)
{
    uint8_t given[SHA256_BYTES];
    const char *key = key_of(q);
    bool allowed = k->n == 0;
    if (!key)
        return allowed;
    sha256(key, strlen(key), given);
    for (size_t i = 0; i < k->n; i++) { /* to the end of each: time tells nothing */
        unsigned differs = 0;
        for (size_t b = 0; b < SHA256_BYTES; b++)
            differs |= (unsigned)(given[b] ^ k->digest[i][b]);
        allowed = differs == 0 || allowed;
    }
    return allowed;
}
