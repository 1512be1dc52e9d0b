ingot_fuzz(plan LIBS ingot_runtime ingot_wire ingot_backends)
