/* The marks around Python in Llama 4's answers. */
#ifndef COMMON_TEXT_OUTPUT_PYTHON_MARKS_H
#define COMMON_TEXT_OUTPUT_PYTHON_MARKS_H

#define PYTHON_START "<|python_start|>"
#define PYTHON_END "<|python_end|>"

#endif
