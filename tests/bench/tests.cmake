# Not tests: print figures beside the machine's limits.
add_executable(bench_step
  bench/bench_step.c
  bench/ceilings.c
  bench/shape_source.c
  bench/step_cost.c
  bench/step_report.c
  bench/step_run.c)
target_include_directories(bench_step PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(bench_step PRIVATE ingot_flags ingot_model ingot_coll ingot_backends
  ingot_formats ingot_common PkgConfig::CJSON m Threads::Threads)
add_executable(bench_sched bench/bench_sched.c)
target_link_libraries(bench_sched PRIVATE ingot_flags ingot_sched ingot_common)
add_executable(bench_fleet bench/bench_fleet.c sched/simulate.c sched/load_source.c)
target_include_directories(bench_fleet PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(bench_fleet PRIVATE ingot_flags ingot_sched ingot_common m)
