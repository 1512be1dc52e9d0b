/* The files of sentence-transformers' modules.  The first byte: which one. */
#include <stdlib.h>
#include <string.h>

#include "common/formats/cross_encoder.h"
#include "common/formats/sentence_modules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void modules(const uint8_t *text, size_t n)
{
    struct sentence_modules m;
    char pooling[MODULE_PATH], numbers[MODULES_TEXT];
    if (sentence_modules_parse(&m, text, n, pooling) != ST_OK)
        return;
    must(m.n_modules >= 0 && m.n_modules <= MAX_MODULES && (m.present || !m.n_modules));
    if (!m.present)
        return;
    must(strlen(pooling) < MODULE_PATH && !strstr(pooling, "..") && pooling[0] != '/');
    must(sentence_modules_text(&m, numbers) < MODULES_TEXT);
}

static void pooling(const uint8_t *text, size_t n)
{
    struct sentence_modules m = {.present = true};
    if (sentence_pooling_parse(&m, text, n, 8) != ST_OK)
        return;
    must(m.n_pools >= 1 && m.n_pools <= POOL_N && m.dim == 8 * m.n_pools);
    must(sentence_modules_rows(&m) != EMBED_NONE);
}

static void prompts(const uint8_t *text, size_t n)
{
    struct sentence_modules m = {.default_prompt = -1};
    const char *prompt;
    if (sentence_prompts_parse(&m, text, n) == ST_OK) {
        must(sentence_modules_prompt(&m, "", &prompt) == ST_OK);
        must((prompt != NULL) == (m.default_prompt >= 0));
    }
    for (uint32_t i = 0; i < m.n_prompts; i++)
        must(sentence_modules_prompt(&m, m.prompt[i].name, &prompt) == ST_OK && prompt);
    sentence_modules_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sentence_modules m = {.dim = 64, .scores = size > 1 && data[1] % 2};
    enum dense_act act = DENSE_SIGMOID;
    int32_t row[2];
    static const char *const words[] = {"yes", "no"};
    struct module module = {.kind = size && data[0] == 'd' ? MODULE_DENSE : MODULE_NORMALIZE};
    if (size == 0)
        return 0;
    const uint8_t *text = data + 1;
    size_t n = size - 1;
    switch (data[0]) {
    case 'm':
        modules(text, n);
        break;
    case 'p':
        pooling(text, n);
        break;
    case 'n':
        prompts(text, n);
        break;
    case 'd':
    case 'o':
        if (sentence_module_parse(&module, text, n) == ST_OK && data[0] == 'd')
            must(module.in >= 1 && module.out >= 1);
        break;
    case 't':
        if (sentence_transformer_parse(&m, text, n) == ST_OK)
            must(m.max_tokens >= 0);
        break;
    case 'c':
        if (sentence_cuts_parse(&m, text, n) == ST_OK)
            must(m.n_cuts >= 0 && m.n_cuts <= MAX_CUTS);
        break;
    case 'e':
        if (cross_encoder_act(&act, text, n) != ST_OK)
            must(act == DENSE_SIGMOID);
        break;
    case 'l':
        if (cross_encoder_logits_parse(row, text, n, 100) == ST_OK)
            must(row[0] >= 0 && row[0] < 100 && row[1] >= -1 && row[1] < 100);
        break;
    case 'w':
        if (cross_encoder_words(words, row, 2, text, n) == ST_OK)
            must(row[0] >= 0 && row[1] >= 0);
        break;
    default:
        break;
    }
    return 0;
}
