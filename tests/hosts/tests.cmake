ingot_script_test(hosts COMMAND ${INGOT_PYTHON} tests/hosts/test_hosts.py LABEL cluster)
ingot_script_test(launcher COMMAND ${INGOT_PYTHON} tests/hosts/test_launcher.py LABEL cluster)
ingot_script_test(hosts_ssh COMMAND ${INGOT_PYTHON} tests/hosts/test_ssh.py LABEL cluster)
# behind --all: needs Slurm
ingot_script_test(slurm COMMAND ${INGOT_PYTHON} tests/hosts/test_slurm.py LABEL cluster)
# behind --all: needs debootstrap and a Debian mirror
ingot_script_test(container COMMAND ${INGOT_PYTHON} tests/hosts/test_container.py LABEL cluster)
