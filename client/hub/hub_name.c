#include "client/hub/hub_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* One half of ORG/NAME, n bytes.  Two dashes would end it in the cache's folder names. */
static bool is_name_part(const char *s, size_t n)
{
    if (n == 0 || n > 96 || s[0] == '.' || s[0] == '-' || s[n - 1] == '.' || s[n - 1] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr(NAME_CHARS, s[i]) || (i && s[i] == s[i - 1] && (s[i] == '.' || s[i] == '-')))
            return false;
    return true;
}

bool hub_path_is_safe(const char *path)
{
    size_t n = strlen(path);
    if (n == 0 || n >= HUB_FILE_SIZE)
        return false;
    for (size_t i = 0; i < n; i++)
        if (iscntrl((unsigned char)path[i]) || path[i] == '\\')
            return false;
    for (const char *part = path;; part++) {
        size_t len = strcspn(part, "/");
        if (len == 0 || (len == 1 && part[0] == '.') || (len == 2 && strncmp(part, "..", 2) == 0))
            return false;
        part += len;
        if (!*part)
            return true;
    }
}

bool hub_is_commit(const char *revision)
{
    return strlen(revision) == 40 && strspn(revision, "0123456789abcdef") == 40;
}

enum status hub_name_parse(struct hub_name *out, const char *text)
{
    size_t n_repo = strcspn(text, "@:"), n_revision = 0;
    const char *slash = memchr(text, '/', n_repo), *at = text + n_repo;
    if (!slash || !is_name_part(text, (size_t)(slash - text)) ||
        !is_name_part(slash + 1, n_repo - (size_t)(slash + 1 - text)))
        FAIL(ST_RANGE, "'%s' is not the name of a model: ORG/NAME[@REVISION][:FILE|:QUANT]", text);
    memcpy(out->repo, text, n_repo);
    out->repo[n_repo] = '\0';
    snprintf(out->revision, sizeof out->revision, "main");
    if (*at == '@') {
        n_revision = strcspn(++at, ":");
        if (n_revision >= sizeof out->revision)
            FAIL(ST_RANGE, "'%s': the revision is too long", text);
        memcpy(out->revision, at, n_revision);
        out->revision[n_revision] = '\0';
        if (strspn(out->revision, NAME_CHARS "/") != n_revision || !hub_path_is_safe(out->revision))
            FAIL(ST_RANGE, "'%s': '%s' is not a branch, a tag or a commit", text, out->revision);
        at += n_revision;
    }
    out->pick[0] = '\0';
    if (*at == ':') {
        if (!hub_path_is_safe(++at))
            FAIL(ST_RANGE, "'%s': '%s' is not a file of a repository or a quantisation", text, at);
        memcpy(out->pick, at, strlen(at) + 1);
    }
    return ST_OK;
}
