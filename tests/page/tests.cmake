ingot_script_test(page COMMAND ${INGOT_PYTHON} tests/page/test_page.py LABEL cluster)
