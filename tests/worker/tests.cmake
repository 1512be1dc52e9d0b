set(worker_dir ${CMAKE_CURRENT_LIST_DIR})
ingot_test(test_options ${worker_dir}/test_options.c LIBS ingot_common)
ingot_test(test_sampler ${worker_dir}/test_sampler.c LIBS ingot_runtime)
ingot_test(test_step ${worker_dir}/test_step.c LIBS ingot_runtime)
if(NOT APPLE) # its linker has no --wrap
  ingot_test(test_rank_step ${worker_dir}/test_rank_step.c LIBS ingot_runtime)
  target_link_options(test_rank_step PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
endif()

ingot_test(test_worker ${worker_dir}/test_worker.c ${worker_dir}/fake.c
  LIBS ingot_wire ingot_common PkgConfig::ZMQ PkgConfig::CJSON TIMEOUT 900)
add_dependencies(test_worker ingot-worker)
target_compile_definitions(test_worker PRIVATE INGOT_WORKER="$<TARGET_FILE:ingot-worker>")
if(INGOT_MPI)
  target_compile_definitions(test_worker PRIVATE INGOT_TEST_MPIEXEC="${MPIEXEC_EXECUTABLE}")
endif()
