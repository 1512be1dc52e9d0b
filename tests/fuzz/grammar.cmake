ingot_fuzz(schema LIBS ingot_grammar)
ingot_fuzz(regex LIBS ingot_grammar)
ingot_fuzz(tags LIBS ingot_grammar)
ingot_fuzz(gbnf LIBS ingot_grammar)
