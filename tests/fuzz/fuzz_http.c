/* HTTP requests from a stranger: whole, byte by byte and in pieces, the parser says the same.  The first byte says
 * how to cut. */
#include <stdint.h>

#include "tests/gateway/http_transcript.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *text = (const char *)data + 1;
    size_t n = size - 1, cut = 1 + data[0] % 16;
    struct text_buf whole = http_transcript(text, n, n, 1), bytes = http_transcript(text, n, 1, 1),
                    pieces = http_transcript(text, n, 1 + data[0] % n, cut);
    if (strcmp(whole.data, bytes.data) != 0 || strcmp(whole.data, pieces.data) != 0)
        abort();
    text_buf_free(&whole);
    text_buf_free(&bytes);
    text_buf_free(&pieces);
    return 0;
}
