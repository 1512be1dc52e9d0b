# Collectives: one conformance suite, run by threads, by forked processes and under mpirun.
set(COLL_DIR ${CMAKE_CURRENT_LIST_DIR})
set(COLL_SUITE ${COLL_DIR}/conformance.c ${COLL_DIR}/host_backend.c)
ingot_test(coll_open ${COLL_DIR}/test_open.c ${COLL_DIR}/control_cases.c ${COLL_SUITE}
  LIBS ingot_coll LABEL coll)
ingot_test(coll_forked ${COLL_DIR}/test_forked.c ${COLL_DIR}/forked.c ${COLL_SUITE}
  LIBS ingot_coll LABEL coll TIMEOUT 600)

add_executable(coll_threads ${COLL_DIR}/test_threads.c ${COLL_SUITE})
target_link_libraries(coll_threads PRIVATE ingot_coll Threads::Threads m)
target_include_directories(coll_threads PRIVATE ${CMAKE_SOURCE_DIR}/tests)
add_test(NAME coll_threads COMMAND coll_threads)
set_tests_properties(coll_threads PROPERTIES TIMEOUT 600 LABELS "coll;tsan")

if(INGOT_MPI)
  add_executable(coll_ranks ${COLL_DIR}/ranks.c ${COLL_DIR}/control_cases.c ${COLL_SUITE})
  target_link_libraries(coll_ranks PRIVATE ingot_coll m)
  target_include_directories(coll_ranks PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  ingot_test(coll_mpirun ${COLL_DIR}/test_mpirun.c LABEL coll TIMEOUT 900)
  add_dependencies(coll_mpirun coll_ranks)
  target_compile_definitions(coll_mpirun PRIVATE
    MPIRUN="${MPIEXEC_EXECUTABLE}" RANKS="$<TARGET_FILE:coll_ranks>")

  add_executable(bench_coll ${COLL_DIR}/../bench/bench_coll.c ${COLL_DIR}/host_backend.c)
  target_link_libraries(bench_coll PRIVATE ingot_coll)
  target_include_directories(bench_coll PRIVATE ${CMAKE_SOURCE_DIR}/tests)
endif()
