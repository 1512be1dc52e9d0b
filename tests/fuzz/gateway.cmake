ingot_fuzz(requests LIBS ingot_requests)
ingot_fuzz(keys LIBS ingot_keys)
