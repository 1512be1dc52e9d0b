set(coordinator_dir ${CMAKE_CURRENT_LIST_DIR})
ingot_test(test_request ${coordinator_dir}/test_request.c LIBS ingot_coordinator_lib)
ingot_test(test_clients ${coordinator_dir}/test_clients.c ${coordinator_dir}/front.c
  LIBS ingot_coordinator_lib PkgConfig::ZMQ)
ingot_test(test_text_queue ${coordinator_dir}/test_text_queue.c LIBS ingot_coordinator_lib PkgConfig::ZMQ)
ingot_test(test_owners ${coordinator_dir}/test_owners.c ${coordinator_dir}/front.c
  LIBS ingot_coordinator_lib PkgConfig::ZMQ)
ingot_test(test_resume ${coordinator_dir}/test_resume.c ${coordinator_dir}/front.c
  LIBS ingot_coordinator_lib PkgConfig::ZMQ)
ingot_test(test_grammars ${coordinator_dir}/test_grammars.c LIBS ingot_coordinator_lib PkgConfig::ZMQ)
ingot_test(test_tenants ${coordinator_dir}/test_tenants.c LIBS ingot_coordinator_lib)
ingot_test(test_quotas ${coordinator_dir}/test_quotas.c ${coordinator_dir}/front.c
  LIBS ingot_coordinator_lib PkgConfig::ZMQ)
ingot_test(test_libingot ${coordinator_dir}/test_libingot.c ${coordinator_dir}/front.c
  LIBS ingot_coordinator_lib ingot PkgConfig::ZMQ Threads::Threads)
ingot_test(test_step_clock ${coordinator_dir}/test_step_clock.c LIBS ingot_coordinator_lib)
ingot_test(test_worker_port ${coordinator_dir}/test_worker_port.c LIBS ingot_coordinator_lib PkgConfig::ZMQ)
if(NOT APPLE) # its linker has no --wrap
  ingot_test(test_memory ${coordinator_dir}/test_memory.c ${coordinator_dir}/front.c
    LIBS ingot_coordinator_lib PkgConfig::ZMQ Threads::Threads)
  ingot_wrap_allocator(test_memory)
  ingot_test(test_client_memory ${coordinator_dir}/test_client_memory.c
    LIBS ingot ingot_wire ingot_common PkgConfig::ZMQ Threads::Threads)
  ingot_wrap_allocator(test_client_memory)
  target_link_options(test_client_memory PRIVATE -Wl,--wrap=strdup,--wrap=strndup)
endif()
