# Parsers of model files: pure, over (pointer, length).
add_library(ingot_formats STATIC
  formats/json_get.c
  formats/model_arch.c
  formats/model_tensors.c
  formats/arch_delta.c
  formats/arch_mamba.c
  formats/arch_gemma.c
  formats/arch_experts.c
  formats/arch_encoders.c
  formats/arch_classic.c
  formats/model_config.c
  formats/config_encoder.c
  formats/config_labels.c
  formats/config_modernbert.c
  formats/config_experts.c
  formats/config_quant.c
  formats/config_quant_parts.c
  formats/config_integers.c
  formats/config_compressed.c
  formats/config_blocks.c
  formats/config_floats.c
  formats/config_fields.c
  formats/config_keys.c
  formats/config_key_table.c
  formats/config_names.c
  formats/config_rope.c
  formats/config_delta.c
  formats/config_mamba.c
  formats/config_global.c
  formats/config_latent.c
  formats/config_gguf.c
  formats/config_gguf_experts.c
  formats/config_gguf_latent.c
  formats/config_gguf_delta.c
  formats/config_gguf_mamba.c
  formats/config_gguf_global.c
  formats/config_gguf_meta.c
  formats/config_gguf_arch.c
  formats/safetensors_index.c
  formats/config_load.c
  formats/generation.c
  formats/sentence_folder.c
  formats/sentence_modules.c
  formats/cross_encoder.c)
include(${CMAKE_CURRENT_LIST_DIR}/gguf.cmake OPTIONAL)
target_link_libraries(ingot_formats PUBLIC ingot_gguf ingot_json ingot_common ingot_flags PRIVATE PkgConfig::CJSON m)
