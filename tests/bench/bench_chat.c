/* Chat templates rendered a second: every template of the shared data with every conversation that
 * gives a text, JSON parsing included.  bench_chat.py measures Jinja2 on the same work.
 *
 *   bench_chat DATA_DIR [ROUNDS]        (DATA_DIR holds chat_templates/) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "coordinator/jinja/chat_template.h"
#include "text_chat/json_slice.h"

struct job {
    struct chat_template *t;
    struct chat_request q;
};

static char *read_all(const char *dir, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/chat_templates/%s", dir, name);
    FILE *f = fopen(path, "rb");
    if (!f) {
        fprintf(stderr, "bench_chat: cannot open %s\n", path);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    char *text = calloc(1, n + 1);
    if (!text || fread(text, 1, n, f) != n) {
        fprintf(stderr, "bench_chat: cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    return text;
}

static struct chat_text member(struct slice object, const char *name)
{
    struct slice s = js_member(object, name);
    return (struct chat_text){s.p, s.n};
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* All pairs that give a text. */
static size_t make_jobs(const char *dir, struct job *jobs, size_t max, struct text_buf *out)
{
    static const struct tm now = {
        .tm_year = 125, .tm_mday = 15, .tm_hour = 12, .tm_wday = 3, .tm_yday = 14};
    char *templates = read_all(dir, "templates.json"), *cases = read_all(dir, "cases.json");
    struct slice list = js_member((struct slice){cases, strlen(cases)}, "cases"), entry, one;
    size_t n = 0;
    for (size_t i = 0; (entry = js_item((struct slice){templates, strlen(templates)}, i)).p; i++) {
        char *file = js_text(js_member(entry, "file")), *source = read_all(dir, file);
        struct chat_template *t;
        if (chat_template_create(&t, source, strlen(source)) != ST_OK) {
            fprintf(stderr, "bench_chat: %s: %s\n", file, status_text());
            exit(1);
        }
        for (size_t k = 0; (one = js_item(list, k)).p && n < max; k++) {
            struct chat_request q = {.messages = member(one, "messages"),
                                     .tools = member(one, "tools"),
                                     .variables = member(entry, "special_tokens"),
                                     .more = member(one, "variables"),
                                     .add_generation_prompt =
                                         js_is(js_member(one, "add_generation_prompt"), "true"),
                                     .now = &now};
            out->len = 0;
            if (chat_template_render(t, &q, &chat_limits_default, out, NULL, NULL) == ST_OK)
                jobs[n++] = (struct job){t, q};
        }
        free(file);
        free(source);
    }
    return n;
}

int main(int argc, char **argv)
{
    static struct job jobs[10000];
    struct text_buf out = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: bench_chat DATA_DIR [ROUNDS]\n");
        return 2;
    }
    int rounds = argc > 2 ? atoi(argv[2]) : 20;
    size_t n = make_jobs(argv[1], jobs, 10000, &out), bytes = 0;
    double begin = now_s();
    for (int r = 0; r < rounds; r++) {
        for (size_t i = 0; i < n; i++) {
            out.len = 0;
            if (chat_template_render(jobs[i].t, &jobs[i].q, &chat_limits_default, &out, NULL,
                                     NULL) != ST_OK)
                return 1;
            bytes += out.len;
        }
    }
    double s = now_s() - begin, renders = (double)n * rounds;
    printf("%zu pairs, %d rounds: %.0f renders/s, %.1f us a render, %.0f bytes on average\n", n,
           rounds, renders / s, 1e6 * s / renders, (double)bytes / renders);
    text_buf_free(&out);
    return 0;
}
