# The HTTP gateway: parser, server, program, API.
set(dir ${CMAKE_CURRENT_LIST_DIR})
ingot_test(test_http_parser ${dir}/test_http_parser.c ${dir}/http_table.c LIBS ingot_http)
ingot_test(test_corpus_http ${CMAKE_SOURCE_DIR}/tests/text/test_corpus.c ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_http.c
  LIBS ingot_http)
target_compile_definitions(test_corpus_http PRIVATE CORPUS="http")
ingot_test(test_replay ${dir}/test_replay.c ${CMAKE_SOURCE_DIR}/client/gateway/replay.c LIBS ingot_common)
ingot_test(test_corpus_requests ${CMAKE_SOURCE_DIR}/tests/text/test_corpus.c
  ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_requests.c LIBS ingot_requests)
target_compile_definitions(test_corpus_requests PRIVATE CORPUS="requests")
ingot_test(test_corpus_keys ${CMAKE_SOURCE_DIR}/tests/text/test_corpus.c ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_keys.c
  LIBS ingot_keys)
target_compile_definitions(test_corpus_keys PRIVATE CORPUS="keys")
add_executable(http_test_server ${dir}/http_test_server.c)
target_link_libraries(http_test_server PRIVATE ingot_http PkgConfig::LIBEVENT)
foreach(name table http_server http_access gateway access_log)
  ingot_script_test(${name} COMMAND ${INGOT_PYTHON} tests/gateway/test_${name}.py)
endforeach()
# the API before a coordinator and a worker: raw HTTP, then the clients that people use
foreach(name answer_memory answers anthropic bench_http client_anthropic client_langchain client_litellm client_matrix client_ollama
  client_openai clients embeddings forms grammar hostile keys many_connections metrics ollama openai openai_tokens prometheus responses resume
  same_text shapes tokenize)
  ingot_script_test(gateway_${name} COMMAND ${INGOT_PYTHON} tests/gateway/test_${name}.py LABEL cluster)
endforeach()
