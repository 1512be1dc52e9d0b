# Grammars and masks.
set(dir ${CMAKE_CURRENT_LIST_DIR})
add_executable(grammar_probe ${dir}/grammar_probe.c)
target_link_libraries(grammar_probe PRIVATE ingot_grammar)
