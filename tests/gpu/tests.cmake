# Needs no GPU; skipped without nvcc.
find_program(INGOT_TEST_PYTHON python3)
if(INGOT_TEST_PYTHON)
  ingot_script_test(cuda_kernels COMMAND ${INGOT_TEST_PYTHON} tests/gpu/check_kernels.py LABEL cuda TIMEOUT 900)
  ingot_script_test(cuda_check COMMAND ${INGOT_TEST_PYTHON} tests/gpu/test_check.py LABEL cuda TIMEOUT 600)
endif()
