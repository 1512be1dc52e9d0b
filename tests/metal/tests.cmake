# The Metal backend on the tests' double of Metal; label emulator: under AddressSanitizer too.
if(TARGET ingot_metal_double)
  # Kernels end by a trap at an address that is not aligned to its type; the sanitizers' builds report it themselves.
  if(INGOT_SANITIZE)
    target_compile_options(ingot_metal_double PRIVATE -O2) # the tests' time is that of the kernels
  else()
    target_compile_options(ingot_metal_double PRIVATE -fsanitize=alignment -fsanitize-undefined-trap-on-error)
  endif()
  foreach(name double metal_archive metal_backend metal_weights)
    ingot_test(test_${name} metal/test_${name}.c LIBS ingot_backends ingot_common LABEL metal emulator)
    ingot_emulated(test_${name})
  endforeach()
  ingot_test(test_metal_pool metal/test_metal_pool.c metal/test_metal_mapped.c metal/metal_rank.c gpu/rank_rig.c LIBS ingot_runtime ingot_backends ingot_common m
    LABEL metal emulator)
  ingot_emulated(test_metal_pool)
  ingot_test(test_ops_metal metal/test_ops_metal.c ops/op_unheld.c LIBS ingot_op_cases ingot_backends ingot_common LABEL metal emulator)
  ingot_emulated(test_ops_metal)
  ingot_test(test_moe_metal metal/test_moe_metal.c ops/moe_layers.c LIBS ingot_backends ingot_common m
    LABEL metal emulator)
  ingot_emulated(test_moe_metal)
  include(${CMAKE_CURRENT_LIST_DIR}/programs.cmake)
  # check.sh end to end but for its golden logits, all of which metal_families has behind --all; then with programs that fail
  ingot_script_test(metal_check COMMAND tests/metal/check.sh --double --bin ${CMAKE_BINARY_DIR}/bin
    --steps probe,device,second-start,simple,ops,same-bytes,matrices,matrices-same,bench,matrices-bench,stories,serve
    --json ${CMAKE_BINARY_DIR}/metal-check.json LABEL metal)
  ingot_script_test(metal_check_script COMMAND ${INGOT_PYTHON} tests/metal/test_check.py LABEL metal)
  ingot_script_test(metal_predict COMMAND ${INGOT_PYTHON} tests/metal/test_predict.py LABEL metal)
  # whole models beyond those of metal_check
  ingot_script_test(metal_families COMMAND ${INGOT_PYTHON} tests/metal/families.py LABEL slow)
  # planted mistakes, behind --all
  ingot_script_test(metal_plants COMMAND ${INGOT_PYTHON} tests/metal/plants.py LABEL slow)
  ingot_script_test(metal_shaders COMMAND ${INGOT_PYTHON} tests/metal/test_shaders.py LABEL metal)
endif()
ingot_script_test(cluster_metal COMMAND ${INGOT_PYTHON} tests/metal/test_metal.py LABEL cluster)
