# INGOT_CUDA_CHECK: the programs of tests/gpu alone, for a GPU machine that has a compiler, the CUDA toolkit and
# cJSON (INGOT_CJSON_ROOT: a folder with include/cjson/cJSON.h and lib/libcjson.so*), no more.
set(INGOT_MPI OFF)
find_package(Threads REQUIRED)
set(INGOT_CJSON_ROOT "" CACHE PATH "Where cJSON is, if not among the system's libraries")
find_path(INGOT_CJSON_INCLUDE cjson/cJSON.h HINTS ${INGOT_CJSON_ROOT}/include)
find_library(INGOT_CJSON_LIBRARY NAMES cjson libcjson.so.1 HINTS ${INGOT_CJSON_ROOT}/lib)
if(NOT INGOT_CJSON_INCLUDE OR NOT INGOT_CJSON_LIBRARY)
  message(FATAL_ERROR "cJSON was not found: make a bundle (tests/gpu/check.sh --bundle) where it is installed")
endif()
add_library(PkgConfig::CJSON INTERFACE IMPORTED)
set_target_properties(PkgConfig::CJSON PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES ${INGOT_CJSON_INCLUDE} INTERFACE_LINK_LIBRARIES ${INGOT_CJSON_LIBRARY})

add_subdirectory(common)
add_subdirectory(backends)
add_subdirectory(collectives)
add_subdirectory(worker)

enable_language(CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g")
include(tests/ops/cases.cmake)
add_subdirectory(tests/emulator)
add_subdirectory(tests/gpu)
