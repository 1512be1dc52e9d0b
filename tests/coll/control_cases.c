#include "coll/control_cases.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAP = 3 << 20 };

static int failures, rank;

PRINTF_LIKE(2, 3) static void check(bool good, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    if (good)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "control rank %d: %s\n", rank, text);
    failures++;
}

static unsigned char byte_of(size_t i, size_t len)
{
    return (unsigned char)(i * 31 + i / 255 + len);
}

static void check_bcast(unsigned char *buf, size_t want)
{
    size_t len = rank == 0 ? want : 12345;
    for (size_t i = 0; i < want; i++)
        buf[i] = rank == 0 ? byte_of(i, want) : 0;
    enum status st = control_bcast(buf, CAP, &len, 0);
    check(st == ST_OK && len == want, "broadcast of %zu bytes: %s, %zu bytes", want,
          st == ST_OK ? "ok" : status_detail(), len);
    for (size_t i = 0; i < want; i++)
        if (buf[i] != byte_of(i, want)) {
            check(false, "broadcast of %zu bytes: byte %zu is %02x", want, i, buf[i]);
            return;
        }
}

static void check_gather(const struct control_info *info, size_t len)
{
    size_t world = (size_t)info->world;
    unsigned char *mine = malloc(len + 1), *all = rank == 0 ? malloc(world * len + 1) : NULL;
    memset(mine, rank + 1, len);
    check(control_gather(mine, len, all) == ST_OK, "gather of %zu bytes", len);
    for (size_t i = 0; all && i < world * len; i++)
        if (all[i] != i / len + 1) {
            check(false, "gather of %zu bytes: byte %zu is %02x", len, i, all[i]);
            break;
        }
    free(mine);
    free(all);
}

static void all_calls(const struct control_info *info)
{
    static const size_t sizes[] = {0, 1, 8, 3999, 4000, 4001, 4095, 4096, 65537, CAP};
    unsigned char *buf = malloc(CAP);
    struct control_info again;
    check(info->one_host && info->local_rank == info->rank && info->local_world == info->world,
          "rank %d of %d on this host", info->local_rank, info->local_world);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_bcast(buf, sizes[i]);
    control_set_spin(0); /* through the doorbell */
    for (size_t i = 0; i < 500; i++)
        check_bcast(buf, i * 17);
    control_set_spin(1000);
    for (size_t i = 0; i < 500; i++)
        check_bcast(buf, i * 17);
    for (int least = 0; least < info->world; least++) {
        uint64_t v = 1000 + (uint64_t)((rank - least + info->world) % info->world);
        if (rank == least)
            v = UINT64_MAX - 1 - (uint64_t)rank;
        check(control_min_u64(&v) == ST_OK &&
                  v == (info->world == 1 ? UINT64_MAX - 1 : UINT64_C(1001)),
              "min is %llu", (unsigned long long)v);
    }
    check_gather(info, 0);
    check_gather(info, 1);
    check_gather(info, 8);
    check_gather(info, 100003);
    check(control_barrier() == ST_OK, "barrier");
    if (rank == 0) {
        size_t len = CAP + 1;
        check(control_bcast(buf, CAP, &len, 0) == ST_RANGE, "a broadcast larger than the buffer");
    }
    check_bcast(buf, 10);
    check(control_open(&again) == ST_BUG, "a second control_open");
    free(buf);
}

/* The others time out, with the parent's name, until rank 0 broadcasts; then all have it. */
static void late_broadcast(void)
{
    unsigned char buf[64] = {0};
    size_t len = 5;
    if (rank == 0) {
        check(control_barrier() == ST_OK, "barrier"); /* the others have timed out */
        memcpy(buf, "late", len);
        check(control_bcast(buf, sizeof buf, &len, 0) == ST_OK, "late broadcast");
        return;
    }
    for (int i = 0; i < 3; i++) {
        check(control_bcast(buf, sizeof buf, &len, 20) == ST_TIMEOUT, "no time-out");
        check(strstr(status_text(), "from rank ") != NULL, "no name in '%s'", status_text());
    }
    check(control_barrier() == ST_OK, "barrier");
    check(control_bcast(buf, sizeof buf, &len, 0) == ST_OK && len == 5 &&
              !strcmp((char *)buf, "late"),
          "late broadcast: %s", status_text());
}

int control_case(const char *name, const struct control_info *info)
{
    rank = info->rank;
    if (strcmp(name, "control") == 0) {
        all_calls(info);
    } else if (strcmp(name, "bcast-timeout") == 0) {
        late_broadcast();
    } else if (strcmp(name, "control-abort") == 0) {
        if (info->rank == info->world - 1)
            control_abort(7);
        check(control_barrier() != ST_OK, "a barrier without the aborting rank");
    } else {
        check(false, "no case '%s'", name);
    }
    return failures;
}
