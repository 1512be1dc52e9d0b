ingot_script_test(python_client COMMAND ${INGOT_PYTHON} tests/python/test_client.py LABEL cluster)
