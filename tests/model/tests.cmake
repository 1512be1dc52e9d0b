set(model_rig ${CMAKE_CURRENT_LIST_DIR}/rig.c)
set(model_libs ingot_model ingot_coll ingot_backends ingot_formats ingot_common PkgConfig::CJSON
  Threads::Threads)
ingot_test(test_model_golden ${CMAKE_CURRENT_LIST_DIR}/test_golden.c ${model_rig} LIBS ${model_libs})
ingot_test(test_model_stories ${CMAKE_CURRENT_LIST_DIR}/test_stories.c ${model_rig} LIBS ${model_libs})
ingot_test(test_model_tp ${CMAKE_CURRENT_LIST_DIR}/test_tp.c ${CMAKE_CURRENT_LIST_DIR}/make_model.c
  ${model_rig} LIBS ${model_libs} TIMEOUT 600)
foreach(name engine memory shard inspect)
  ingot_test(test_model_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c ${model_rig} LIBS ${model_libs})
endforeach()
foreach(name safetensors config load)
  ingot_test(test_model_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c
    ${CMAKE_CURRENT_LIST_DIR}/make_model.c ${model_rig} LIBS ${model_libs})
endforeach()
