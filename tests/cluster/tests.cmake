# with --all also with sanitizers
foreach(name grammar thinking)
  ingot_script_test(cluster_${name} COMMAND ${INGOT_PYTHON} tests/cluster/test_${name}.py LABEL cluster sanitized)
endforeach()
foreach(name stories same_bytes quantised_text experts sinks gpt2 latent delta mamba fp8 gptq not_finite kill groups coordinator cluster replay identity ruby
    keys limits locked_serve names parse_special prompt_logprobs journal waiting embed encoders rerank decoder_rerankers)
  ingot_script_test(cluster_${name} COMMAND ${INGOT_PYTHON} tests/cluster/test_${name}.py
    LABEL cluster)
endforeach()
# also with sanitizers, and without MPI; a million frames of each kind (INGOT_ALL) take hours
foreach(name frames mutated)
  ingot_script_test(cluster_${name} COMMAND ${INGOT_PYTHON} tests/cluster/test_${name}.py LABEL cluster nompi)
  set_tests_properties(cluster_${name} PROPERTIES TIMEOUT 20000)
endforeach()
foreach(device emulated queued)
  ingot_script_test(cluster_${device} COMMAND env INGOT_DEVICE=${device} ${INGOT_PYTHON} tests/cluster/test_device.py
    LABEL cluster)
endforeach()
# what a build without MPI must do end to end
ingot_script_test(cluster_one_rank COMMAND ${INGOT_PYTHON} tests/cluster/test_stories.py tp1_local bf16_shards
  LABEL nompi)
# the CUDA backend, its kernels run by tests/emulator
foreach(name cuda cuda_encoders cuda_grammar cuda_kinds cuda_not_finite)
  ingot_script_test(cluster_${name} COMMAND ${INGOT_PYTHON} tests/cluster/test_${name}.py LABEL cluster)
endforeach()
