ingot_fuzz(frame LIBS ingot_wire)
