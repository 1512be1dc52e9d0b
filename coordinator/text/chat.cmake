# Chat templates: a Jinja engine, and what finds a model's template.
add_library(ingot_chat STATIC
  chat_model.c
  chat_template.c
  jinja_attr.c
  jinja_call.c
  jinja_dict.c
  jinja_eval.c
  jinja_exec.c
  jinja_filters.c
  jinja_filters_seq.c
  jinja_filters_text.c
  jinja_format.c
  jinja_globals.c
  jinja_json.c
  jinja_lex.c
  jinja_mem.c
  jinja_methods.c
  jinja_methods_str.c
  jinja_ops.c
  jinja_parse.c
  jinja_parse_expr.c
  jinja_parse_postfix.c
  jinja_repr.c
  jinja_run.c
  jinja_str.c
  jinja_tests.c
  jinja_utf8.c
  jinja_value.c)
target_link_libraries(ingot_chat PUBLIC ingot_flags ingot_common PRIVATE PkgConfig::UTF8PROC m)
