# The programs of check.sh.  On a Mac they link Metal; elsewhere each has the name NAME_double and links the tests'
# double of Metal.  check.sh has a build without tests, and so without Criterion, read
# this (check_build.cmake).
set(metal ${CMAKE_SOURCE_DIR}/tests/metal)
set(gpu ${CMAKE_SOURCE_DIR}/tests/gpu)

function(ingot_metal_program name)
  cmake_parse_arguments(P "" "" "LIBS" ${ARGN})
  set(program ${name})
  if(NOT APPLE)
    set(program ${name}_double)
  endif()
  add_executable(${program} ${metal}/${name}.c ${P_UNPARSED_ARGUMENTS})
  target_include_directories(${program} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${metal})
  target_link_libraries(${program} PRIVATE ingot_flags ${P_LIBS} ingot_backends ingot_common m)
  if(NOT APPLE)
    set_target_properties(${program} PROPERTIES INGOT_EMULATED ON)
  endif()
endfunction()

# The probe's text.  A name of its own: the shaders' rule is that of other folders.
set(probe ${CMAKE_BINARY_DIR}/metal_probe)
file(MAKE_DIRECTORY ${probe})
set(probe_text ${CMAKE_SOURCE_DIR}/backends/metal/shaders/prelude.metal ${metal}/probe.metal)
string(REPLACE ";" "|" probe_files "${probe_text}")
add_custom_command(OUTPUT ${probe}/probe_source.metal ${probe}/probe_source.c
  COMMAND ${CMAKE_COMMAND} "-DFILES=${probe_files}" -DTEXT=${probe}/probe_source.metal -DSOURCE=${probe}/probe_source.c
    -DNAME=probe_source -P ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake
  DEPENDS ${probe_text} ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake VERBATIM)
ingot_metal_program(metal_probe ${probe}/probe_source.c)
if(NOT APPLE)
  target_sources(metal_probe_double PRIVATE ${metal}/probe_kernels.cpp ${probe}/probe_source.metal)
  target_include_directories(metal_probe_double PRIVATE ${probe})
  target_link_libraries(metal_probe_double PRIVATE ingot_metal_double)
endif()

set(model_libs ingot_model ingot_coll ingot_formats PkgConfig::CJSON Threads::Threads)
ingot_metal_program(metal_device)
ingot_metal_program(metal_ops LIBS ingot_op_cases)
ingot_metal_program(metal_model ${gpu}/gpu_golden.c ${gpu}/router_tap.c LIBS ${model_libs})
ingot_metal_program(metal_bench ${gpu}/bench_shapes.c ${gpu}/gpu_step.c LIBS ${model_libs})
