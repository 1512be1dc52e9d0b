/* Which server of the list is used: one that has no worker group is left for the next one.  Asked by Ping, while
 * requests run. */
#include "client/lib/internal.h"
#include "common/clock.h"

enum {
    ASK_US = 500 * 1000,
    EMPTY_US = 1500 * 1000, /* without a group for so long, as the gateway's */
    MAX_DOUBLINGS = 10,
};

static bool may_leave(const struct ingot_client *c)
{
    return c->reconnect_ms && c->n_endpoints > 1;
}

void servers_leave(struct ingot_client *c)
{
    if (c->broken)
        return;
    c->endpoint = (c->endpoint + 1) % c->n_endpoints;
    c->broken = true;
    c->groups.n_left++;
}

bool servers_other_may_have_groups(const struct ingot_client *c)
{
    return may_leave(c) && c->groups.none;
}

/* After each tour of the list the wait is twice as long: where no server has a group, one of them fails the
 * request in the end (its --group-wait-ms). */
static uint64_t patience_us(const struct ingot_client *c)
{
    uint32_t tours = c->groups.n_left / c->n_endpoints;
    return (uint64_t)EMPTY_US << (tours < MAX_DOUBLINGS ? tours : MAX_DOUBLINGS);
}

void servers_note(struct ingot_client *c, bool has_group)
{
    struct group_watch *g = &c->groups;
    uint64_t now = clock_us();
    g->none = !has_group;
    if (has_group)
        g->since_us = g->n_left = 0;
    else if (!g->since_us)
        g->since_us = now;
    else if (may_leave(c) && now - g->since_us > patience_us(c))
        servers_leave(c);
}

void servers_begin(struct ingot_client *c, bool has_group)
{
    c->groups.since_us = c->groups.ask_us = 0;
    servers_note(c, has_group);
}

void servers_take(struct ingot_client *c, const struct client_msg *m)
{
    if (m->type == MSG_PONG && *c->groups.id && strcmp(m->u.pong.request_id, c->groups.id) == 0)
        servers_note(c, m->u.pong.ready);
}

enum status servers_ask(struct ingot_client *c, uint64_t *next_us)
{
    struct group_watch *g = &c->groups;
    struct client_msg m = {.type = MSG_PING};
    uint64_t now = clock_us();
    *next_us = UINT64_MAX;
    if (!may_leave(c))
        return ST_OK;
    if (c->running.n == 0) {
        g->since_us = 0;
        return ST_OK;
    }
    if (now >= g->ask_us) {
        client_make_id(c, g->id);
        m.u.simple = (struct msg_simple){g->id, 0};
        enum status st = client_send(c, &m);
        if (st != ST_OK && st != ST_BUSY) /* busy: asked later */
            return st;
        g->ask_us = now + ASK_US;
    }
    *next_us = g->ask_us;
    return ST_OK;
}
