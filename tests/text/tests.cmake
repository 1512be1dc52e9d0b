# Tokenizers, detokenizer, stop strings, GGUF.
ingot_test(test_tokenizer ${CMAKE_CURRENT_LIST_DIR}/test_tokenizer.c LIBS ingot_tokenizer PkgConfig::CJSON Threads::Threads TIMEOUT 600)
target_compile_definitions(test_tokenizer PRIVATE UNPACK_DIR="${CMAKE_CURRENT_BINARY_DIR}/tokenizers")
ingot_test(test_detok ${CMAKE_CURRENT_LIST_DIR}/test_detok.c LIBS ingot_tokenizer PkgConfig::CJSON)
ingot_test(test_stop ${CMAKE_CURRENT_LIST_DIR}/test_stop.c LIBS ingot_tokenizer PkgConfig::CJSON)
ingot_test(test_scan ${CMAKE_CURRENT_LIST_DIR}/test_scan.c LIBS ingot_tokenizer PkgConfig::CJSON)
ingot_test(test_gguf ${CMAKE_CURRENT_LIST_DIR}/test_gguf.c LIBS ingot_gguf)
foreach(name tokenizer_json gguf)
  ingot_test(test_corpus_${name} ${CMAKE_CURRENT_LIST_DIR}/test_corpus.c
    ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_${name}.c LIBS ingot_tokenizer PkgConfig::CJSON)
  target_compile_definitions(test_corpus_${name} PRIVATE CORPUS="${name}")
endforeach()
add_executable(tokenizer_probe ${CMAKE_CURRENT_LIST_DIR}/tokenizer_probe.c)
target_link_libraries(tokenizer_probe PRIVATE ingot_tokenizer)
