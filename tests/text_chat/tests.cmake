ingot_test(test_chat_expected ${CMAKE_CURRENT_LIST_DIR}/test_chat_expected.c LIBS ingot_chat LABEL text)
ingot_test(test_output_parser ${CMAKE_CURRENT_LIST_DIR}/test_output_parser.c LIBS ingot_output LABEL text)
