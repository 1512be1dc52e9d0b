# The worker's run time: sampling, steps, the loop of a rank, and the program.
add_library(ingot_runtime STATIC
  sample/sampler.c
  sample/edits.c
  sample/compiler.c
  sample/mask_rows.c
  sample/masks.c
  sample/side_thread.c
  step/id_map.c
  step/check.c
  step/step.c
  graphs.c
  rank_step.c
  rank_results.c
  rank_step_sizes.c
  rank_meet.c
  rank_warm.c
  rank_figures.c
  rank_weights.c
  rank_hosts.c
  rank_devices.c
  numerics.c
  options.c
  rank_plan.c
  inspect.c
  timed_coll.c
  coordinator_port.c
  peer_watch.c
  start_watch.c
  life_signs.c
  group_watch.c
  rank_loop.c)
target_link_libraries(ingot_runtime PUBLIC ingot_model ingot_grammar ingot_digest ingot_wire ingot_coll ingot_common ingot_flags
  PRIVATE PkgConfig::ZMQ PkgConfig::CJSON Threads::Threads m)

add_executable(ingot-worker main.c rank.c host_share.c)
target_link_libraries(ingot-worker PRIVATE ingot_runtime ingot_backends)
