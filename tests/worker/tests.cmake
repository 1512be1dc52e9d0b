ingot_test(test_options worker/test_options.c LIBS ingot_common)
ingot_test(test_sampler worker/test_sampler.c LIBS ingot_runtime)
