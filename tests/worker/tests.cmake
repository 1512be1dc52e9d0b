set(worker_dir ${CMAKE_CURRENT_LIST_DIR})
ingot_test(test_options ${worker_dir}/test_options.c LIBS ingot_common)
ingot_test(test_sampler ${worker_dir}/test_sampler.c LIBS ingot_runtime)
ingot_test(test_step ${worker_dir}/test_step.c LIBS ingot_runtime)

ingot_test(test_worker ${worker_dir}/test_worker.c ${worker_dir}/fake.c
  LIBS ingot_wire ingot_common PkgConfig::ZMQ PkgConfig::CJSON TIMEOUT 900)
add_dependencies(test_worker ingot-worker)
target_compile_definitions(test_worker PRIVATE INGOT_WORKER="$<TARGET_FILE:ingot-worker>")
if(INGOT_MPI)
  target_compile_definitions(test_worker PRIVATE INGOT_TEST_MPIEXEC="${MPIEXEC_EXECUTABLE}")
endif()
