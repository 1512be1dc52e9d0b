ingot_test(test_journal ${CMAKE_CURRENT_LIST_DIR}/test_journal.c
  ${CMAKE_SOURCE_DIR}/tests/sched/driver.c ${CMAKE_SOURCE_DIR}/tests/sched/fake_worker.c
  LIBS ingot_journal)
