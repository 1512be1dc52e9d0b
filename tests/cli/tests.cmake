foreach(name commands generate serve chat chat_display)
  ingot_script_test(cli_${name} COMMAND ${INGOT_PYTHON} tests/cli/test_${name}.py
    LABEL cluster TIMEOUT 600 SERIAL)
endforeach()
