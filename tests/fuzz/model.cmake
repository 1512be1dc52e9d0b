ingot_fuzz(safetensors LIBS ingot_formats ingot_common)
ingot_fuzz(config LIBS ingot_formats ingot_common)
