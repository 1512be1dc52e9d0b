set(digest_dir ${CMAKE_CURRENT_LIST_DIR})
ingot_test(test_config_fields ${digest_dir}/test_config_fields.c LIBS ingot_formats ingot_common)
