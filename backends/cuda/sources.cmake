# The CUDA backend's files: built by the toolkit's compiler here, for the host in tests/emulator.
set(INGOT_CUDA_DIR ${CMAKE_CURRENT_LIST_DIR})
set(INGOT_CUDA_HOST_SOURCES
  ${INGOT_CUDA_DIR}/cuda.c
  ${INGOT_CUDA_DIR}/memory.c
  ${INGOT_CUDA_DIR}/weight.c)
set(INGOT_CUDA_KERNEL_SOURCES
  ${INGOT_CUDA_DIR}/rows.cu)
