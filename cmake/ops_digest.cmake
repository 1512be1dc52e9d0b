# INGOT_OPS_DIGEST: ops_digest and what it needs alone, so that a compiler for another processor is enough
# (tests/ops/neon_digests.sh).
find_package(Threads REQUIRED)
add_library(PkgConfig::CJSON INTERFACE IMPORTED) # named by libraries that are not built here
add_subdirectory(common EXCLUDE_FROM_ALL)
add_subdirectory(backends)
include(tests/ops/cases.cmake)
include(tests/ops/digest.cmake)
