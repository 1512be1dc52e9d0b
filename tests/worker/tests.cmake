set(worker_dir ${CMAKE_CURRENT_LIST_DIR})
ingot_test(test_options ${worker_dir}/test_options.c LIBS ingot_common)
ingot_test(test_sampler ${worker_dir}/test_sampler.c LIBS ingot_runtime)
ingot_test(test_step ${worker_dir}/test_step.c LIBS ingot_runtime)
ingot_test(test_run_ahead ${worker_dir}/test_run_ahead.c ${worker_dir}/queue_backend.c LIBS ingot_runtime)
if(NOT APPLE) # its linker has no --wrap
  ingot_test(test_rank_step ${worker_dir}/test_rank_step.c LIBS ingot_runtime)
  target_link_options(test_rank_step PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
endif()

# With processes.  Without MPI: what needs one rank only.
ingot_test(test_link ${worker_dir}/test_link.c ${worker_dir}/fake.c
  LIBS ingot_runtime PkgConfig::ZMQ Threads::Threads)
set_tests_properties(test_link PROPERTIES LABELS "unit;nompi")
foreach(name tokens ends)
  ingot_test(test_worker_${name} ${worker_dir}/test_worker_${name}.c ${worker_dir}/fake.c
    LIBS ingot_runtime PkgConfig::ZMQ PkgConfig::CJSON TIMEOUT 900)
  set_tests_properties(test_worker_${name} PROPERTIES LABELS "unit;nompi")
endforeach()
foreach(name test_link test_worker_tokens test_worker_ends)
  add_dependencies(${name} ingot-worker)
  target_compile_definitions(${name} PRIVATE INGOT_WORKER="$<TARGET_FILE:ingot-worker>")
  if(INGOT_MPI)
    target_compile_definitions(${name} PRIVATE INGOT_TEST_MPIEXEC="${MPIEXEC_EXECUTABLE}")
  endif()
endforeach()
