# SHA-256, and the digests that identify a model.
add_library(ingot_digest STATIC
  ${CMAKE_CURRENT_LIST_DIR}/../sha256.c
  ${CMAKE_CURRENT_LIST_DIR}/digest_cache.c
  ${CMAKE_CURRENT_LIST_DIR}/file_digest.c
  ${CMAKE_CURRENT_LIST_DIR}/weights_digest.c
  ${CMAKE_CURRENT_LIST_DIR}/text_digest.c
  ${CMAKE_CURRENT_LIST_DIR}/json_digest.c)
target_link_libraries(ingot_digest PUBLIC ingot_formats ingot_common ingot_flags
  PRIVATE PkgConfig::CRYPTO PkgConfig::CJSON Threads::Threads)
