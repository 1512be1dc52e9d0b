ingot_fuzz(safetensors LIBS ingot_model ingot_formats ingot_common)
ingot_fuzz(config LIBS ingot_formats ingot_common)
ingot_fuzz(weights LIBS ingot_model ingot_backends ingot_formats ingot_common)
ingot_fuzz(modules LIBS ingot_formats ingot_common)
