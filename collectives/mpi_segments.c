#include "collectives/mpi_segments.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LINE = 128 + PATH_MAX };

static struct {
    char stem[PATH_MAX]; /* of the paths, with the point before the number; "": none found */
    char mine[PATH_MAX]; /* the path that was removed; "": none */
} s;

/* The number on its host of the rank whose file path is; -1: another file.  *stem: the length of
 * what stands before the number. */
static int rank_of(const char *path, size_t *stem)
{
    const char *name = strrchr(path, '/');
    const char *point = strrchr(path, '.');
    char *end;
    if (!name || !point ||
        (strncmp(name, "/vader_segment.", 15) && strncmp(name, "/sm_segment.", 12)))
        return -1;
    long rank = strtol(point + 1, &end, 10);
    *stem = (size_t)(point + 1 - path);
    return end == point + 1 || *end || rank < 0 || rank > INT_MAX ? -1 : (int)rank;
}

/* The path of a line of /proc/self/maps: its sixth field.  NULL: the mapping is of no file. */
static char *path_of(char *line)
{
    line[strcspn(line, "\n")] = 0;
    return strchr(line, '/');
}

int mpi_segments_find(int n)
{
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned char *seen = calloc((size_t)n, 1);
    char line[MAX_LINE];
    int found = 0;
    s.stem[0] = 0;
    while (f && seen && fgets(line, sizeof line, f)) {
        const char *path = path_of(line);
        size_t stem;
        int rank = path ? rank_of(path, &stem) : -1;
        if (rank < 0 || rank >= n || seen[rank] || stem >= sizeof s.stem)
            continue;
        if (!s.stem[0])
            memcpy(s.stem, path, stem), s.stem[stem] = 0;
        if (strlen(s.stem) == stem && !strncmp(s.stem, path, stem))
            seen[rank] = 1, found++;
    }
    free(seen);
    if (f)
        fclose(f);
    return found;
}

void mpi_segments_unlink(int local_rank)
{
    int len = snprintf(s.mine, sizeof s.mine, "%s%d", s.stem, local_rank);
    if (!s.stem[0] || len < 0 || (size_t)len >= sizeof s.mine || unlink(s.mine))
        s.mine[0] = 0;
}

void mpi_segments_name_again(void)
{
    if (!s.mine[0])
        return;
    int fd = open(s.mine, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    s.mine[0] = 0;
}
