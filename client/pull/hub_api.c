#include "client/pull/hub_api.h"

#include <stdio.h>

#include "client/pull/blob_hash.h"
#include "common/json/json_read.h"

enum { MAX_LISTING = 64 << 20 /* bytes */, MAX_FILES = 200000 };
static const uint64_t MAX_SIZE = (uint64_t)1 << 50; /* bytes of a file */

/* "lfs": of a large file */
static enum status read_lfs(struct json_cursor *c, char digest[HUB_DIGEST_SIZE], uint64_t *size)
{
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_span_is(key, "sha256"))
            TRY(json_read_chars(c, digest, HUB_DIGEST_SIZE));
        else if (json_span_is(key, "size"))
            TRY(json_read_u64(c, 0, MAX_SIZE, size));
    }
    return ST_OK;
}

static enum status read_file(struct json_cursor *c, struct hub_files *out)
{
    struct json_span key;
    char path[HUB_FILE_SIZE] = "", id[HUB_DIGEST_SIZE] = "", lfs[HUB_DIGEST_SIZE] = "";
    uint64_t size = 0;
    bool has_size = false;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_take_null(c))
            continue;
        if (json_span_is(key, "rfilename")) {
            TRY(json_read_chars(c, path, sizeof path));
        } else if (json_span_is(key, "blobId")) {
            TRY(json_read_chars(c, id, sizeof id));
        } else if (json_span_is(key, "size")) {
            TRY(json_read_u64(c, 0, MAX_SIZE, &size));
            has_size = true;
        } else if (json_span_is(key, "lfs")) {
            TRY(read_lfs(c, lfs, &size));
            has_size = true;
        }
    }
    const char *digest = *lfs ? lfs : id;
    if (!hub_path_is_safe(path))
        return json_fail(c, ST_FORMAT, "'%s' is not a path inside the repository", path);
    if (!has_size || !blob_digest_is_valid(digest))
        return json_fail(c, ST_FORMAT, "%s has no size or no digest", path);
    return hub_files_add(out, path, size, digest);
}

static enum status read_files(struct json_cursor *c, struct hub_files *out)
{
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        if (out->n >= MAX_FILES)
            return json_fail(c, ST_RANGE, "more than %d files", MAX_FILES);
        TRY(read_file(c, out));
    }
    return ST_OK;
}

static enum status read_listing(struct json_cursor *c, struct hub_listing *out)
{
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_span_is(key, "sha"))
            TRY(json_read_chars(c, out->commit, sizeof out->commit));
        else if (json_span_is(key, "siblings"))
            TRY(read_files(c, &out->files));
    }
    if (!hub_is_commit(out->commit))
        FAIL(ST_FORMAT, "sha: it is not the id of a commit");
    return ST_OK;
}

enum status hub_listing_parse(const char *json, size_t n, struct hub_listing *out)
{
    struct json_cursor c;
    struct json_limits limits = {.max_bytes = MAX_LISTING, .max_depth = 64};
    *out = (struct hub_listing){.commit = ""};
    TRY(json_open(&c, json, n, &limits));
    enum status st = read_listing(&c, out);
    if (st != ST_OK)
        hub_listing_free(out);
    return st;
}

void hub_listing_free(struct hub_listing *l)
{
    hub_files_free(&l->files);
}

enum status hub_list(const struct hub_http *h, const struct hub_name *name, struct hub_listing *out)
{
    char url[HTTP_URL_SIZE], why[512];
    struct text_buf body = {0};
    *out = (struct hub_listing){.commit = ""};
    if (snprintf(url, sizeof url, "%s/api/models/%s/revision/", h->endpoint, name->repo) >=
        (int)sizeof url)
        FAIL(ST_RANGE, "the hub's address is too long");
    TRY(http_url_add(url, name->revision, false));
    if (strlen(url) + sizeof "?blobs=true" > sizeof url)
        FAIL(ST_RANGE, "the hub's address is too long");
    strcat(url, "?blobs=true");
    enum status st = http_get(h, url, name->repo, MAX_LISTING, &body);
    if (st == ST_OK && (st = hub_listing_parse(body.data, body.len, out)) != ST_OK) {
        snprintf(why, sizeof why, "%s", status_text());
        st =
            status_fail(st, __FILE__, __LINE__, "%s: the hub's list of files: %s", name->repo, why);
    }
    text_buf_free(&body);
    return st;
}

enum status hub_file_url(const struct hub_http *h, const char *repo, const char *commit,
                         const char *path, char url[HTTP_URL_SIZE])
{
    if (snprintf(url, HTTP_URL_SIZE, "%s/%s/resolve/%s/", h->endpoint, repo, commit) >=
        HTTP_URL_SIZE)
        FAIL(ST_RANGE, "the hub's address is too long");
    return http_url_add(url, path, true);
}
