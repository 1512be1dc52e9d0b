ingot_script_test(hosts COMMAND ${INGOT_PYTHON} tests/hosts/test_hosts.py LABEL cluster)
