# The CUDA backend's files: built by the toolkit's compiler here, for the host in tests/emulator.
set(INGOT_CUDA_DIR ${CMAKE_CURRENT_LIST_DIR})
set(INGOT_CUDA_HOST_SOURCES
  ${INGOT_CUDA_DIR}/cuda.c
  ${INGOT_CUDA_DIR}/k_layout.c
  ${INGOT_CUDA_DIR}/heads.c
  ${INGOT_CUDA_DIR}/launch.c
  ${INGOT_CUDA_DIR}/linear.c
  ${INGOT_CUDA_DIR}/linear_lt.c
  ${INGOT_CUDA_DIR}/linear_quant.c
  ${INGOT_CUDA_DIR}/linear_scaled.c
  ${INGOT_CUDA_DIR}/memory.c
  ${INGOT_CUDA_DIR}/moe.c
  ${INGOT_CUDA_DIR}/pool.c
  ${INGOT_CUDA_DIR}/quant_layout.c
  ${INGOT_CUDA_DIR}/reserve.c
  ${INGOT_CUDA_DIR}/scaled_layout.c
  ${INGOT_CUDA_DIR}/weight.c)
# Finds cuBLASLt at run time; the emulator has its own.
set(INGOT_CUDA_LOAD_SOURCES ${INGOT_CUDA_DIR}/lt_load.c)
set(INGOT_CUDA_KERNEL_SOURCES
  ${INGOT_CUDA_DIR}/all_reduce.cu
  ${INGOT_CUDA_DIR}/oneshot.cu
  ${INGOT_CUDA_DIR}/linear_f32.cu
  ${INGOT_CUDA_DIR}/linear_pack.cu
  ${INGOT_CUDA_DIR}/linear_rows.cu
  ${INGOT_CUDA_DIR}/linear_tiles.cu
  ${INGOT_CUDA_DIR}/logits.cu
  ${INGOT_CUDA_DIR}/moe_act.cu
  ${INGOT_CUDA_DIR}/moe_f32.cu
  ${INGOT_CUDA_DIR}/moe_group.cu
  ${INGOT_CUDA_DIR}/moe_route.cu
  ${INGOT_CUDA_DIR}/moe_rows.cu
  ${INGOT_CUDA_DIR}/moe_tiles.cu
  ${INGOT_CUDA_DIR}/attention.cu
  ${INGOT_CUDA_DIR}/attention_latent.cu
  ${INGOT_CUDA_DIR}/attention_plain.cu
  ${INGOT_CUDA_DIR}/delta.cu
  ${INGOT_CUDA_DIR}/gates.cu
  ${INGOT_CUDA_DIR}/inputs.cu
  ${INGOT_CUDA_DIR}/qkv.cu
  ${INGOT_CUDA_DIR}/quant_experts.cu
  ${INGOT_CUDA_DIR}/quant_pack.cu
  ${INGOT_CUDA_DIR}/quant_rows.cu
  ${INGOT_CUDA_DIR}/quant_tiles.cu
  ${INGOT_CUDA_DIR}/rows.cu
  ${INGOT_CUDA_DIR}/scaled_experts.cu
  ${INGOT_CUDA_DIR}/scaled_linear.cu)
