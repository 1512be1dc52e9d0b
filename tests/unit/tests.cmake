ingot_test(test_shared_options ${CMAKE_CURRENT_LIST_DIR}/test_shared_options.c LIBS ingot_common)
