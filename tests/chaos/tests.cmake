ingot_script_test(chaos COMMAND ${INGOT_PYTHON} tests/chaos/test_chaos.py
  LABEL cluster)
