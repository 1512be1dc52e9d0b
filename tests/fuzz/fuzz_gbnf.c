/* Context-free grammars from outside; see fuzz_grammar.h. */
#include "fuzz_grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_grammar(GRAMMAR_GBNF, data, size);
}
