#include "client/gateway/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "client/keys/key_file.h"
#include "common/log.h"
#include "common/random.h"
#include "common/sha256.h"

struct option_key {
    uint8_t digest[SHA256_BYTES];
    uint8_t tenant[CALLER_TENANT];
};

struct api_keys {
    struct option_key option[MAX_OPTION_LIST];
    size_t n_options;
    const char *path;
    const struct secret *secret;
    struct key_file file;
    struct stat seen; /* of the file that was read last */
};

/* ---- tenants ---- */

/* A tenant's name is all that one needs to attach to its requests (proto/ingot.proto), so it is made of the secret. */
static enum status tenant_of(const struct api_keys *k, const char *kind, const char *name,
                             uint8_t out[CALLER_TENANT])
{
    char text[1024];
    unsigned n = CALLER_TENANT;
    int n_text = snprintf(text, sizeof text, "%s %s", kind, name);
    if (n_text >= (int)sizeof text)
        FAIL(ST_RANGE, "an API key is longer than %zu characters", sizeof text - 8);
    if (!HMAC(EVP_sha256(), k->secret->bytes, (int)k->secret->n, (const unsigned char *)text,
              (size_t)n_text, out, &n))
        FAIL(ST_IO, "OpenSSL made no HMAC-SHA256");
    return ST_OK;
}

/* ---- the file ---- */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static enum status load(struct api_keys *k)
{
    struct key_file fresh;
    TRY(key_file_load(&fresh, k->path));
    key_file_free(&k->file);
    k->file = fresh;
    return ST_OK;
}

void api_keys_poll(struct api_keys *k)
{
    struct stat now;
    if (!k->path)
        return;
    if (stat(k->path, &now) != 0)
        memset(&now, 0, sizeof now);
    if (is_same_file(&now, &k->seen))
        return;
    k->seen = now; /* of before the reading: a change meanwhile is seen the next time */
    if (load(k) == ST_OK)
        log_line(LOG_INFO, "%s: %zu API keys", k->path, k->file.n);
    else
        log_line(LOG_ERROR, "%s; the %zu API keys of before stay in force", status_text(),
                 k->file.n);
}

/* ---- life ---- */

static enum status begin(struct api_keys *k, const struct api_keys_config *cfg)
{
    k->path = cfg->path;
    k->secret = cfg->secret;
    for (; k->n_options < cfg->keys->n; k->n_options++) {
        const char *key = cfg->keys->item[k->n_options];
        struct option_key *o = &k->option[k->n_options];
        sha256(key, strlen(key), o->digest);
        TRY(tenant_of(k, "key", key, o->tenant));
    }
    if (!k->path)
        return ST_OK;
    if (stat(k->path, &k->seen) != 0)
        memset(&k->seen, 0, sizeof k->seen);
    return load(k);
}

enum status api_keys_create(struct api_keys **out, const struct api_keys_config *cfg)
{
    struct api_keys *k = calloc(1, sizeof *k);
    *out = NULL;
    if (!k)
        FAIL(ST_NOMEM, "no memory for API keys");
    enum status st = begin(k, cfg);
    if (st == ST_OK)
        *out = k;
    else
        api_keys_destroy(k);
    return st;
}

void api_keys_destroy(struct api_keys *k)
{
    if (!k)
        return;
    key_file_free(&k->file);
    free(k);
}

bool api_keys_required(const struct api_keys *k)
{
    return k->n_options > 0 || k->path;
}

bool api_keys_have_tenants(const struct api_keys *k)
{
    return k->n_options > 1 || k->path;
}

enum status api_keys_own_tenant(const struct api_keys *k, uint8_t out[CALLER_TENANT])
{
    if (k->secret->n == 0)
        random_bytes(out, CALLER_TENANT);
    else if (k->n_options == 1)
        memcpy(out, k->option[0].tenant, CALLER_TENANT);
    else
        return tenant_of(k, "gateway", "", out);
    return ST_OK;
}

/* ---- requests ---- */

static const char *key_of(const struct http_request *q)
{
    const char *bearer = http_request_header(q, "authorization");
    if (!bearer)
        return http_request_header(q, "x-api-key");
    if (strncasecmp(bearer, "bearer ", 7) != 0)
        return NULL;
    return bearer + 7 + strspn(bearer + 7, " ");
}

/* All of them are compared to the end: time tells nothing. */
static bool find_option(const struct api_keys *k, const char *key, struct caller *out)
{
    uint8_t given[SHA256_BYTES];
    size_t found = 0;
    sha256(key, strlen(key), given);
    for (size_t i = 0; i < k->n_options; i++)
        if (CRYPTO_memcmp(given, k->option[i].digest, sizeof given) == 0)
            found = i + 1;
    if (!found)
        return false;
    snprintf(out->id, sizeof out->id, "key%zu", found);
    memcpy(out->tenant, k->option[found - 1].tenant, sizeof out->tenant);
    out->own_tenant = !api_keys_have_tenants(k);
    out->max_priority = KEY_MAX_PRIORITY;
    return true;
}

/* An id that is not in the file costs a hash too: time does not tell which ids exist. */
static bool find_in_file(const struct api_keys *k, const char *key, struct caller *out)
{
    static const struct key_record none;
    char id[KEY_ID_SIZE];
    if (!key_id(key, id))
        return false;
    const struct key_record *r = key_file_find(&k->file, id);
    bool matches = key_matches(r ? r : &none, key);
    if (!r || !matches)
        return false;
    snprintf(out->id, sizeof out->id, "%s", r->id);
    out->has_limits = true;
    out->limits = (struct ingot_limits){.max_samples = r->requests,
                                        .tokens_per_minute = r->tokens_per_minute};
    out->max_priority = r->priority;
    return tenant_of(k, "tenant", r->tenant, out->tenant) == ST_OK;
}

bool api_keys_caller(const struct api_keys *k, const struct http_request *q, struct caller *out)
{
    const char *key = key_of(q);
    *out = (struct caller){.own_tenant = true};
    if (!api_keys_required(k))
        return true;
    *out = (struct caller){.own_tenant = false};
    if (!key)
        return false;
    return find_option(k, key, out) || find_in_file(k, key, out);
}
