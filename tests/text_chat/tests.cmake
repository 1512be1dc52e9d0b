set(dir ${CMAKE_CURRENT_LIST_DIR})
ingot_test(test_chat_expected ${dir}/test_chat_expected.c LIBS ingot_chat LABEL text)
ingot_test(test_chat_template ${dir}/test_chat_template.c LIBS ingot_chat Threads::Threads LABEL text)
ingot_test(test_output_parser ${dir}/test_output_parser.c LIBS ingot_output LABEL text)
