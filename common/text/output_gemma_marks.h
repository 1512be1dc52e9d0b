/* The marks of Gemma 4's calls and thinking; output_gemma.h describes them. */
#ifndef COMMON_TEXT_OUTPUT_GEMMA_MARKS_H
#define COMMON_TEXT_OUTPUT_GEMMA_MARKS_H

#define GEMMA_CALL_BEGIN "<|tool_call>"
#define GEMMA_CALL_END "<tool_call|>"
#define GEMMA_QUOTE "<|\"|>"
/* Thinking: <|channel>thought, a newline, the text, <channel|>. */
#define GEMMA_CHANNEL "<|channel>"
#define GEMMA_CHANNEL_END "<channel|>"

#endif
