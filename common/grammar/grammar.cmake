# Grammars that answers must follow: JSON Schema, regular expressions, choices and context-free grammars over bytes; masks of
# tokens.
add_library(ingot_grammar STATIC
  grammar/charset.c
  grammar/expr.c
  grammar/expr_derive.c
  grammar/expr_empty.c
  grammar/expr_lengths.c
  grammar/gbnf.c
  grammar/gbnf_fold.c
  grammar/gbnf_parse.c
  grammar/grammar.c
  grammar/grammar_memory.c
  grammar/heavy.c
  grammar/machine.c
  grammar/mask.c
  grammar/number_expr.c
  grammar/regex.c
  grammar/regex_parse.c
  grammar/rules.c
  grammar/schema.c
  grammar/schema_array.c
  grammar/schema_keywords.c
  grammar/schema_object.c
  grammar/schema_style.c
  grammar/schema_tree.c
  grammar/schema_values.c
  grammar/source.c
  grammar/stacks.c
  grammar/string_expr.c
  grammar/tags.c
  grammar/thinking.c
  grammar/token_trie.c)
target_link_libraries(ingot_grammar PUBLIC ingot_flags ingot_common ingot_json)
