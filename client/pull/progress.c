#include "client/pull/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "client/hub/hub_select.h"
#include "common/clock.h"

enum { DRAW_US = 100 * 1000, RATE_US = 1000 * 1000, BAR = 24 };

void progress_init(struct progress *p, uint64_t total, uint64_t have)
{
    *p = (struct progress){.terminal = isatty(STDERR_FILENO) != 0,
                           .total = total,
                           .rate_us = clock_us(),
                           .rate_bytes = have};
}

/* Half of the new value every second: steady, and soon right. */
static void measure(struct progress *p, uint64_t bytes, uint64_t now)
{
    uint64_t us = now - p->rate_us;
    if (us < RATE_US)
        return;
    double rate = bytes > p->rate_bytes ? (double)(bytes - p->rate_bytes) * 1e6 / (double)us : 0.0;
    p->bytes_per_s = p->bytes_per_s > 0.0 ? (p->bytes_per_s + rate) / 2.0 : rate;
    p->rate_us = now;
    p->rate_bytes = bytes;
}

static void put_left(uint64_t bytes, double rate)
{
    double s = rate >= 1.0 ? (double)bytes / rate : -1.0;
    if (s < 0.0 || s > 99.0 * 3600.0)
        return;
    unsigned n = (unsigned)(s + 0.5);
    if (n >= 3600)
        fprintf(stderr, ", %u:%02u:%02u left", n / 3600, n / 60 % 60, n % 60);
    else
        fprintf(stderr, ", %u:%02u left", n / 60, n % 60);
}

void progress_show(struct progress *p, uint64_t bytes)
{
    char have[32], all[32], rate[32], bar[BAR + 1];
    uint64_t now = clock_us(), done = p->before + bytes;
    measure(p, done, now);
    if (!p->terminal || now - p->drawn_us < DRAW_US)
        return;
    p->drawn_us = now;
    double part = p->total ? (double)done / (double)p->total : 1.0;
    for (int i = 0; i < BAR; i++)
        bar[i] = i < (int)(part * (double)BAR) ? '=' : ' ';
    bar[BAR] = '\0';
    fprintf(stderr, "\r\x1b[K%3.0f %% [%s] %s of %s", part * 100.0, bar, hub_size_text(done, have),
            hub_size_text(p->total, all));
    if (p->bytes_per_s >= 1.0) {
        fprintf(stderr, ", %s/s", hub_size_text((uint64_t)p->bytes_per_s, rate));
        put_left(p->total > done ? p->total - done : 0, p->bytes_per_s);
    }
    fflush(stderr);
}

void progress_clear(struct progress *p)
{
    if (p->terminal && p->drawn_us)
        fputs("\r\x1b[K", stderr);
    p->drawn_us = 0;
}

void progress_file(struct progress *p, uint64_t bytes, const char *how)
{
    char text[32];
    progress_clear(p);
    fprintf(stderr, "%s  %s, %s\n", p->name, hub_size_text(bytes, text), how);
    p->before += bytes;
}
