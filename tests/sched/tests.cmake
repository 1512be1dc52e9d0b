set(sched_tests ${CMAKE_CURRENT_LIST_DIR})
set(sched_driver ${sched_tests}/driver.c ${sched_tests}/fake_worker.c)
ingot_test(test_block_pool ${sched_tests}/test_block_pool.c LIBS ingot_sched)
ingot_test(test_sched ${sched_tests}/test_sched.c ${sched_tests}/steps.c LIBS ingot_sched)
ingot_test(test_sched_blocks ${sched_tests}/test_sched_blocks.c ${sched_tests}/steps.c
  LIBS ingot_sched)
ingot_test(test_sched_overtake ${sched_tests}/test_sched_overtake.c ${sched_tests}/steps.c
  LIBS ingot_sched)
ingot_test(test_sched_fair ${sched_tests}/test_sched_fair.c LIBS ingot_sched)
ingot_test(test_sched_random ${sched_tests}/test_sched_random.c ${sched_driver} LIBS ingot_journal)
ingot_test(test_cost ${sched_tests}/test_cost.c LIBS ingot_sched m)
ingot_test(test_sched_time ${sched_tests}/test_sched_time.c ${sched_tests}/steps.c LIBS ingot_sched)
ingot_test(test_sched_turns ${sched_tests}/test_sched_turns.c ${sched_tests}/steps.c
  LIBS ingot_sched)
