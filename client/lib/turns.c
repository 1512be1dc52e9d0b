/* A request's conversation as the protocol has it: for Generate (requests.c) and ApplyTemplate
 * (ingot.c). */
#include "client/lib/internal.h"

enum status client_fill_chat(struct ingot_client *c, const struct ingot_request *r,
                             struct msg_chat *chat)
{
    struct msg_turn *turns = wire_mem_alloc(&c->rx, r->n_turns * sizeof *turns);
    if (!turns)
        FAIL(ST_NOMEM, "a conversation of %zu turns is too long", r->n_turns);
    for (size_t i = 0; i < r->n_turns; i++) {
        const struct ingot_turn *t = &r->turns[i];
        turns[i] = (struct msg_turn){.role = t->role ? t->role : "",
                                     .content = client_text(t->content, t->n_content),
                                     .json = client_text(t->json, t->n_json)};
    }
    *chat = (struct msg_chat){.n_turns = (uint32_t)r->n_turns,
                              .turns = turns,
                              .tools_json = client_string(r->tools_json),
                              .variables_json = client_string(r->variables_json),
                              .add_generation_prompt = r->add_generation_prompt,
                              .continue_final_message = r->continue_final_message,
                              .has_clock = r->has_clock,
                              .has_zone = r->has_zone,
                              .clock_s = r->clock_s,
                              .zone_s = r->zone_s,
                              .tool_choice = (enum msg_tool_choice)r->tool_choice,
                              .tool_name = r->tool_name ? r->tool_name : "",
                              .one_call = r->one_call};
    return ST_OK;
}
