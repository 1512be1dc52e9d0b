# Tokenizers, the detokenizer and stop strings.
add_library(ingot_tokenizer STATIC
  detok.c
  stop.c
  tokenizer.c
  tokenizer_added.c
  tokenizer_bpe.c
  tokenizer_encode.c
  tokenizer_gguf.c
  tokenizer_gguf_merges.c
  tokenizer_gguf_pre.c
  tokenizer_json.c
  tokenizer_json_model.c
  tokenizer_normalize.c
  tokenizer_parts_json.c
  tokenizer_post_json.c
  tokenizer_pretokenize.c
  tokenizer_regex.c
  tokenizer_scan.c
  tokenizer_trie.c
  tokenizer_unigram.c
  tokenizer_vocab.c
  tokenizer_wordpiece.c
  unicode.c
  unicode_tables.c)
target_link_libraries(ingot_tokenizer PUBLIC ingot_flags ingot_common ingot_gguf
  PRIVATE PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::CJSON)
