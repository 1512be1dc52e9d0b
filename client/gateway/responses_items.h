/* The items of the output of /v1/responses, as JSON.  Pure. */
#ifndef CLIENT_GATEWAY_RESPONSES_ITEMS_H
#define CLIENT_GATEWAY_RESPONSES_ITEMS_H

#include "client/gateway/answer_form.h"

enum responses_kind { ITEM_NONE, ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL, N_ITEM_KINDS };

struct responses_item {
    enum responses_kind kind;
    size_t index;                   /* in the output */
    const struct answer_call *call; /* of ITEM_CALL */
    struct text_buf text;           /* all of it: text, reasoning or arguments */
};

enum responses_state { ITEM_BEGUN, ITEM_WHOLE, ITEM_CUT /* by the length of the answer */ };

enum { RESPONSES_ID_SIZE = 80 };

/* "msg_HEX_0"; returns out. */
const char *responses_item_id(char out[RESPONSES_ID_SIZE], const struct responses_item *item,
                              const char *hex);
/* The item itself, with its text but in ITEM_BEGUN. */
void responses_write_item(struct json_writer *w, const struct responses_item *item, const char *hex,
                          enum responses_state state);
/* The one part of the content of a message or of reasoning. */
void responses_write_part(struct json_writer *w, const struct responses_item *item, bool whole);

#endif
