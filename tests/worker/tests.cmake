set(worker_dir ${CMAKE_CURRENT_LIST_DIR})
ingot_test(test_options ${worker_dir}/test_options.c LIBS ingot_common)
ingot_test(test_worker_options ${worker_dir}/test_worker_options.c LIBS ingot_runtime)
ingot_test(test_numerics ${worker_dir}/test_numerics.c LIBS ingot_runtime)
ingot_test(test_rank_weights ${worker_dir}/test_rank_weights.c LIBS ingot_runtime)
ingot_test(test_sampler ${worker_dir}/test_sampler.c LIBS ingot_runtime)
ingot_test(test_step ${worker_dir}/test_step.c LIBS ingot_runtime)
ingot_test(test_run_ahead ${worker_dir}/test_run_ahead.c ${worker_dir}/queue_backend.c LIBS ingot_runtime)
if(NOT APPLE) # its linker has no --wrap
  ingot_test(test_rank_step ${worker_dir}/test_rank_step.c LIBS ingot_runtime)
  target_link_options(test_rank_step PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
endif()

# A worker on that backend, with what the cluster tests need beside it.
if(NOT APPLE)
  set(queued_bin ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/queued)
  get_target_property(worker_sources ingot-worker SOURCES)
  list(TRANSFORM worker_sources PREPEND ${CMAKE_SOURCE_DIR}/worker/)
  add_executable(ingot-worker-queued ${worker_sources} ${worker_dir}/queue_backend.c ${worker_dir}/queue_open.c)
  target_include_directories(ingot-worker-queued PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(ingot-worker-queued PRIVATE ingot_runtime ingot_backends)
  target_link_options(ingot-worker-queued PRIVATE -Wl,--wrap=backend_open)
  set_target_properties(ingot-worker-queued PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${queued_bin} OUTPUT_NAME ingot-worker)
  foreach(program ingot ingot-coordinator ingot-text ingot-journal)
    add_custom_command(TARGET ingot-worker-queued POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink ../${program} ${queued_bin}/${program})
  endforeach()
  add_dependencies(ingot-worker-queued ingot-cli ingot-coordinator ingot-text ingot-journal)
endif()

# With processes.  Without MPI: what needs one rank only.
ingot_test(test_coordinator_port ${worker_dir}/test_coordinator_port.c ${worker_dir}/fake.c
  LIBS ingot_runtime PkgConfig::ZMQ Threads::Threads LABEL unit nompi)
foreach(name tokens ends)
  ingot_test(test_worker_${name} ${worker_dir}/test_worker_${name}.c ${worker_dir}/fake.c
    LIBS ingot_runtime PkgConfig::ZMQ PkgConfig::CJSON LABEL unit nompi)
endforeach()
foreach(name test_coordinator_port test_worker_tokens test_worker_ends)
  add_dependencies(${name} ingot-worker)
  target_compile_definitions(${name} PRIVATE INGOT_WORKER="$<TARGET_FILE:ingot-worker>")
  if(INGOT_MPI)
    target_compile_definitions(${name} PRIVATE INGOT_TEST_MPIEXEC="${MPIEXEC_EXECUTABLE}")
  endif()
endforeach()
