add_library(ingot_gguf STATIC ${CMAKE_CURRENT_LIST_DIR}/gguf.c ${CMAKE_CURRENT_LIST_DIR}/gguf_read.c)
target_link_libraries(ingot_gguf PUBLIC ingot_flags ingot_common)
