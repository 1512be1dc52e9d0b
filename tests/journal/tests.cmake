set(journal_driver ${CMAKE_CURRENT_LIST_DIR}/runs.c ${CMAKE_SOURCE_DIR}/tests/sched/driver.c
  ${CMAKE_SOURCE_DIR}/tests/sched/fake_worker.c)
ingot_test(test_journal ${CMAKE_CURRENT_LIST_DIR}/test_journal.c ${journal_driver}
  LIBS ingot_journal)
ingot_test(test_journal_files ${CMAKE_CURRENT_LIST_DIR}/test_journal_files.c ${journal_driver}
  LIBS ingot_journal)
ingot_test(test_journal_tool ${CMAKE_CURRENT_LIST_DIR}/test_journal_tool.c ${journal_driver}
  LIBS ingot_journal PkgConfig::CJSON)
add_dependencies(test_journal_tool ingot-journal)
ingot_test(test_fleet_journal ${CMAKE_CURRENT_LIST_DIR}/test_fleet_journal.c ${journal_driver}
  ${CMAKE_SOURCE_DIR}/tests/sched/fleet_driver.c LIBS ingot_journal)
if(NOT APPLE) # its linker has no --wrap
  ingot_test(test_journal_memory ${CMAKE_CURRENT_LIST_DIR}/test_journal_memory.c ${journal_driver}
    LIBS ingot_journal)
  ingot_wrap_allocator(test_journal_memory)
  target_link_options(test_journal_memory PRIVATE -Wl,--wrap=strdup)
endif()
