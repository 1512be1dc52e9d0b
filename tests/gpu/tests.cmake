# The kernels' PTX and machine code, compiled with the rest of the build and once for all tests (nvcc.py).  The folder's name
# has the compiler's version, so that another one compiles anew.
if(INGOT_HAVE_CUDA)
  include(${CMAKE_SOURCE_DIR}/backends/cuda/sources.cmake)
  set(nvcc_env INGOT_NVCC=${CUDAToolkit_NVCC_EXECUTABLE} INGOT_BIN=${CMAKE_BINARY_DIR}/bin)
  set(kernel_dir ${CMAKE_CURRENT_BINARY_DIR}/kernels-${CUDAToolkit_VERSION})
  file(MAKE_DIRECTORY ${kernel_dir})
  set(kernel_code)
  foreach(arch 90a 80 100)
    foreach(source ${INGOT_CUDA_KERNEL_SOURCES})
      get_filename_component(name ${source} NAME)
      set(ptx ${kernel_dir}/${name}.${arch}.ptx)
      add_custom_command(OUTPUT ${ptx}
        COMMAND ${CMAKE_COMMAND} -E env ${nvcc_env} ${INGOT_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/nvcc.py ${name} ${arch} ${ptx}
        DEPENDS ${source} ${CMAKE_CURRENT_LIST_DIR}/nvcc.py
        DEPFILE ${ptx}.d
        COMMENT "Compiling ${name} for sm_${arch}"
        VERBATIM)
      list(APPEND kernel_code ${ptx})
    endforeach()
  endforeach()
  add_custom_target(kernel_code ALL DEPENDS ${kernel_code})
endif()
# Need no GPU.
ingot_script_test(cuda_kernels COMMAND ${INGOT_PYTHON} tests/gpu/check_kernels.py LABEL cuda)
ingot_script_test(cuda_nvcc COMMAND ${INGOT_PYTHON} tests/gpu/test_nvcc.py LABEL cuda)
ingot_script_test(cuda_sass COMMAND ${INGOT_PYTHON} tests/gpu/test_sass.py LABEL cuda)
ingot_script_test(cuda_rows COMMAND ${INGOT_PYTHON} tests/gpu/test_rows.py LABEL cuda)
if(INGOT_HAVE_CUDA)
  set_property(TEST cuda_kernels cuda_sass cuda_rows APPEND PROPERTY ENVIRONMENT ${nvcc_env})
endif()
ingot_script_test(cuda_check COMMAND ${INGOT_PYTHON} tests/gpu/test_check.py LABEL cuda)
