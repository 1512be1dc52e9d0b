ingot_test(test_quant_encode ${CMAKE_CURRENT_LIST_DIR}/test_quant_encode.c LIBS ingot_quantize ingot_common m)
ingot_script_test(quantize COMMAND ${INGOT_PYTHON} tests/quantize/test_quantize.py
  LABEL cluster)
