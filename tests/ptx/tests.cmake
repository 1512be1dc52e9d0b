# The PTX machine: an oracle for the CUDA kernels that is written from NVIDIA's manual alone.
add_library(ingot_ptx STATIC
  ${CMAKE_CURRENT_LIST_DIR}/ptx_access.c
  ${CMAKE_CURRENT_LIST_DIR}/ptx_alu.c
  ${CMAKE_CURRENT_LIST_DIR}/ptx_float.c
  ${CMAKE_CURRENT_LIST_DIR}/ptx_forms.c
  ${CMAKE_CURRENT_LIST_DIR}/ptx_lex.c
  ${CMAKE_CURRENT_LIST_DIR}/ptx_machine.c
  ${CMAKE_CURRENT_LIST_DIR}/ptx_memory.c
  ${CMAKE_CURRENT_LIST_DIR}/ptx_mma.c
  ${CMAKE_CURRENT_LIST_DIR}/ptx_parse.c
  ${CMAKE_CURRENT_LIST_DIR}/ptx_parse_body.c
  ${CMAKE_CURRENT_LIST_DIR}/ptx_race.c
  ${CMAKE_CURRENT_LIST_DIR}/ptx_step.c)
target_include_directories(ingot_ptx PUBLIC ${CMAKE_SOURCE_DIR}/tests)
target_link_libraries(ingot_ptx PUBLIC ingot_flags ingot_common m)

add_library(ingot_ptx_snippet STATIC ${CMAKE_CURRENT_LIST_DIR}/ptx_snippet.c)
target_link_libraries(ingot_ptx_snippet PUBLIC ingot_ptx)
foreach(part alu memory parse warp)
  ingot_test(test_ptx_${part} ptx/test_ptx_${part}.c LIBS ingot_ptx_snippet)
endforeach()

# The backend as nvcc compiles it, with a runtime of our own, and the kernels' PTX (tests/gpu/tests.cmake).
if(INGOT_HAVE_CUDA)
  add_library(ingot_backends_ptx STATIC ${CMAKE_CURRENT_LIST_DIR}/ptx_cuda.c ${CMAKE_SOURCE_DIR}/backends/registry.c
    ${INGOT_CUDA_HOST_SOURCES} ${INGOT_CUDA_LOAD_SOURCES}
    $<FILTER:$<TARGET_OBJECTS:ingot_backends_real>,INCLUDE,[.]cu[.]o$>)
  target_compile_definitions(ingot_backends_ptx PRIVATE INGOT_HAVE_CUDA)
  target_include_directories(ingot_backends_ptx SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(ingot_backends_ptx PUBLIC ingot_backends_cpu ingot_ptx PRIVATE ${CMAKE_DL_LIBS})
  set(INGOT_PTX_LIST ${CMAKE_CURRENT_BINARY_DIR}/ptx_files.txt)
  set(ptx_files ${kernel_code})
  list(FILTER ptx_files INCLUDE REGEX "[.]90a[.]ptx$")
  list(JOIN ptx_files "\n" ptx_lines)
  file(GENERATE OUTPUT ${INGOT_PTX_LIST} CONTENT "${ptx_lines}\n")

  add_executable(ptx_ops ${CMAKE_CURRENT_LIST_DIR}/ptx_ops.c ${CMAKE_CURRENT_LIST_DIR}/ptx_ranks.c ${CMAKE_CURRENT_LIST_DIR}/ptx_experts.c
    ${CMAKE_CURRENT_LIST_DIR}/ptx_chain.c
    ${CMAKE_SOURCE_DIR}/collectives/reduce.c)
  set_target_properties(ptx_ops PROPERTIES INGOT_PTX ON CUDA_RUNTIME_LIBRARY None)
  target_include_directories(ptx_ops SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(ptx_ops PRIVATE ingot_flags ingot_op_cases ingot_backends ingot_common m)
  add_dependencies(ptx_ops kernel_code)
  ingot_script_test(ptx_ops COMMAND ptx_ops --modules ${INGOT_PTX_LIST} LABEL cuda)
  ingot_script_test(ptx_mutations COMMAND ${INGOT_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/mutations.py $<TARGET_FILE:ptx_ops>
    ${INGOT_PTX_LIST} LABEL cuda)
elseif(NOT INGOT_SANITIZE)
  foreach(name ptx_ops ptx_mutations)
    ingot_script_test(${name} COMMAND sh -c "echo 'ok 1 - ${name} # SKIP no CUDA toolkit (nvcc)' >\"$INGOT_TAP\"" LABEL cuda)
  endforeach()
endif()
