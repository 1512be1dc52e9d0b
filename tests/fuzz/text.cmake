ingot_fuzz(tokenizer_json LIBS ingot_tokenizer)
ingot_fuzz(ranks LIBS ingot_tokenizer)
ingot_fuzz(gguf LIBS ingot_tokenizer ingot_formats)
ingot_fuzz(gguf_split LIBS ingot_formats)
