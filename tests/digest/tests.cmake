set(digest_dir ${CMAKE_CURRENT_LIST_DIR})
ingot_test(test_config_fields ${digest_dir}/test_config_fields.c LIBS ingot_formats ingot_common)
ingot_test(test_file_digest ${digest_dir}/test_file_digest.c LIBS ingot_digest Threads::Threads)
ingot_test(test_weights_digest ${digest_dir}/test_weights_digest.c ${CMAKE_SOURCE_DIR}/tests/model/make_model.c
  LIBS ingot_digest)
ingot_test(test_text_digest ${digest_dir}/test_text_digest.c LIBS ingot_digest)
set(model_dir ${CMAKE_SOURCE_DIR}/tests/model)
ingot_test(test_gguf_digest ${digest_dir}/test_gguf_digest.c ${model_dir}/make_gguf.c ${model_dir}/split_gguf.c
  ${model_dir}/rig.c LIBS ingot_digest ingot_quantize ingot_model ingot_coll ingot_backends ingot_formats
  ingot_common PkgConfig::CJSON Threads::Threads m)
target_include_directories(test_gguf_digest PRIVATE ${model_dir})
