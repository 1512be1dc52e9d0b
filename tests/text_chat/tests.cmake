ingot_test(test_chat_expected ${CMAKE_CURRENT_LIST_DIR}/test_chat_expected.c LIBS ingot_chat LABEL text)
