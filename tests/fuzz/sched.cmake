ingot_fuzz(sched SOURCES ${CMAKE_SOURCE_DIR}/tests/sched/driver.c
  ${CMAKE_SOURCE_DIR}/tests/sched/fake_worker.c LIBS ingot_journal)
target_include_directories(fuzz_sched PRIVATE ${CMAKE_SOURCE_DIR}/tests)
ingot_fuzz(journal LIBS ingot_journal)
ingot_fuzz(fleet SOURCES ${CMAKE_SOURCE_DIR}/tests/sched/fleet_driver.c
  ${CMAKE_SOURCE_DIR}/tests/sched/fake_worker.c LIBS ingot_journal)
target_include_directories(fuzz_fleet PRIVATE ${CMAKE_SOURCE_DIR}/tests)
