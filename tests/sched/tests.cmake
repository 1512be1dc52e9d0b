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

# ingot_planted(NAME FROM TO TEXT): the scheduler with FROM replaced by TO in plan_time.c; sched_check must say TEXT.
set(sched_plan_time ${CMAKE_SOURCE_DIR}/coordinator/sched/plan_time.c)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sched_plan_time})
function(ingot_planted name from to text)
  file(READ ${sched_plan_time} code)
  string(REPLACE "${from}" "${to}" planted "${code}")
  if(from AND planted STREQUAL code)
    message(FATAL_ERROR "${name}: plan_time.c does not contain: ${from}")
  endif()
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}/plan_time.c CONTENT "${planted}")
  ingot_test(${name} ${sched_tests}/test_sched_planted.c ${sched_tests}/steps.c
    ${CMAKE_CURRENT_BINARY_DIR}/${name}/plan_time.c LIBS ingot_sched)
  target_compile_definitions(${name} PRIVATE "PLANTED=\"${text}\"")
endfunction()
ingot_planted(test_sched_planted_none "" "" "")
ingot_planted(test_sched_planted_quarter "p->all_us / (double)OLDEST_SHARE);" "p->all_us / 64);"
  "has its quarter of the step")
ingot_planted(test_sched_planted_shortest "v[k - gap] > x" "v[k - gap] < x" "no shorter one could")
ingot_planted(test_sched_planted_time "return 2.5 * (" "return 25 * (" "is within its time")
ingot_planted(test_sched_planted_turn "least = s->cfg.turn_tokens" "least = 0" "paused before turn_tokens")
ingot_test(test_fleet ${sched_tests}/test_fleet.c ${sched_tests}/fleet_driver.c ${sched_tests}/fake_worker.c
  LIBS ingot_journal)
