#include "worker/rank_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void rank_hosts_write(const char (*names)[64], int n, char *out, size_t size)
{
    static const char more[] = "...";
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0, end; i < n; i = end) {
        char one[64 + 32];
        for (end = i + 1; end < n && strcmp(names[end], names[i]) == 0; end++)
            ;
        int len = snprintf(one, sizeof one, "%s%.63s %d", i ? ", " : "", names[i], i);
        if (end > i + 1)
            len += snprintf(one + len, sizeof one - (size_t)len, "-%d", end - 1);
        if (at + (size_t)len + sizeof more > size) {
            snprintf(out + at, size - at, "%s", more);
            return;
        }
        memcpy(out + at, one, (size_t)len + 1);
        at += (size_t)len;
    }
}

enum status rank_hosts(const struct control_info *ci, char out[RANK_HOSTS_SIZE])
{
    char mine[64] = "", (*all)[64] = calloc((size_t)ci->world, sizeof *all);
    out[0] = '\0';
    if (!all)
        FAIL(ST_NOMEM, "no memory for the host names of %d ranks", ci->world);
    gethostname(mine, sizeof mine - 1);
    enum status st = control_gather(mine, sizeof mine, all);
    if (st == ST_OK && ci->rank == 0)
        rank_hosts_write((const char(*)[64])all, ci->world, out, RANK_HOSTS_SIZE);
    free(all);
    return st;
}
