ingot_test(test_wire wire/test_wire.c wire/fixtures.c LIBS ingot_wire)
ingot_script_test(wire_golden COMMAND ${INGOT_PYTHON} tests/wire/test_golden.py)
ingot_test(test_sock wire/test_sock.c LIBS ingot_wire)
ingot_test(test_keys wire/test_keys.c LIBS ingot_wire)
