/* An untrusted chat template and an untrusted conversation: parsing and rendering must end in a
 * status, within its limits, and the text that comes out is UTF-8.
 * Input: a byte of flags, the template, NUL, the messages (when absent, one of our own). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "coordinator/jinja/chat_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char MESSAGES[] = "[{\"role\": \"system\", \"content\": \"Gr\xc3\xbc\xc3\x9f"
                               "e\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", "
                               "\"text\": \"a b\\n\"}]}, {\"role\": \"assistant\", \"content\": "
                               "null, \"tool_calls\": [{\"id\": \"1\", "
                               "\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1.0, \"y\": "
                               "[1, -2, 1e20], \"z\": {}}}}]}]";
static const char VARIABLES[] =
    "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"a\": 1, \"b\": 2.5, \"s\": \"Hello, "
    "World\", \"l\": [3, 1, 2], \"d\": {\"x\": 1, \"y\": [1, 2]}, \"n\": null}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct chat_limits limits = {
        .max_steps = 20000, .max_depth = 200, .max_memory = 4 << 20, .max_output = 1 << 16};
    struct chat_template *t;
    struct text_buf out = {0};
    if (size == 0)
        return 0;
    const char *source = (const char *)data + 1, *end = (const char *)data + size;
    const char *nul = memchr(source, 0, size - 1);
    struct chat_request q = {
        .messages = {MESSAGES, sizeof MESSAGES - 1},
        .tools = {"[{\"type\": \"function\"}]", 22},
        .variables = {VARIABLES, sizeof VARIABLES - 1},
        .allow_mutation = data[0] & 1,
        .continue_final_message = (data[0] & 2) != 0,
        .add_generation_prompt = (data[0] & 6) == 4,
        .now = &(struct tm){.tm_year = 125, .tm_mday = 15, .tm_wday = 3, .tm_yday = 14},
    };
    if (nul)
        q.messages = (struct chat_text){nul + 1, (size_t)(end - nul - 1)};
    if (chat_template_create(&t, source, (size_t)((nul ? nul : end) - source)) != ST_OK)
        return 0;
    if (chat_template_render(t, &q, &limits, &out, NULL, NULL) == ST_OK) {
        if (!utf8_valid(out.len ? out.data : "", out.len) || out.len > limits.max_output)
            abort();
    } else if (out.len) {
        abort();
    }
    text_buf_free(&out);
    chat_template_destroy(t);
    return 0;
}
