/* The marks of gpt-oss' chat format; output_harmony.h describes it. */
#ifndef COMMON_TEXT_OUTPUT_HARMONY_MARKS_H
#define COMMON_TEXT_OUTPUT_HARMONY_MARKS_H

#define HARMONY_START "<|start|>"
#define HARMONY_CHANNEL "<|channel|>"
#define HARMONY_CONSTRAIN "<|constrain|>"
#define HARMONY_MESSAGE "<|message|>"
#define HARMONY_END "<|end|>"
#define HARMONY_CALL "<|call|>"
#define HARMONY_RETURN "<|return|>"
#define HARMONY_ANALYSIS HARMONY_CHANNEL "analysis" HARMONY_MESSAGE

#endif
