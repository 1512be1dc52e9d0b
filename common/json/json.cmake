# JSON from outside, read strictly and without a tree; JSON written.
add_library(ingot_json STATIC
  json/json_check.c
  json/json_read.c
  json/json_number.c
  json/json_path.c
  json/json_write.c)
target_link_libraries(ingot_json PUBLIC ingot_flags ingot_common m)
