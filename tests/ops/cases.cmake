add_library(ingot_op_cases STATIC
  ${CMAKE_CURRENT_LIST_DIR}/op_attention.c
  ${CMAKE_CURRENT_LIST_DIR}/op_cases.c
  ${CMAKE_CURRENT_LIST_DIR}/op_env.c
  ${CMAKE_CURRENT_LIST_DIR}/op_gates.c
  ${CMAKE_CURRENT_LIST_DIR}/op_delta.c
  ${CMAKE_CURRENT_LIST_DIR}/op_inputs.c
  ${CMAKE_CURRENT_LIST_DIR}/op_latent.c
  ${CMAKE_CURRENT_LIST_DIR}/op_linear.c
  ${CMAKE_CURRENT_LIST_DIR}/op_logits.c
  ${CMAKE_CURRENT_LIST_DIR}/op_moe.c
  ${CMAKE_CURRENT_LIST_DIR}/op_qkv.c
  ${CMAKE_CURRENT_LIST_DIR}/op_rows.c
  ${CMAKE_CURRENT_LIST_DIR}/op_sample.c
  ${CMAKE_CURRENT_LIST_DIR}/op_streams.c
  ${CMAKE_CURRENT_LIST_DIR}/op_verdict.c
  ${CMAKE_CURRENT_LIST_DIR}/operand_pairs.c)
target_include_directories(ingot_op_cases PUBLIC ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(ingot_op_cases PUBLIC ingot_flags ingot_backends m)
