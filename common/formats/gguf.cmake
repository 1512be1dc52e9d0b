add_library(ingot_gguf STATIC ${CMAKE_CURRENT_LIST_DIR}/gguf.c ${CMAKE_CURRENT_LIST_DIR}/gguf_read.c
  ${CMAKE_CURRENT_LIST_DIR}/gguf_split.c ${CMAKE_CURRENT_LIST_DIR}/gguf_file.c
  ${CMAKE_CURRENT_LIST_DIR}/gguf_types.c)
target_link_libraries(ingot_gguf PUBLIC ingot_flags ingot_common)
