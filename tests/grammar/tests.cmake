# Grammars and masks.
set(dir ${CMAKE_CURRENT_LIST_DIR})
add_executable(grammar_probe ${dir}/grammar_probe.c)
target_link_libraries(grammar_probe PRIVATE ingot_coordinator_lib)
ingot_test(test_grammar ${dir}/test_grammar.c LIBS ingot_grammar)
if(NOT APPLE) # its linker has no --wrap
  ingot_test(test_grammar_memory ${dir}/test_grammar_memory.c LIBS ingot_grammar)
  ingot_wrap_allocator(test_grammar_memory)
endif()
foreach(name schema regex tags)
  ingot_test(test_corpus_${name} ${CMAKE_SOURCE_DIR}/tests/text/test_corpus.c ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_${name}.c
    LIBS ingot_grammar)
  target_compile_definitions(test_corpus_${name} PRIVATE CORPUS="${name}")
endforeach()
ingot_script_test(grammar_python COMMAND ${INGOT_PYTHON} tests/grammar/test_grammar_python.py)
ingot_script_test(hostile_sources COMMAND ${INGOT_PYTHON} tests/grammar/test_hostile_sources.py)
ingot_script_test(schema_suite COMMAND ${INGOT_PYTHON} tests/grammar/test_schema_suite.py)
ingot_script_test(masks_peer COMMAND ${INGOT_PYTHON} tests/grammar/test_masks_peer.py)
ingot_script_test(answer_grammar COMMAND ${INGOT_PYTHON} tests/grammar/test_answer_grammar.py)
