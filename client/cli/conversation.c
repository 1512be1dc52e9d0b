#include "client/cli/conversation.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t conversation_first(const struct conversation *c)
{
    return c->n && strcmp(c->turns[0].role, "system") == 0;
}

static enum status make_turn(struct ingot_turn *t, const char *role, const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (!copy)
        FAIL(ST_NOMEM, "no memory for a turn of %zu bytes", n);
    memcpy(copy, text, n);
    copy[n] = '\0';
    *t = (struct ingot_turn){.role = role, .content = copy, .n_content = n};
    return ST_OK;
}

static void free_turn(struct ingot_turn *t)
{
    free((char *)(uintptr_t)t->content);
}

static enum status make_room(struct conversation *c)
{
    if (c->n < c->max)
        return ST_OK;
    size_t max = c->max ? 2 * c->max : 16;
    struct ingot_turn *turns = realloc(c->turns, max * sizeof *turns);
    if (!turns)
        FAIL(ST_NOMEM, "no memory for a conversation of %zu turns", max);
    c->turns = turns;
    c->max = max;
    return ST_OK;
}

enum status conversation_add(struct conversation *c, const char *role, const char *text, size_t n)
{
    TRY(make_room(c));
    TRY(make_turn(&c->turns[c->n], role, text, n));
    c->n++;
    return ST_OK;
}

/* Removes n turns from `at` on. */
static void take_out(struct conversation *c, size_t at, size_t n)
{
    for (size_t i = at; i < at + n; i++)
        free_turn(&c->turns[i]);
    c->n -= n;
    memmove(c->turns + at, c->turns + at + n, (c->n - at) * sizeof *c->turns);
}

enum status conversation_set_system(struct conversation *c, const char *text)
{
    struct ingot_turn t;
    if (text) {
        TRY(make_room(c));
        TRY(make_turn(&t, "system", text, strlen(text)));
    }
    if (conversation_first(c))
        take_out(c, 0, 1);
    if (text) {
        memmove(c->turns + 1, c->turns, c->n++ * sizeof *c->turns);
        c->turns[0] = t;
    }
    return ST_OK;
}

void conversation_cut(struct conversation *c, size_t n)
{
    if (n < c->n)
        take_out(c, n, c->n - n);
}

void conversation_drop_oldest(struct conversation *c, size_t n)
{
    take_out(c, conversation_first(c), n);
}

void conversation_free(struct conversation *c)
{
    conversation_cut(c, 0);
    free(c->turns);
    *c = (struct conversation){0};
}
