# Tokenizers, detokenizer, stop strings, GGUF.
add_executable(tokenizer_probe ${CMAKE_CURRENT_LIST_DIR}/tokenizer_probe.c)
target_link_libraries(tokenizer_probe PRIVATE ingot_tokenizer)
