# Collectives: one conformance suite, run by threads, by forked processes and under mpirun.
set(COLL_DIR ${CMAKE_CURRENT_LIST_DIR})
set(COLL_SUITE ${COLL_DIR}/conformance.c ${COLL_DIR}/host_backend.c)
ingot_test(coll_open ${COLL_DIR}/test_open.c ${COLL_DIR}/control_cases.c ${COLL_SUITE}
  LIBS ingot_coll LABEL coll)
ingot_test(coll_forked ${COLL_DIR}/test_forked.c ${COLL_DIR}/forked.c ${COLL_SUITE}
  LIBS ingot_coll LABEL coll)
ingot_test(coll_segment ${COLL_DIR}/test_segment.c LIBS ingot_coll ingot_common Threads::Threads LABEL coll)

add_executable(coll_threads ${COLL_DIR}/test_threads.c ${COLL_SUITE})
target_link_libraries(coll_threads PRIVATE ingot_coll Threads::Threads m)
target_include_directories(coll_threads PRIVATE ${CMAKE_SOURCE_DIR}/tests)
ingot_script_test(coll_threads COMMAND coll_threads LABEL coll tsan)

if(INGOT_MPI)
  add_executable(coll_ranks ${COLL_DIR}/ranks.c ${COLL_DIR}/control_cases.c ${COLL_SUITE})
  target_link_libraries(coll_ranks PRIVATE ingot_coll m)
  target_include_directories(coll_ranks PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  ingot_test(coll_mpirun ${COLL_DIR}/test_mpirun.c LABEL coll)
  add_dependencies(coll_mpirun coll_ranks)
  target_compile_definitions(coll_mpirun PRIVATE
    MPIRUN="${MPIEXEC_EXECUTABLE}" RANKS="$<TARGET_FILE:coll_ranks>")

  add_executable(bench_coll ${COLL_DIR}/../bench/bench_coll.c ${COLL_DIR}/host_backend.c)
  target_link_libraries(bench_coll PRIVATE ingot_coll)
  target_include_directories(bench_coll PRIVATE ${CMAKE_SOURCE_DIR}/tests)
endif()

# "ipc" on emulated devices.
set(COLL_IPC ${CMAKE_SOURCE_DIR}/collectives/ipc_coll.c)
ingot_test(coll_ipc ${COLL_DIR}/test_ipc.c ${COLL_SUITE} ${COLL_IPC}
  LIBS ingot_coll ingot_backends Threads::Threads LABEL coll)
ingot_emulated(coll_ipc)

# "nccl" over a stand-in for the library and its header, on emulated devices.
set(COLL_NCCL ${CMAKE_SOURCE_DIR}/collectives/nccl_coll.c ${CMAKE_SOURCE_DIR}/collectives/nccl_load.c ${COLL_IPC})
add_library(fake_nccl SHARED ${COLL_DIR}/fake_nccl.c)
target_link_libraries(fake_nccl PRIVATE Threads::Threads)
set_target_properties(fake_nccl PROPERTIES OUTPUT_NAME nccl SOVERSION 2
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_nccl)
ingot_test(coll_nccl ${COLL_DIR}/test_nccl.c ${COLL_SUITE} ${COLL_NCCL}
  LIBS ingot_coll ingot_backends Threads::Threads ${CMAKE_DL_LIBS} LABEL coll)
ingot_emulated(coll_nccl)
ingot_test(coll_nccl_open ${COLL_DIR}/test_nccl_open.c ${COLL_DIR}/thread_control.c ${COLL_NCCL}
  LIBS ingot_coll ingot_backends Threads::Threads ${CMAKE_DL_LIBS} LABEL coll)
ingot_emulated(coll_nccl_open)
add_dependencies(coll_nccl fake_nccl)
add_dependencies(coll_nccl_open fake_nccl)
foreach(target fake_nccl coll_nccl coll_nccl_open)
  target_include_directories(${target} BEFORE PRIVATE ${COLL_DIR}/stand_in ${CMAKE_SOURCE_DIR}/tests/emulator)
endforeach()
set_property(TEST coll_nccl coll_nccl_open APPEND PROPERTY ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/fake_nccl")
