ingot_test(test_shared_options ${CMAKE_CURRENT_LIST_DIR}/test_shared_options.c LIBS ingot_common)
if(NOT APPLE)
  ingot_test(test_host_cpu ${CMAKE_CURRENT_LIST_DIR}/test_host_cpu.c LIBS ingot_common)
endif()
