# Compiler flags that every target of Ingot shares.  -ffp-contract=off because the numeric contract
# states where a multiplication and an addition are fused: only where the source says fmaf.
add_library(ingot_flags INTERFACE)
target_compile_options(ingot_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -ffp-contract=off
  -fno-math-errno>
  $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false -Xcompiler=-Wall,-Wextra,-Wshadow,-ffp-contract=off>)
target_compile_definitions(ingot_flags INTERFACE _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE
  INGOT_VERSION="${PROJECT_VERSION}")
if(APPLE)
  # With _POSIX_C_SOURCE alone macOS hides flock, madvise and the like; POSIX's st_mtim has another name there.
  target_compile_definitions(ingot_flags INTERFACE _DARWIN_C_SOURCE st_mtim=st_mtimespec)
endif()
target_include_directories(ingot_flags INTERFACE ${CMAKE_SOURCE_DIR})
if(INGOT_WERROR)
  target_compile_options(ingot_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Werror>)
endif()
if(INGOT_SANITIZE)
  target_compile_options(ingot_flags INTERFACE -fsanitize=${INGOT_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(ingot_flags INTERFACE -fsanitize=${INGOT_SANITIZE})
endif()
if(INGOT_FUZZ)
  target_compile_options(ingot_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined
    -fno-sanitize-recover=all)
  target_link_options(ingot_flags INTERFACE -fsanitize=address,undefined)
endif()
