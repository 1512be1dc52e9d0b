ingot_fuzz(frame LIBS ingot_wire)
ingot_fuzz(curve_keys LIBS ingot_wire PkgConfig::ZMQ)
