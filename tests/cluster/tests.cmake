foreach(name stories same_bytes kill cluster replay)
  ingot_script_test(cluster_${name} COMMAND ${INGOT_PYTHON} tests/cluster/test_${name}.py
    LABEL cluster TIMEOUT 600 SERIAL)
endforeach()
