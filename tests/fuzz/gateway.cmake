ingot_fuzz(requests LIBS ingot_requests)
