# ingot-quantize: models into GGUF files.
add_library(ingot_quantize STATIC
  quantize/choice.c
  quantize/convert.c
  quantize/gguf_write.c
  quantize/keys.c
  quantize/keys_layers.c
  quantize/pieces.c
  quantize/pieces_make.c
  quantize/quality.c
  quantize/quant_encode.c
  quantize/vocab.c
  quantize/vocab_pre.c)
target_link_libraries(ingot_quantize PUBLIC ingot_model ingot_flags PRIVATE PkgConfig::CJSON m)
add_executable(ingot-quantize quantize/main.c)
target_link_libraries(ingot-quantize PRIVATE ingot_quantize PkgConfig::CJSON)
