/* Outputs of models and the events that they are, as text; test_output_parser.c explains it. */
#ifndef TESTS_TEXT_CHAT_OUTPUT_ROWS_H
#define TESTS_TEXT_CHAT_OUTPUT_ROWS_H

#include "common/text/output_parser.h"

#define DS(word) "<\xef\xbd\x9ctool\xe2\x96\x81" word "\xef\xbd\x9c>"
#define CALLS_BEGIN                                                                                \
    DS("calls\xe2\x96\x81"                                                                         \
       "begin")
#define CALLS_END                                                                                  \
    DS("calls\xe2\x96\x81"                                                                         \
       "end")
#define CALL_BEGIN                                                                                 \
    DS("call\xe2\x96\x81"                                                                          \
       "begin")
#define CALL_END                                                                                   \
    DS("call\xe2\x96\x81"                                                                          \
       "end")
#define SEP DS("sep")

struct row {
    enum output_tools tools;
    const char *text, *expected;
};

static const struct row ROWS[] = {
    {OUTPUT_TOOLS_NONE, "Hello", "C(Hello)"},
    {OUTPUT_TOOLS_NONE, "", ""},
    {OUTPUT_TOOLS_NONE, "<think>a</think>b", "R(a)C(b)"},
    {OUTPUT_TOOLS_NONE, "\n <think>\na\n</think>\n\nb", "R(\na\n)C(\n\nb)"},
    {OUTPUT_TOOLS_NONE, "<think>never ended", "R(never ended)"},
    {OUTPUT_TOOLS_NONE, "<think>ends </thin", "R(ends </thin)"},
    {OUTPUT_TOOLS_NONE, "<think></think>", ""},
    {OUTPUT_TOOLS_NONE, "<thin", "C(<thin)"},
    {OUTPUT_TOOLS_NONE, "see <think>x</think>", "C(see <think>x</think>)"},
    {OUTPUT_TOOLS_NONE, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
     "C(<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>)"},
    /* Hermes, Qwen */
    {OUTPUT_TOOLS_HERMES,
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1.0}}\n</tool_call>",
     "T0(f|{\"a\": 1.0})"},
    {OUTPUT_TOOLS_HERMES,
     "<think>t</think>Let me.\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n"
     "<tool_call>{\"name\": \"g\", \"arguments\": {\"x\": \"</tool_call>\"}}</tool_call>\n",
     "R(t)C(Let me.\n)T0(f|{})T1(g|{\"x\": \"</tool_call>\"})"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>{\"name\": \"f\"}</tool_call> and more",
     "T0(f|{})C( and more)"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {}}", "T0(f|{})"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {}", "T0(f|{})"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>{name: f}</tool_call>",
     "C(<tool_call>{name: f}</tool_call>)"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>{\"nom\": \"f\"}</tool_call>",
     "C(<tool_call>{\"nom\": \"f\"}</tool_call>)"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>oops<tool_call>{\"name\":\"f\"}</tool_call>",
     "C(<tool_call>oops)T0(f|{})"},
    {OUTPUT_TOOLS_HERMES,
     "<tool_call>{\"name\":\"f\"}</tool_cal<tool_call>{\"name\":\"g\"}</tool_call>",
     "C(<tool_call>{\"name\":\"f\"}</tool_cal)T0(g|{})"},
    {OUTPUT_TOOLS_HERMES, "a < b <tool", "C(a < b <tool)"},
    {OUTPUT_TOOLS_HERMES,
     "<tool_call>{\"id\":\"c1\",\"name\":\"\\u0066\\\"\",\"arguments\":\"{\\\"a\\\":"
     "\\\"\\u00e9\\\"}\"}</tool_call>",
     "T0(f\":c1|{\"a\":\"\xc3\xa9\"})"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":\"no json\"}</tool_call>",
     "C(<tool_call>{\"name\":\"f\",\"arguments\":\"no json\"}</tool_call>)"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>",
     "C(<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>)"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>{\"name\":\"\",\"arguments\":{}}</tool_call>",
     "C(<tool_call>{\"name\":\"\",\"arguments\":{}}</tool_call>)"},
    /* a call that has begun stays one; what follows its broken end is content */
    {OUTPUT_TOOLS_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"b",
     "T0(f|{\"a\":\"b)"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":tru!}}</tool_call>x",
     "T0(f|{\"a\":tru)C(!}}</tool_call>x)"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}</tool_call>x",
     "T0(f|{\"a\":1})C(x)"},
    {OUTPUT_TOOLS_HERMES,
     "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1</tool_call>\n"
     "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
     "T0(f|{\"a\":1)T1(g|{})"},
    {OUTPUT_TOOLS_HERMES,
     "<tool_call>{\"name\":\"f\",\"arguments\":{}} </tool<tool_call>{\"name\":\"g\"}",
     "T0(f|{})C( </tool)T1(g|{})"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{}} oops", "T0(f|{})C( oops)"},
    {OUTPUT_TOOLS_HERMES, "<tool_call>{\"arguments\":{\"a\":1},\"name\":\"f\"}</tool_call>",
     "T0(f|{\"a\":1})"},
    {OUTPUT_TOOLS_HERMES,
     "<tool_call>{\"type\":\"function\",\"id\":\"x\",\"function\":{\"name\":\"f\",\"arguments\":{"
     "\"name\":\"n\"}}}"
     "</tool_call>",
     "T0(f:x|{\"name\":\"n\"})"},
    {OUTPUT_TOOLS_HERMES,
     "<tool_call>{\"x\":{\"name\":\"n\",\"arguments\":{}},\"name\":\"f\",\"arguments\":{}}</"
     "tool_call>",
     "T0(f|{})"},
    {OUTPUT_TOOLS_HERMES,
     "<tool_call>[{\"name\":\"f\",\"arguments\":{}},{\"name\":\"g\"}]</tool_call>",
     "T0(f|{})T1(g|{})"},
    /* Llama 3 */
    {OUTPUT_TOOLS_LLAMA3, "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": [",
     "T0(f|{\"a\": [)"},
    {OUTPUT_TOOLS_LLAMA3, "{\"name\": \"f\", \"parameters\": {\"a\": [1, 2]}}",
     "T0(f|{\"a\": [1, 2]})"},
    {OUTPUT_TOOLS_LLAMA3, " <|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "C( )T0(f|{})"},
    {OUTPUT_TOOLS_LLAMA3,
     "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
     "T0(f|{})T1(g|{})"},
    {OUTPUT_TOOLS_LLAMA3, "{\"name\": \"f\", \"parameters\": {}}; {\"name\": oops",
     "T0(f|{})C(; {\"name\": oops)"},
    {OUTPUT_TOOLS_LLAMA3, "<|python_tag|>brave_search.call(query=\"x\")",
     "C(<|python_tag|>brave_search.call(query=\"x\"))"},
    {OUTPUT_TOOLS_LLAMA3, "{\"answer\": 42}", "C({\"answer\": 42})"},
    {OUTPUT_TOOLS_LLAMA3, "Use {\"name\": \"f\", \"parameters\": {}}",
     "C(Use {\"name\": \"f\", \"parameters\": {}})"},
    {OUTPUT_TOOLS_LLAMA3,
     "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}", "T0(f|{})"},
    /* Mistral */
    {OUTPUT_TOOLS_MISTRAL,
     "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abc\"}, "
     "{\"name\": \"g\", \"arguments\": {}}]",
     "T0(f|{\"a\": 1})T1(g|{})"},
    {OUTPUT_TOOLS_MISTRAL, "Hi[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g{}",
     "C(Hi)T0(f|{\"a\": 1})T1(g|{})"},
    {OUTPUT_TOOLS_MISTRAL, "[TOOL_CALLS]f[CALL_ID]x9[ARGS]{}", "T0(f:x9|{})"},
    {OUTPUT_TOOLS_MISTRAL, "[TOOL_CALLS][]", "C([TOOL_CALLS][])"},
    {OUTPUT_TOOLS_MISTRAL, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, 5]",
     "T0(f|{})C(, 5])"},
    {OUTPUT_TOOLS_MISTRAL, "[TOOL_CALLS]f [ARGS]{}", "C([TOOL_CALLS]f [ARGS]{})"},
    {OUTPUT_TOOLS_MISTRAL, "[TOOL", "C([TOOL)"},
    /* DeepSeek */
    {OUTPUT_TOOLS_DEEPSEEK,
     CALLS_BEGIN CALL_BEGIN "function" SEP "f\n```json\n{\"a\": 1}\n```" CALL_END "\n" CALL_BEGIN
                            "function" SEP "g\n```json\n{}\n```" CALL_END CALLS_END,
     "T0(f|{\"a\": 1})T1(g|{})"},
    {OUTPUT_TOOLS_DEEPSEEK, "ok" CALLS_BEGIN CALL_BEGIN "f" SEP "{\"a\": 1}" CALL_END CALLS_END "!",
     "C(ok)T0(f|{\"a\": 1})C(!)"},
    {OUTPUT_TOOLS_DEEPSEEK, CALL_BEGIN "function" SEP "{}" CALL_END, "T0(function|{})"},
    {OUTPUT_TOOLS_DEEPSEEK, CALLS_BEGIN "none" CALLS_END, "C(" CALLS_BEGIN "none" CALLS_END ")"},
    {OUTPUT_TOOLS_DEEPSEEK, CALLS_BEGIN CALL_BEGIN "f" SEP "{]" CALL_END,
     "T0(f|{)C(]" CALL_END ")"},
    /* Qwen3-Coder, Seed-OSS */
    {OUTPUT_TOOLS_QWEN3_CODER,
     "Let "
     "me.\n<tool_call>\n<function=f>\n<parameter=path>\na.py\n</parameter>\n<parameter=text>\n\nif "
     "a < "
     "b:\n\t\"x\"\\\n\n</parameter>\n<parameter=n>\n12\n</parameter>\n</function>\n</tool_call>",
     "C(Let me.\n)T0(f|{\"path\": \"a.py\", \"text\": \"\\nif a < "
     "b:\\n\\u0009\\\"x\\\"\\\\\\n\", \"n\": 12})"},
    {OUTPUT_TOOLS_QWEN3_CODER,
     "<tool_call><function=f><parameter=on>True</parameter><parameter=list>[1, "
     "{\"a\":2}]</parameter><parameter=maybe>None</parameter><parameter=n>many</parameter>"
     "<parameter=more>3</parameter></function></tool_call>",
     "T0(f|{\"on\": true, \"list\": [1, {\"a\":2}], \"maybe\": null, \"n\": \"many\", \"more\": "
     "\"3\"})"},
    {OUTPUT_TOOLS_QWEN3_CODER,
     "<seed:tool_call>\n<function=f>\n<parameter=maybe>x</parameter>\n</function>\n</"
     "seed:tool_call>"
     "<tool_call><function=g></function></tool_call>",
     "T0(f|{\"maybe\": \"x\"})T1(g|{})"},
    {OUTPUT_TOOLS_QWEN3_CODER,
     "<function=f>\n<parameter=n>\n-1.5e3\n</parameter>\n</function>\n<function=g>\n</function> ok",
     "T0(f|{\"n\": -1.5e3})T1(g|{})C( ok)"},
    {OUTPUT_TOOLS_QWEN3_CODER, "<tool_call><function=f><parameter=n>1</parameter></tool_call>x",
     "T0(f|{\"n\": 1})C(x)"},
    {OUTPUT_TOOLS_QWEN3_CODER, "<tool_call><function=f><parameter=path>a</para",
     "T0(f|{\"path\": \"a</para)"},
    {OUTPUT_TOOLS_QWEN3_CODER, "<tool_call><function=f><parameter=list>[1, 2",
     "T0(f|{\"list\": [1, 2)"},
    {OUTPUT_TOOLS_QWEN3_CODER, "<tool_call><function=f><parameter=path>", "T0(f|{\"path\": \")"},
    {OUTPUT_TOOLS_QWEN3_CODER, "<tool_call><function=f><parameter=n>1</parameter> oops",
     "T0(f|{\"n\": 1)C( oops)"},
    {OUTPUT_TOOLS_QWEN3_CODER, "<tool_call><function=f>oops", "C(<tool_call><function=f>oops)"},
    {OUTPUT_TOOLS_QWEN3_CODER, "<tool_call>{}<tool_call><function=g></function>",
     "C(<tool_call>{})T0(g|{})"},
    {OUTPUT_TOOLS_QWEN3_CODER, "a <func", "C(a <func)"},
    /* GLM */
    {OUTPUT_TOOLS_GLM45,
     "<think></think>Wait.<tool_call>f\n<arg_key>path</arg_key>\n<arg_value>a "
     "\"b\"\n</arg_value>\n<arg_key>n</arg_key>\n<arg_value>7</arg_value>\n</tool_call>\n",
     "C(Wait.)T0(f|{\"path\": \"a \\\"b\\\"\\n\", \"n\": 7})"},
    {OUTPUT_TOOLS_GLM45,
     "<tool_call>f<arg_key>on</arg_key><arg_value>false</arg_value></tool_call><tool_call>g</"
     "tool_call>!",
     "T0(f|{\"on\": false})T1(g|{})C(!)"},
    {OUTPUT_TOOLS_GLM45, "<tool_call>f<arg_key>n</arg_key>", "T0(f|{)C(<arg_key>n</arg_key>)"},
    {OUTPUT_TOOLS_GLM45, "<tool_call>no call", "C(<tool_call>no call)"},
    /* MiniMax M2 */
    {OUTPUT_TOOLS_MINIMAX,
     "So.\n<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"path\">a < "
     "b</parameter>\n<parameter name=\"n\">12</parameter>\n<parameter "
     "name=\"list\">[1, {\"a\":2}]</parameter>\n</invoke>\n<invoke "
     "name=\"g\">\n</invoke>\n</minimax:tool_call>",
     "C(So.\n)T0(f|{\"path\": \"a < b\", \"n\": 12, \"list\": [1, {\"a\":2}]})T1(g|{})"},
    {OUTPUT_TOOLS_MINIMAX,
     "<invoke name=\"f\"><parameter name=\"path\">\nx\n</parameter></invoke> ok",
     "T0(f|{\"path\": \"x\"})C( ok)"},
    {OUTPUT_TOOLS_MINIMAX, "<minimax:tool_call><invoke name=\"f\"><parameter name=\"path\">a</para",
     "T0(f|{\"path\": \"a</para)"},
    {OUTPUT_TOOLS_MINIMAX, "<minimax:tool_call>none</minimax:tool_call>",
     "C(<minimax:tool_call>none</minimax:tool_call>)"},
    {OUTPUT_TOOLS_MINIMAX, "<invoke name=\"f\"><parameter=n>1</parameter></invoke>",
     "C(<invoke name=\"f\"><parameter=n>1</parameter></invoke>)"},
    {OUTPUT_TOOLS_MINIMAX, "see <invoke", "C(see <invoke)"},
    /* Granite 3, Phi-4 mini */
    {OUTPUT_TOOLS_GRANITE,
     "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": "
     "{}}]",
     "T0(f|{\"a\": 1})T1(g|{})"},
    {OUTPUT_TOOLS_GRANITE,
     "ok <|tool_call|> [{\"name\": \"f\", \"arguments\": {}}] <|/tool_call|>!",
     "C(ok )T0(f|{})C(!)"},
    {OUTPUT_TOOLS_GRANITE, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]\n\nDone.",
     "T0(f|{})C(\n\nDone.)"},
    {OUTPUT_TOOLS_GRANITE, "functools[{\"name\": \"f\", \"arguments\": {\"a\": \"b\"}}]",
     "T0(f|{\"a\": \"b\"})"},
    {OUTPUT_TOOLS_GRANITE, "functools.wraps(f)", "C(functools.wraps(f))"},
    {OUTPUT_TOOLS_GRANITE, "<|tool_call|>none", "C(<|tool_call|>none)"},
    {OUTPUT_TOOLS_GRANITE, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1<|/tool_call|>",
     "T0(f|{\"a\": 1)"},
    /* Kimi K2 */
    {OUTPUT_TOOLS_KIMI,
     "Hi<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"
     "\"a\": 1}"
     "<|tool_call_end|><|tool_call_begin|>functions.g.h:12<|tool_call_argument_begin|>{}<|tool_"
     "call_end|>"
     "<|tool_calls_section_end|>",
     "C(Hi)T0(f:functions.f:0|{\"a\": 1})T1(g.h:functions.g.h:12|{})"},
    {OUTPUT_TOOLS_KIMI, "<|tool_call_begin|>f<|tool_call_argument_begin|>{}<|tool_call_end|>x",
     "T0(f:f|{})C(x)"},
    {OUTPUT_TOOLS_KIMI,
     "<|tool_call_begin|>f:1<|tool_call_argument_begin|>{\"a\":1<|tool_call_end|><|tool_calls_"
     "section_end|>",
     "T0(f:f:1|{\"a\":1)"},
    {OUTPUT_TOOLS_KIMI, "<|tool_call_begin|>f:1{}", "C(<|tool_call_begin|>f:1{})"},
    {OUTPUT_TOOLS_KIMI, "<|tool_calls_section_begin|>no", "C(<|tool_calls_section_begin|>no)"},
    /* GLM-4 */
    {OUTPUT_TOOLS_GLM4, "f\n{\"a\": 1}", "T0(f|{\"a\": 1})"},
    {OUTPUT_TOOLS_GLM4, "\nget_it\n{\"a\": 1}\n", "T0(get_it|{\"a\": 1})"},
    {OUTPUT_TOOLS_GLM4, "Hello there\n{\"a\": 1}", "C(Hello there\n{\"a\": 1})"},
    {OUTPUT_TOOLS_GLM4, "f\nplain", "C(f\nplain)"},
    {OUTPUT_TOOLS_GLM4, "f", "C(f)"},
    {OUTPUT_TOOLS_GLM4, "f\n{\"a\": ", "C(f\n{\"a\": )"},
    /* harmony */
    {OUTPUT_TOOLS_HARMONY,
     "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Hi!<|"
     "return|>",
     "R(Think.)C(Hi!)"},
    {OUTPUT_TOOLS_HARMONY,
     "<|channel|>analysis<|message|>t<|end|><|start|>assistant<|channel|>commentary to=functions.f "
     "<|constrain|>json<|message|>{\"a\": 1}<|call|>",
     "R(t)T0(f|{\"a\": 1})"},
    {OUTPUT_TOOLS_HARMONY, " to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
     "T0(f|{})"},
    {OUTPUT_TOOLS_HARMONY,
     "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant "
     "to=functions.f<|channel|>commentary"
     "<|message|> {\"a\":[1]}<|call|><|start|>assistant<|channel|>final<|message|>ok",
     "C(I look.)T0(f|{\"a\":[1]})C(ok)"},
    {OUTPUT_TOOLS_HARMONY, "<|channel|>analysis to=python<|message|>print(1)<|call|>",
     "R(print(1))"},
    {OUTPUT_TOOLS_HARMONY, "<|channel|>commentary to=functions.f<|message|>{\"a\": oops<|call|>x",
     "T0(f|{\"a\": )C(oopsx)"},
    {OUTPUT_TOOLS_HARMONY, "<|channel|>commentary to=functions.f<|message|>{\"a\": 1<|call|>",
     "T0(f|{\"a\": 1)"},
    {OUTPUT_TOOLS_HARMONY, "no header < at all<|end|>", "C(no header < at all)"},
    {OUTPUT_TOOLS_HARMONY, "<|channel|>final", "C(<|channel|>final)"},
    {OUTPUT_TOOLS_HARMONY, "<|channel|>analysis<|message|>a<|channel|>final<|message|>b",
     "R(a)C(b)"},
    {OUTPUT_TOOLS_HARMONY, "<|message|>a <|retur", "C(a <|retur)"},
    /* Gemma 4 */
    {OUTPUT_TOOLS_GEMMA4,
     "Look.<|tool_call>call:f{path:<|\"|>a "
     "\"b\"\\\n<|c<|\"|>,n:-1.5e3,on:true,list:[1,<|\"|>x,}<|\"|>,"
     "{a:null,b:[]},{}]}<tool_call|><|tool_call>call:g{}<tool_call|>",
     "C(Look.)T0(f|{\"path\":\"a "
     "\\\"b\\\"\\\\\\n<|c\",\"n\":-1.5e3,\"on\":true,\"list\":[1,\"x,}\","
     "{\"a\":null,\"b\":[]},{}]})T1(g|{})"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{a:<|\"|><|\"|>}<tool_call|> ok",
     "T0(f|{\"a\":\"\"})C( ok)"},
    {OUTPUT_TOOLS_GEMMA4,
     "<|tool_call>\ncall:f { <|\"|>a b<|\"|> : True , \"c\" : \"x\\n\", d e: word, f: 12 34 , "
     "g:None,\n"
     "h:http://x,i:-} \n<tool_call|>\n",
     "T0(f|{ \"a b\" : true, \"c\" : \"x\\n\", \"d e\": \"word\", \"f\": \"12 34\", \"g\":null,\n"
     "\"h\":\"http://x\",\"i\":\"-\"})"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{a:1}x", "T0(f|{\"a\":1})C(x)"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{a:1<tool_call|>x", "T0(f|{\"a\":1)C(x)"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{a:<|\"|>b<|\"|><tool_call|>", "T0(f|{\"a\":\"b\")"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{a:<|\"|>b<|\"", "T0(f|{\"a\":\"b<|\\\")"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{a:12", "T0(f|{\"a\":)C(12)"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{a:[1,<|", "T0(f|{\"a\":[1,)C(<|)"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{a:1,}<tool_call|>",
     "T0(f|{\"a\":1,)C(}<tool_call|>)"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{a}", "T0(f|{)C(a})"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{a:}", "T0(f|{\"a\":)C(})"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{\"a\":\"\\x\"}", "T0(f|{\"a\":\"\\)C(x\"})"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{", "T0(f|{)"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f(a)", "C(<|tool_call>call:f(a))"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f", "C(<|tool_call>call:f)"},
    {OUTPUT_TOOLS_GEMMA4, "<|tool_call><|tool_call>call:f{}", "C(<|tool_call>)T0(f|{})"},
    {OUTPUT_TOOLS_GEMMA4, "a <|tool_c", "C(a <|tool_c)"},
    /* Llama 4 */
    {OUTPUT_TOOLS_LLAMA4, "[f(path=\"a b\", n=-1.5e3, on=True), g()]",
     "T0(f|{\"path\": \"a b\", \"n\": -1.5e3, \"on\": true})T1(g|{})"},
    {OUTPUT_TOOLS_LLAMA4,
     "<|python_start|>[f(path='it\\'s \"x\"', list=[1, 'b',], maybe=None)]<|python_end|>",
     "T0(f|{\"path\": \"it's \\\"x\\\"\", \"list\": [1, \"b\"], \"maybe\": null})"},
    {OUTPUT_TOOLS_LLAMA4,
     " [ f ( path = 'a' , o = {'k': {\"x\": (1, 2)}, 3: [] , } , ) , \n g( ) , ] \n",
     "T0(f|{\"path\": \"a\", \"o\": {\"k\": {\"x\": [1, 2]}, \"3\": []}})T1(g|{})"},
    {OUTPUT_TOOLS_LLAMA4,
     "[f(path='\\n\\t\\\\\\x41\\u00e9\\U0001F600\\101\\0\\\n\\q\\xz\xc3\xa9\n')]",
     "T0(f|{\"path\": \"\\n\\u0009\\\\\\u0041\\u00e9\\ud83d\\ude00\\u0041\\u0000\\\\q\\\\xz\xc3\xa9"
     "\\n\"})"},
    {OUTPUT_TOOLS_LLAMA4, "[f(n=word, on=false, o=5.)]",
     "T0(f|{\"n\": \"word\", \"on\": false, \"o\": \"5.\"})"},
    {OUTPUT_TOOLS_LLAMA4, "Look: <|python_start|>[g()] ok", "C(Look: )T0(g|{})C( ok)"},
    {OUTPUT_TOOLS_LLAMA4, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "T0(f|{\"a\": 1})"},
    {OUTPUT_TOOLS_LLAMA4,
     "{\"name\": \"f\", \"parameters\": {}}{\"name\": \"g\", \"parameters\": {}}",
     "T0(f|{})T1(g|{})"},
    {OUTPUT_TOOLS_LLAMA4, "<|python_start|>{\"name\": \"f\", \"parameters\": {}}<|python_end|>\n",
     "T0(f|{})"},
    {OUTPUT_TOOLS_LLAMA4,
     "<|python_start|><|python_end|>{\"name\": \"f\", \"parameters\": {\"a\": [",
     "T0(f|{\"a\": [)"},
    {OUTPUT_TOOLS_LLAMA4, "<|python_start|> <|python_end|> [g()]", "T0(g|{})"},
    {OUTPUT_TOOLS_LLAMA4, "[f(path='b", "T0(f|{\"path\": \"b)"},
    {OUTPUT_TOOLS_LLAMA4, "[f(path='b\\", "T0(f|{\"path\": \"b)C(\\)"},
    {OUTPUT_TOOLS_LLAMA4, "[f(path='b') oops", "T0(f|{\"path\": \"b\"})C( oops)"},
    {OUTPUT_TOOLS_LLAMA4, "[f(path='b'), 5]", "T0(f|{\"path\": \"b\"})C(, 5])"},
    {OUTPUT_TOOLS_LLAMA4, "[f(path='b'", "T0(f|{\"path\": \"b\")"},
    {OUTPUT_TOOLS_LLAMA4, "[f(n=1, 2)]", "T0(f|{\"n\": 1, )C(2)])"},
    {OUTPUT_TOOLS_LLAMA4, "[f(n=dict(x=1))]", "T0(f|{\"n\": )C(dict(x=1))])"},
    {OUTPUT_TOOLS_LLAMA4, "[f(n=[1}])]", "T0(f|{\"n\": [)C(1}])])"},
    {OUTPUT_TOOLS_LLAMA4, "[f(n=)]", "T0(f|{\"n\": )C()])"},
    {OUTPUT_TOOLS_LLAMA4, "[f(n=,)]", "T0(f|{\"n\": )C(,)])"},
    {OUTPUT_TOOLS_LLAMA4, "[f(5)]", "C([f(5)])"},
    {OUTPUT_TOOLS_LLAMA4, "[a link](http://x)", "C([a link](http://x))"},
    {OUTPUT_TOOLS_LLAMA4, "[1, 2]", "C([1, 2])"},
    {OUTPUT_TOOLS_LLAMA4, "{\"answer\": 42}", "C({\"answer\": 42})"},
    {OUTPUT_TOOLS_LLAMA4, "<|python_start|>print(1)<|python_end|>",
     "C(<|python_start|>print(1)<|python_end|>)"},
    {OUTPUT_TOOLS_LLAMA4, "[f(n=1", "T0(f|{\"n\": )C(1)"},
    {OUTPUT_TOOLS_LLAMA4, "[f(", "C([f()"},
    {OUTPUT_TOOLS_LLAMA4, "a <|python_st", "C(a <|python_st)"},
    {OUTPUT_TOOLS_AUTO, "ok <|python_start|>[g()]<|python_end|>", "C(ok )T0(g|{})"},
    /* plain JSON */
    {OUTPUT_TOOLS_JSON, "```json\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n```",
     "T0(f|{\"a\": 1})"},
    {OUTPUT_TOOLS_JSON, "```tool_code\n[{\"name\": \"f\", \"parameters\": {}}]\n``` done",
     "T0(f|{})C( done)"},
    {OUTPUT_TOOLS_JSON, "```json\n{\"answer\": 42}\n```", "C(```json\n{\"answer\": 42}\n```)"},
    {OUTPUT_TOOLS_JSON, "```python\nprint(1)\n```", "C(```python\nprint(1)\n```)"},
    {OUTPUT_TOOLS_JSON, "```sh -x", "C(```sh -x)"},
    {OUTPUT_TOOLS_JSON, "\n{\"name\": \"f\", \"arguments\": {}}\n", "T0(f|{})"},
    {OUTPUT_TOOLS_JSON,
     "[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]",
     "T0(f|{})T1(g|{})"},
    {OUTPUT_TOOLS_JSON, "{\"name\": \"f\"}", "C({\"name\": \"f\"})"},
    {OUTPUT_TOOLS_JSON, "{\"name\": \"Bob\", \"arguments\": {}, \"age\": 3}",
     "C({\"name\": \"Bob\", \"arguments\": {}, \"age\": 3})"},
    {OUTPUT_TOOLS_JSON, "[1, 2]", "C([1, 2])"},
    {OUTPUT_TOOLS_JSON, "  plain", "C(  plain)"},
    /* all of them */
    {OUTPUT_TOOLS_AUTO, "<think>x</think>\n[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}]",
     "R(x)C(\n)T0(f|{})"},
    {OUTPUT_TOOLS_AUTO, "<tool_call>{\"name\": \"f\"}</tool_call>", "T0(f|{})"},
    {OUTPUT_TOOLS_AUTO, "[{\"name\": \"f\", \"arguments\": {}}] done", "T0(f|{})C( done)"},
    {OUTPUT_TOOLS_AUTO, "[TOO", "C([TOO)"},
    {OUTPUT_TOOLS_AUTO, "<tool_call>\n<function=f>\n</function>\n</tool_call>", "T0(f|{})"},
    {OUTPUT_TOOLS_AUTO,
     "<tool_call>f\n<arg_key>path</arg_key>\n<arg_value></arg_value></tool_call>",
     "T0(f|{\"path\": \"\"})"},
    {OUTPUT_TOOLS_AUTO, "<|tool_call>call:f{n:1}<tool_call|>", "T0(f|{\"n\":1})"},
    {OUTPUT_TOOLS_AUTO, "<tool_call>neither", "C(<tool_call>neither)"},
};

#endif
