#include "coordinator/grammar_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/grammar/grammar.h"
#include "common/sha256.h"

struct verdict {
    uint8_t digest[SHA256_BYTES]; /* over kind (one byte) and source */
    enum status status;
    char text[400]; /* of a failure */
    size_t n_bytes;
    uint64_t used; /* in checks; 0: free */
};

struct grammar_check {
    struct verdict list[GRAMMAR_VERDICTS];
    uint64_t n_checks;
};

enum status grammar_check_create(struct grammar_check **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        FAIL(ST_NOMEM, "no memory for the verdicts on grammars");
    return ST_OK;
}

void grammar_check_destroy(struct grammar_check *c)
{
    free(c);
}

static void digest_of(const struct grammar_source *source, uint8_t digest[SHA256_BYTES])
{
    uint8_t kind = (uint8_t)source->kind;
    struct sha256 s;
    sha256_init(&s);
    sha256_update(&s, &kind, 1);
    sha256_update(&s, source->text, source->n);
    sha256_final(&s, digest);
}

/* The verdict of that digest, or the one to be replaced. */
static struct verdict *find(struct grammar_check *c, const uint8_t digest[SHA256_BYTES],
                            bool *known)
{
    struct verdict *oldest = &c->list[0];
    for (size_t i = 0; i < GRAMMAR_VERDICTS; i++) {
        struct verdict *v = &c->list[i];
        *known = v->used && memcmp(v->digest, digest, SHA256_BYTES) == 0;
        if (*known)
            return v;
        oldest = v->used < oldest->used ? v : oldest;
    }
    return oldest;
}

static void judge(struct verdict *v, const struct grammar_source *source, const atomic_bool *stop)
{
    struct grammar *g;
    *v = (struct verdict){.status = grammar_compile(&g, source, stop)};
    if (v->status != ST_OK) {
        snprintf(v->text, sizeof v->text, "%s", status_text());
        return;
    }
    v->n_bytes = grammar_bytes(g);
    grammar_destroy(g);
}

enum status grammar_check(struct grammar_check *c, const struct grammar_source *source,
                          const atomic_bool *stop, struct grammar_verdict *out)
{
    uint8_t digest[SHA256_BYTES];
    *out = (struct grammar_verdict){.n_bytes = 0};
    digest_of(source, digest);
    struct verdict *v = find(c, digest, &out->known);
    if (!out->known) {
        uint64_t begin = clock_us();
        judge(v, source, stop);
        out->compile_us = clock_us() - begin;
        memcpy(v->digest, digest, sizeof digest);
    }
    /* what lack of memory, or the client, decided says nothing of the source */
    bool keep = v->status != ST_NOMEM && v->status != ST_CANCELED;
    v->used = keep ? ++c->n_checks : 0;
    out->n_bytes = v->n_bytes;
    if (v->status != ST_OK)
        FAIL(v->status, "%s", v->text);
    return ST_OK;
}
