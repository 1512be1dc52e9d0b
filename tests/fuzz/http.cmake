ingot_fuzz(http LIBS ingot_http)
