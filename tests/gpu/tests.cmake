# Need no GPU.
ingot_script_test(cuda_kernels COMMAND ${INGOT_PYTHON} tests/gpu/check_kernels.py LABEL cuda)
ingot_script_test(cuda_sass COMMAND ${INGOT_PYTHON} tests/gpu/test_sass.py LABEL cuda)
ingot_script_test(cuda_rows COMMAND ${INGOT_PYTHON} tests/gpu/test_rows.py LABEL cuda)
ingot_script_test(cuda_check COMMAND ${INGOT_PYTHON} tests/gpu/test_check.py LABEL cuda)
