# What a model says, split into reasoning, content and tool calls; the text commands' options.
add_library(ingot_output STATIC
  text/output_calls.c
  text/output_deepseek.c
  text/output_events.c
  text/output_formats.c
  text/output_gemma.c
  text/output_glm4.c
  text/output_granite.c
  text/output_harmony.c
  text/output_hermes.c
  text/output_json.c
  text/output_kimi.c
  text/output_marks.c
  text/output_members.c
  text/output_mistral.c
  text/output_parser.c
  text/output_parser_calls.c
  text/output_parser_state.c
  text/output_plain.c
  text/output_python.c
  text/output_scanner.c
  text/output_schema.c
  text/output_tools.c
  text/output_writer.c
  text/output_xml.c
  text/text_options.c)
target_link_libraries(ingot_output PUBLIC ingot_flags ingot_common)
