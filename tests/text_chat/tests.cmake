set(dir ${CMAKE_CURRENT_LIST_DIR})
ingot_test(test_chat_expected ${dir}/test_chat_expected.c LIBS ingot_chat LABEL text)
ingot_test(test_chat_template ${dir}/test_chat_template.c LIBS ingot_chat Threads::Threads LABEL text)
ingot_test(test_output_parser ${dir}/test_output_parser.c LIBS ingot_output LABEL text)
ingot_test(test_output_marks ${dir}/test_output_marks.c LIBS ingot_output LABEL text)
ingot_test(test_output_templates ${dir}/test_output_templates.c LIBS ingot_output LABEL text)
ingot_test(test_corpus_output ${CMAKE_SOURCE_DIR}/tests/text/test_corpus.c ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_output.c
  LIBS ingot_output LABEL text)
target_compile_definitions(test_corpus_output PRIVATE CORPUS="output")
add_executable(bench_chat EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/bench/bench_chat.c)
target_link_libraries(bench_chat PRIVATE ingot_chat)
target_include_directories(bench_chat PRIVATE ${CMAKE_SOURCE_DIR}/tests)

ingot_script_test(text_commands COMMAND ${dir}/text_commands.sh $<TARGET_FILE:ingot-text> ${CMAKE_SOURCE_DIR} LABEL text)
