# Grammars and masks.
set(dir ${CMAKE_CURRENT_LIST_DIR})
add_executable(grammar_probe ${dir}/grammar_probe.c)
target_link_libraries(grammar_probe PRIVATE ingot_coordinator_lib)
ingot_test(test_grammar ${dir}/test_grammar.c LIBS ingot_grammar)
foreach(name schema regex tags)
  ingot_test(test_corpus_${name} ${CMAKE_SOURCE_DIR}/tests/text/test_corpus.c ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_${name}.c
    LIBS ingot_grammar)
  target_compile_definitions(test_corpus_${name} PRIVATE CORPUS="${name}")
endforeach()
ingot_script_test(grammar_python COMMAND ${INGOT_PYTHON} tests/grammar/test_grammar_python.py)
ingot_script_test(answer_grammar COMMAND ${INGOT_PYTHON} tests/grammar/test_answer_grammar.py)
