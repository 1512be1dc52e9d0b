#include "journal/runs.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sched/driver.h"
#include "temp_dir.h"

char dir[64];

const struct sched_config small = {.max_seqs = 4,
                                   .max_step_tokens = 10,
                                   .max_waiting = 6,
                                   .max_waiting_tokens = 400,
                                   .max_ctx = 80,
                                   .n_blocks = 20,
                                   .block_len = 4,
                                   .prefix_cache = true};

void make_dir(void)
{
    temp_dir_make(dir);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The journals in dir, in order. */
size_t file_names(char (*names)[64])
{
    size_t n = 0;
    DIR *d = opendir(dir);
    cr_assert_not_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".journal") && n < MAX_FILES)
            snprintf(names[n++], 64, "%.63s", e->d_name);
    closedir(d);
    qsort(names, n, 64, by_name);
    return n;
}

struct file read_file(const char *name)
{
    char path[160];
    struct stat st;
    struct file f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *in = fopen(path, "rb");
    cr_assert_not_null(in, "%s", path);
    cr_assert_eq(fstat(fileno(in), &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0600u, "others may read %s", path);
    f.n = (size_t)st.st_size;
    f.data = malloc(f.n + 1);
    cr_assert_eq(fread(f.data, 1, f.n, in), f.n);
    fclose(in);
    return f;
}

void remove_dir(void)
{
    static char names[MAX_FILES][64];
    char path[160];
    for (size_t i = 0, n = file_names(names); i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    temp_dir_remove(dir);
}

/* Replays all of it; sum is set when that went well. */
enum status replay_all(const unsigned char *data, size_t n, struct replay_summary *sum)
{
    struct replay *p;
    struct replay_event ev = {.kind = REPLAY_SUBMIT};
    enum status st = replay_open(&p, data, n, MEMORY);
    while (st == ST_OK && ev.kind != REPLAY_DONE)
        st = replay_next(p, &ev);
    if (st == ST_OK)
        replay_summary(p, sum);
    replay_close(p);
    return st;
}

struct file run_of(const struct sched_config *cfg, uint64_t n_calls)
{
    static char names[MAX_FILES][64];
    struct journal_config jc = {.dir = dir, .name = "j", .max_file_bytes = 1u << 30};
    struct driver_options opts = {.journal = &jc};
    struct dice dice = {.state = 7};
    struct driver_report rep;
    make_dir();
    driver_run(cfg, &dice, n_calls, &opts, &rep);
    cr_assert_eq(file_names(names), 1u);
    struct file f = read_file(names[0]);
    remove_dir();
    return f;
}

struct file one_run(uint64_t n_calls)
{
    return run_of(&small, n_calls);
}
