ingot_test(test_emulator emulator/test_emulator.cpp LIBS ingot_backends ingot_common LABEL cuda)
target_compile_definitions(test_emulator PRIVATE INGOT_EMULATE)
ingot_emulated(test_emulator)

# The shapes and references of tests/ops, on the emulated device.
ingot_test(test_ops_cuda ops/test_ops_cuda.c LIBS ingot_op_cases ingot_backends ingot_common TIMEOUT 900 LABEL cuda)
ingot_emulated(test_ops_cuda)
ingot_test(test_linear_cuda ops/test_linear_cuda.c LIBS ingot_op_cases ingot_backends ingot_common LABEL cuda)
ingot_emulated(test_linear_cuda)

# That the benchmark runs; its times mean nothing here.
set_source_files_properties(gpu/read_ceiling.cu PROPERTIES LANGUAGE CXX)
add_executable(bench_linear_emulated gpu/bench_linear.c gpu/read_ceiling.cu)
target_compile_definitions(bench_linear_emulated PRIVATE INGOT_EMULATE)
target_include_directories(bench_linear_emulated PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(bench_linear_emulated PRIVATE ingot_flags ingot_backends ingot_common m)
ingot_emulated(bench_linear_emulated)
ingot_script_test(bench_linear_runs COMMAND bench_linear_emulated --tiny LABEL cuda)
ingot_test(test_cuda_backend emulator/test_cuda_backend.c LIBS ingot_backends ingot_common LABEL cuda)
ingot_emulated(test_cuda_backend)
