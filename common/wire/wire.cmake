add_library(ingot_wire STATIC
  wire/frame.c
  wire/pb.c
  wire/pb_scan.c
  wire/worker_figures.c
  wire/worker_msg.c
  wire/worker_plan.c
  wire/client_accepted.c
  wire/client_head.c
  wire/client_msg.c
  wire/client_sampling.c
  wire/client_reply.c
  wire/client_stats.c
  wire/curve_key.c
  wire/key_list.c
  wire/sock.c)
target_link_libraries(ingot_wire PUBLIC ingot_common ingot_flags PRIVATE ingot_pb PkgConfig::ZMQ)
