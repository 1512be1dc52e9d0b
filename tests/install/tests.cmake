foreach(name install completions)
  ingot_script_test(${name} COMMAND ${INGOT_PYTHON} tests/install/test_${name}.py LABEL cluster)
endforeach()
# behind --all: makes a Debian of its own
ingot_script_test(deb COMMAND ${INGOT_PYTHON} tests/install/test_deb.py LABEL cluster)
