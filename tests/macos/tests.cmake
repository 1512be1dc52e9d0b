# behind --all: needs ziglang
ingot_script_test(macos COMMAND ${INGOT_PYTHON} tests/macos/test_macos.py LABEL slow)
