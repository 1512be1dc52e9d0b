ingot_test(test_wire wire/test_wire.c wire/fixtures.c LIBS ingot_wire)
