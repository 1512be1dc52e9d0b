/* The ingot-journal program over the journal of a random run. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/journal/replay.h"
#include "sched/driver.h"
#include "temp_dir.h"

enum { MAX_OUT = 1 << 20 };

static char dir[64], path[128], out[MAX_OUT];

static void make_journal(void)
{
    const struct sched_config cfg = {.max_seqs = 4,
                                     .max_step_tokens = 10,
                                     .max_waiting = 6,
                                     .max_waiting_tokens = 400,
                                     .max_ctx = 80,
                                     .n_blocks = 20,
                                     .block_len = 4};
    struct journal_config jc = {.dir = dir, .name = "j", .max_file_bytes = 1u << 30};
    struct driver_options opts = {.journal = &jc};
    struct dice dice = {.state = 11};
    struct driver_report rep;
    temp_dir_make(dir);
    driver_run(&cfg, &dice, 1500, &opts, &rep);
    snprintf(path, sizeof path, "%s/j-00000001.journal", dir);
}

static void remove_journal(void)
{
    unlink(path);
    temp_dir_remove(dir);
}

/* Runs ingot-journal; both outputs come back in out. */
static int tool(const char *args)
{
    char command[512];
    const char *bin = getenv("INGOT_BIN");
    if (!bin)
        cr_skip_test("INGOT_BIN does not say where the programs are");
    snprintf(command, sizeof command, "%s/ingot-journal %s 2>&1", bin, args);
    FILE *p = popen(command, "r");
    cr_assert_not_null(p);
    size_t n = fread(out, 1, MAX_OUT - 1, p);
    out[n] = 0;
    int rc = pclose(p);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static int tool_on_file(const char *command, const char *more)
{
    char args[256];
    snprintf(args, sizeof args, "%s %s %s", command, path, more);
    return tool(args);
}

Test(journal_tool, verify_and_damage)
{
    make_journal();
    cr_assert_eq(tool_on_file("verify", ""), 0, "%s", out);
    cr_assert(strstr(out, "the same: "), "%s", out);
    FILE *f = fopen(path, "r+b");
    cr_assert_not_null(f);
    cr_assert_eq(fseek(f, 3000, SEEK_SET), 0);
    int c = fgetc(f);
    cr_assert_eq(fseek(f, 3000, SEEK_SET), 0);
    fputc(c ^ 1, f);
    fclose(f);
    cr_assert_eq(tool_on_file("verify", ""), 1);
    cr_assert(strstr(out, "damaged") || strstr(out, "unfinished"), "%s", out);
    remove_journal();
}

/* The place of record number `back` from the end. */
static long place_of(const unsigned char *data, size_t n, unsigned back)
{
    long places[4096];
    unsigned n_records = 0;
    for (size_t at = 8; at < n && n_records < 4096; n_records++) {
        struct byte_reader r = {.data = data + at, .left = n - at};
        (void)get_u32(&r);
        places[n_records] = (long)at;
        at += RECORD_HEAD + get_u32(&r);
    }
    cr_assert_gt(n_records, back);
    return places[n_records - 1 - back];
}

Test(journal_tool, records_removed_from_the_end_are_told)
{
    make_journal();
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f);
    unsigned char *data = malloc(MAX_OUT);
    size_t n = fread(data, 1, MAX_OUT, f);
    fclose(f);
    cr_assert_lt(n, (size_t)MAX_OUT);
    cr_assert_eq(truncate(path, place_of(data, n, 40)), 0);
    cr_assert_eq(tool_on_file("verify", ""), 4, "%s", out);
    cr_assert(strstr(out, "removed"), "%s", out);
    free(data);
    remove_journal();
}

Test(journal_tool, a_folder_is_one_chain)
{
    const struct sched_config cfg = {.max_seqs = 4,
                                     .max_step_tokens = 10,
                                     .max_waiting = 6,
                                     .max_waiting_tokens = 400,
                                     .max_ctx = 80,
                                     .n_blocks = 20,
                                     .block_len = 4};
    struct journal_config jc = {.dir = dir, .name = "j", .max_file_bytes = 20000};
    struct driver_options opts = {.journal = &jc};
    struct dice dice = {.state = 11};
    struct driver_report rep;
    char file[128];
    temp_dir_make(dir);
    driver_run(&cfg, &dice, 1500, &opts, &rep);
    snprintf(path, sizeof path, "%s", dir);
    cr_assert_eq(tool_on_file("verify", ""), 0, "%s", out);
    cr_assert(strstr(out, "j-00000003.journal: the same"), "%s", out);
    snprintf(file, sizeof file, "%s/j-00000002.journal", dir);
    cr_assert_eq(unlink(file), 0);
    cr_assert_eq(tool_on_file("verify", ""), 1, "%s", out);
    cr_assert(strstr(out, "j-00000003.journal: it does not continue the file before"), "%s", out);
    for (int i = 1; i <= 100; i++) {
        snprintf(file, sizeof file, "%s/j-%08d.journal", dir, i);
        unlink(file);
    }
    temp_dir_remove(dir);
}

Test(journal_tool, usage)
{
    cr_assert_eq(tool("frob a b"), 2);
    cr_assert_eq(tool("verify"), 2);
    cr_assert_eq(tool("--help"), 0);
    cr_assert_eq(tool("verify /nowhere/at/all"), 1);
    cr_assert(strstr(out, "/nowhere/at/all"), "%s", out);
}

static void compare_ids(const cJSON *json, const char *name, const int32_t *ids, uint32_t n)
{
    const cJSON *a = cJSON_GetObjectItem(json, name);
    cr_assert_eq((uint32_t)cJSON_GetArraySize(a), n);
    for (uint32_t i = 0; i < n; i++)
        cr_assert_eq(cJSON_GetArrayItem(a, (int)i)->valueint, ids[i]);
}

/* show gives what the replay has, for every fifth request. */
Test(journal_tool, show)
{
    struct replay *p;
    struct replay_event ev = {.kind = REPLAY_SUBMIT};
    unsigned n_seen = 0, n_shown = 0;
    make_journal();
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f);
    unsigned char *data = malloc(MAX_OUT);
    size_t n = fread(data, 1, MAX_OUT, f);
    fclose(f);
    cr_assert_eq(replay_open(&p, data, n, 64 << 20), ST_OK, "%s", status_text());
    while (ev.kind != REPLAY_DONE) {
        cr_assert_eq(replay_next(p, &ev), ST_OK, "%s", status_text());
        for (const struct replay_request *q = ev.ended; q; q = q->next) {
            if (q->reason != FINISH_LENGTH || n_seen++ % 5)
                continue;
            cr_assert_eq(tool_on_file("show", q->label), 0, "%s", out);
            cJSON *json = cJSON_Parse(out); /* the first line, when an id was used twice */
            cr_assert_not_null(json, "%s", out);
            if (strchr(out, '\n')[1] == 0) {
                cr_assert_str_eq(cJSON_GetObjectItem(json, "request_id")->valuestring, q->label);
                cr_assert_str_eq(cJSON_GetObjectItem(json, "reason")->valuestring, "length");
                compare_ids(json, "prompt", q->r.tokens, q->r.n_prompt);
                compare_ids(json, "tokens", q->r.tokens + q->r.n_prompt,
                            q->n_known - q->r.n_prompt);
                compare_ids(json, "stop_ids", q->r.stop_ids, q->r.n_stop_ids);
                n_shown++;
            }
            cJSON_Delete(json);
        }
    }
    cr_assert_gt(n_shown, 3u);
    cr_assert_eq(tool_on_file("list", ""), 0);
    cr_assert(strstr(out, "request-1\n"), "%s", out);
    cr_assert_eq(tool_on_file("show", "nobody"), 3);
    replay_close(p);
    free(data);
    remove_journal();
}
