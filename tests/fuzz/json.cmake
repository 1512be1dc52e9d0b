ingot_fuzz(json LIBS ingot_json)
