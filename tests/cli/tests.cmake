foreach(name commands options docs generate serve chat chat_display broken)
  ingot_script_test(cli_${name} COMMAND ${INGOT_PYTHON} tests/cli/test_${name}.py
    LABEL cluster)
endforeach()
