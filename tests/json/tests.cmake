# The JSON reader and writer.
set(dir ${CMAKE_CURRENT_LIST_DIR})
ingot_test(test_json ${dir}/test_json.c ${dir}/json_table.c LIBS ingot_json)
ingot_test(test_corpus_json ${CMAKE_SOURCE_DIR}/tests/text/test_corpus.c ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_json.c
  LIBS ingot_json)
target_compile_definitions(test_corpus_json PRIVATE CORPUS="json")
add_executable(json_probe ${dir}/json_probe.c)
target_link_libraries(json_probe PRIVATE ingot_json)
ingot_script_test(json_python COMMAND ${INGOT_PYTHON} tests/json/test_json_python.py)
