#include "coordinator/model_identity.h"

#include <stdlib.h>

#include "common/digest/text_digest.h"
#include "common/formats/model_config.h"
#include "common/hex.h"
#include "common/log.h"

static enum status read_sizes(struct model_identity *id, const char *model)
{
    struct model_config *mc = calloc(1, sizeof *mc);
    if (!mc)
        FAIL(ST_NOMEM, "no memory for the model's configuration");
    enum status st = model_config_load(mc, model);
    id->vocab = (uint32_t)mc->vocab;
    id->max_ctx = (uint32_t)mc->max_ctx;
    free(mc);
    return st;
}

static void log_weights(const struct model_identity *id)
{
    char hex[2 * SHA256_BYTES + 1];
    hex_of(id->weights, SHA256_BYTES, hex);
    log_line(LOG_INFO, "weights digest %s (%s)", hex, model_identity_from(id));
}

enum status model_identity_open(struct model_identity *id, const char *model, const char *told,
                                const struct digest_cache *cache)
{
    struct weights_digest_config cfg = {.model = model, .cache = cache};
    *id = (struct model_identity){.from = IDENTITY_PENDING};
    if (told && !hex_parse(told, id->weights, SHA256_BYTES))
        FAIL(ST_RANGE, "--weights-digest %.80s: it takes %d hexadecimal digits", told,
             2 * SHA256_BYTES);
    TRY(read_sizes(id, model));
    TRY(text_digest(model, &id->has_text, id->text));
    if (told) {
        id->from = IDENTITY_TOLD;
        log_weights(id);
        return ST_OK;
    }
    enum status st = weights_digest_open(&id->own, &cfg);
    if (st == ST_NOMEM)
        return st;
    if (st != ST_OK)
        log_line(LOG_WARN,
                 "worker groups are compared with each other only, for the weights cannot be read "
                 "here (%s); --weights-digest says what they must be",
                 status_text());
    if (!model_identity_update(id)) /* without a digest: none */
        log_line(LOG_INFO,
                 "weights digest pending: the files are read when a worker group is here");
    return ST_OK;
}

void model_identity_close(struct model_identity *id)
{
    weights_digest_close(id->own);
    id->own = NULL;
}

void model_identity_begin(struct model_identity *id)
{
    weights_digest_begin(id->own);
}

bool model_identity_update(struct model_identity *id)
{
    if (id->from != IDENTITY_PENDING)
        return false;
    switch (weights_digest_get(id->own, id->weights)) {
    case DIGEST_PENDING:
        return false;
    case DIGEST_KNOWN:
        id->from = IDENTITY_OWN;
        log_weights(id);
        return true;
    case DIGEST_NONE:
        break;
    }
    id->from = IDENTITY_NONE;
    return true;
}

bool model_identity_known(const struct model_identity *id)
{
    return id->from == IDENTITY_OWN || id->from == IDENTITY_TOLD;
}

const char *model_identity_from(const struct model_identity *id)
{
    static const char *const names[] = {"pending", "own", "told", "none"};
    return names[id->from];
}
