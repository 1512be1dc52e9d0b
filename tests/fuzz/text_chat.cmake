ingot_fuzz(jinja LIBS ingot_chat)
ingot_fuzz(output LIBS ingot_output)
