if(TARGET ingot_pull)
  ingot_fuzz(hub LIBS ingot_pull ingot_hub)
endif()
