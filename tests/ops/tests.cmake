include(${CMAKE_CURRENT_LIST_DIR}/cases.cmake)
ingot_test(test_ops ops/test_ops.c LIBS ingot_op_cases ingot_backends ingot_common LABEL ops)
ingot_test(test_attention ops/test_attention.c LIBS ingot_op_cases ingot_backends ingot_common LABEL ops)
ingot_test(test_kv_store ops/test_kv_store.c ops/kv_spec.c ops/op_unheld.c LIBS ingot_op_cases ingot_backends ingot_common LABEL ops)
ingot_test(test_nodes ops/test_nodes.c LIBS ingot_backends ingot_common LABEL ops)
ingot_test(test_backend ops/test_backend.c LIBS ingot_backends ingot_common LABEL ops)
ingot_test(test_quant ops/test_quant.c LIBS ingot_backends ingot_common m LABEL ops)
ingot_test(test_moe ops/test_moe.c ops/moe_layers.c LIBS ingot_backends ingot_common m LABEL ops)
ingot_test(test_bf16 ops/test_bf16.c LIBS ingot_op_cases ingot_backends ingot_common m LABEL ops)
ingot_test(test_inputs ops/test_inputs.c LIBS ingot_op_cases ingot_backends ingot_common m LABEL ops)
ingot_test(test_pool ops/test_pool.c LIBS ingot_backends ingot_common Threads::Threads LABEL ops)

# The bits of every case are frozen: whoever changes them on purpose writes digests.txt anew.
include(${CMAKE_CURRENT_LIST_DIR}/digest.cmake)
ingot_script_test(ops_digest COMMAND sh -c "$<TARGET_FILE:ops_digest> | diff tests/ops/digests.txt -" LABEL ops tsan)
foreach(order bf16 bf16-tiles)
  ingot_script_test(ops_digest_${order}
    COMMAND sh -c "$<TARGET_FILE:ops_digest> auto ${order} | diff tests/ops/digests-${order}.txt -" LABEL ops)
endforeach()
# Arm machines run the NEON kernels in the tests above.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  ingot_script_test(neon_digests COMMAND ${CMAKE_CURRENT_LIST_DIR}/neon_digests.sh ${CMAKE_BINARY_DIR}/neon LABEL slow)
endif()

# Not a test: prints figures beside the machine's limits.
add_executable(bench_ops bench/bench_ops.c bench/ceilings.c)
target_include_directories(bench_ops PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(bench_ops PRIVATE ingot_flags ingot_backends ingot_common m Threads::Threads)
add_executable(bench_attention bench/bench_attention.c bench/ceilings.c)
target_include_directories(bench_attention PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(bench_attention PRIVATE ingot_flags ingot_backends ingot_common m Threads::Threads)
add_executable(bench_moe bench/bench_moe.c bench/ceilings.c)
target_include_directories(bench_moe PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(bench_moe PRIVATE ingot_flags ingot_backends ingot_common m Threads::Threads)
