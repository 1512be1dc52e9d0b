add_executable(ops_digest ${CMAKE_CURRENT_LIST_DIR}/ops_digest.c)
target_link_libraries(ops_digest PRIVATE ingot_flags ingot_op_cases ingot_backends ingot_common m)
