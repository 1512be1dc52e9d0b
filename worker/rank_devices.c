#include "worker/rank_devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rank_sharing rank_sharing_of(const struct rank_device *all, int world, int i)
{
    struct rank_sharing s = {.n_memory = 1, .n_device = 1, .other = -1};
    for (int r = 0; r < world && all[i].bus[0]; r++) {
        if (r == i || strcmp(all[r].host, all[i].host) != 0 || strcmp(all[r].bus, all[i].bus) != 0)
            continue;
        s.n_device++;
        if (strcmp(all[r].uuid, all[i].uuid) != 0)
            continue;
        s.n_memory++;
        if (s.other < 0)
            s.other = r;
    }
    return s;
}

/* proc(5): a new one at each boot, the same in all containers. */
static void read_host(char out[64])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    bool read = f && fgets(out, 64, f) && out[0] != '\n';
    if (f)
        fclose(f);
    if (!read)
        gethostname(out, 63);
    out[strcspn(out, "\n")] = '\0';
}

enum status rank_devices(const struct control_info *ci, const struct backend_info *info,
                         struct rank_sharing *out)
{
    struct rank_device mine = {.host = ""};
    size_t world = (size_t)ci->world, len = world * sizeof *out;
    struct rank_device *all = calloc(world, sizeof *all);
    struct rank_sharing *sharing = calloc(world, sizeof *sharing);
    enum status st = ST_OK;
    read_host(mine.host);
    memcpy(mine.bus, info->bus, sizeof mine.bus);
    memcpy(mine.uuid, info->uuid, sizeof mine.uuid);
    if (!all || !sharing)
        st = status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for the devices of %d ranks",
                         ci->world);
    if (st == ST_OK)
        st = control_gather(&mine, sizeof mine, all);
    for (int i = 0; st == ST_OK && ci->rank == 0 && i < ci->world; i++)
        sharing[i] = rank_sharing_of(all, ci->world, i);
    if (st == ST_OK)
        st = control_bcast(sharing, world * sizeof *sharing, &len, 0);
    if (st == ST_OK && len != world * sizeof *sharing)
        st = status_fail(ST_PEER, __FILE__, __LINE__, "%zu bytes about the devices of %d ranks",
                         len, ci->world);
    if (st == ST_OK)
        *out = sharing[ci->rank];
    free(all);
    free(sharing);
    return st;
}
