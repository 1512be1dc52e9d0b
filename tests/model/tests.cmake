set(model_rig ${CMAKE_CURRENT_LIST_DIR}/rig.c)
set(model_libs ingot_model ingot_coll ingot_backends ingot_formats ingot_common PkgConfig::CJSON
  Threads::Threads)
ingot_isa_test(test_model_golden ${CMAKE_CURRENT_LIST_DIR}/test_golden.c ${model_rig} LIBS ${model_libs}
  LABEL unit nompi)
ingot_isa_test(test_model_families ${CMAKE_CURRENT_LIST_DIR}/test_families.c ${model_rig} LIBS ${model_libs} m)
ingot_isa_test(test_model_stories ${CMAKE_CURRENT_LIST_DIR}/test_stories.c ${model_rig} LIBS ${model_libs})
ingot_isa_test(test_model_tp ${CMAKE_CURRENT_LIST_DIR}/test_tp.c ${CMAKE_CURRENT_LIST_DIR}/make_model.c
  ${CMAKE_CURRENT_LIST_DIR}/make_gguf.c ${model_rig} LIBS ${model_libs} m LABEL unit nompi)
ingot_test(test_model_head_sizes ${CMAKE_CURRENT_LIST_DIR}/test_head_sizes.c
  ${CMAKE_CURRENT_LIST_DIR}/make_model.c ${model_rig} LIBS ${model_libs} m)
ingot_isa_test(test_model_engine ${CMAKE_CURRENT_LIST_DIR}/test_engine.c ${model_rig} LIBS ${model_libs})
ingot_test(test_model_config_inputs ${CMAKE_CURRENT_LIST_DIR}/test_config_inputs.c LIBS ingot_formats ingot_common)
foreach(name memory shard demo bad_weights)
  ingot_test(test_model_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c ${model_rig} LIBS ${model_libs})
endforeach()
ingot_isa_test(test_model_kv_types ${CMAKE_CURRENT_LIST_DIR}/test_kv_types.c ${model_rig}
  ${CMAKE_SOURCE_DIR}/tests/ops/kv_spec.c LIBS ${model_libs} m)
ingot_isa_test(test_model_inputs ${CMAKE_CURRENT_LIST_DIR}/test_inputs.c ${model_rig} LIBS ${model_libs} m
  LABEL unit nompi)
ingot_isa_test(test_model_sorted ${CMAKE_CURRENT_LIST_DIR}/test_sorted.c ${model_rig} LIBS ${model_libs} m
  LABEL unit nompi)
ingot_test(test_model_inspect ${CMAKE_CURRENT_LIST_DIR}/test_inspect.c ${model_rig}
  LIBS ingot_runtime ${model_libs})
add_executable(model_plan_rank ${CMAKE_CURRENT_LIST_DIR}/plan_rank.c
  ${CMAKE_SOURCE_DIR}/tests/bench/shape_source.c)
target_link_libraries(model_plan_rank PRIVATE ingot_flags ingot_runtime ${model_libs} m)
target_include_directories(model_plan_rank PRIVATE ${CMAKE_SOURCE_DIR}/tests)
# slow: release only; sanitizers take memory of their own
ingot_test(test_model_plan_is_real ${CMAKE_CURRENT_LIST_DIR}/test_plan_is_real.c LABEL slow)
add_dependencies(test_model_plan_is_real model_plan_rank)
target_compile_definitions(test_model_plan_is_real PRIVATE PLAN_RANK="$<TARGET_FILE:model_plan_rank>"
  $<$<BOOL:${INGOT_MPI}>:MPIRUN="${MPIEXEC_EXECUTABLE}">)
foreach(name safetensors config config_refused config_latent config_llama4 config_python load pack_cache)
  ingot_test(test_model_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c
    ${CMAKE_CURRENT_LIST_DIR}/config_text.c ${CMAKE_CURRENT_LIST_DIR}/make_model.c ${model_rig} LIBS ${model_libs})
endforeach()

add_executable(model_tp_threads ${CMAKE_CURRENT_LIST_DIR}/tp_threads.c)
target_link_libraries(model_tp_threads PRIVATE ${model_libs} m)
target_compile_definitions(model_tp_threads PRIVATE INGOT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
ingot_script_test(model_tp_threads COMMAND model_tp_threads LABEL tsan nompi)
ingot_test(test_model_gguf ${CMAKE_CURRENT_LIST_DIR}/test_gguf_model.c ${CMAKE_CURRENT_LIST_DIR}/make_gguf.c
  ${model_rig} LIBS ${model_libs} m)
ingot_test(test_model_gguf_split ${CMAKE_CURRENT_LIST_DIR}/test_gguf_split.c ${CMAKE_CURRENT_LIST_DIR}/make_gguf.c
  ${CMAKE_CURRENT_LIST_DIR}/split_gguf.c ${model_rig} LIBS ingot_quantize ${model_libs} m)
ingot_test(test_model_foreign_gguf ${CMAKE_CURRENT_LIST_DIR}/test_foreign_gguf.c ${model_rig} LIBS ${model_libs} m)
target_compile_definitions(test_model_foreign_gguf PRIVATE INGOT_QUANTIZE="$<TARGET_FILE:ingot-quantize>")
add_dependencies(test_model_foreign_gguf ingot-quantize)
ingot_test(test_model_popular ${CMAKE_CURRENT_LIST_DIR}/test_popular.c ${model_rig} LIBS ${model_libs} m)
ingot_test(test_corpus_weights ${CMAKE_SOURCE_DIR}/tests/text/test_corpus.c ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_weights.c
  LIBS ${model_libs} m)
target_compile_definitions(test_corpus_weights PRIVATE CORPUS="weights")
ingot_test(test_corpus_modules ${CMAKE_SOURCE_DIR}/tests/text/test_corpus.c ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_modules.c
  LIBS ${model_libs} m)
target_compile_definitions(test_corpus_modules PRIVATE CORPUS="modules")
ingot_test(test_pooler ${CMAKE_CURRENT_LIST_DIR}/test_pooler.c LIBS ${model_libs} m)
