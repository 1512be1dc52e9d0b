# Label emulator: under AddressSanitizer too.
ingot_test(test_emulator emulator/test_emulator.cpp LIBS ingot_backends ingot_common LABEL cuda emulator)
target_compile_definitions(test_emulator PRIVATE INGOT_EMULATE)
ingot_emulated(test_emulator)

# The shapes and references of tests/ops, on the emulated device.
ingot_test(test_ops_cuda ops/test_ops_cuda.c ops/op_unheld.c LIBS ingot_op_cases ingot_backends ingot_common LABEL cuda emulator)
ingot_emulated(test_ops_cuda)
ingot_test(test_linear_cuda ops/test_linear_cuda.c LIBS ingot_op_cases ingot_backends ingot_common LABEL cuda emulator)
ingot_emulated(test_linear_cuda)

ingot_test(test_heads_cuda ops/test_heads_cuda.c LIBS ingot_op_cases ingot_backends ingot_common LABEL cuda emulator)
ingot_emulated(test_heads_cuda)

ingot_test(test_operand_cuda ops/test_operand_cuda.c LIBS ingot_op_cases ingot_backends ingot_common LABEL cuda emulator)
ingot_emulated(test_operand_cuda)

ingot_test(test_scaled_cuda ops/test_scaled_cuda.c LIBS ingot_op_cases ingot_backends ingot_common LABEL cuda emulator)
ingot_emulated(test_scaled_cuda)

ingot_test(test_sorted_cuda ops/test_sorted_cuda.c LIBS ingot_op_cases ingot_backends ingot_common LABEL cuda emulator)
ingot_emulated(test_sorted_cuda)

ingot_test(test_quant_cuda ops/test_quant.c LIBS ingot_backends ingot_common m LABEL cuda emulator)
target_compile_definitions(test_quant_cuda PRIVATE QUANT_CUDA)
ingot_emulated(test_quant_cuda)

ingot_test(test_moe_cuda ops/test_moe_cuda.c ops/moe_layers.c LIBS ingot_op_cases ingot_backends ingot_common m
  LABEL cuda emulator)
ingot_emulated(test_moe_cuda)

ingot_test(test_cuda_backend emulator/test_cuda_backend.c LIBS ingot_backends ingot_common LABEL cuda emulator)
ingot_emulated(test_cuda_backend)

ingot_test(test_rank_cuda emulator/test_rank_cuda.c gpu/rank_rig.c bench/shape_source.c LIBS ingot_runtime ingot_backends ingot_common m
  LABEL cuda emulator)
ingot_emulated(test_rank_cuda)
if(INGOT_HAVE_CUDA) # then there are collectives of devices
  target_compile_definitions(test_rank_cuda PRIVATE INGOT_HAVE_CUDA)
endif()
