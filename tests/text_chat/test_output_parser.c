/* What models say, split into events: tables of outputs, and the property that the cut does not
 * matter. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/output_parser.h"
#include "common/text/text_buf.h"

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

/* Appends events as text: R(...) C(...) T0(name[:id]|arguments); neighbours of one kind are one. */
struct log {
    struct text_buf text;
    int last; /* kind, -1: none or a call */
    bool in_call;
    size_t n_pieces; /* of arguments */
};

static void put(struct log *log, const char *p, size_t n)
{
    cr_assert_eq(text_buf_append(&log->text, p, n), ST_OK);
}

static void put_text(struct log *log, const char *text)
{
    put(log, text, strlen(text));
}

static void put_call_event(struct log *log, const struct output_event *e)
{
    char head[32];
    cr_assert_eq(log->in_call, e->kind != OUT_CALL_BEGIN, "calls are not nested");
    log->in_call = e->kind != OUT_CALL_END;
    log->last = -1;
    if (e->kind == OUT_CALL_BEGIN) {
        snprintf(head, sizeof head, "T%d(", e->i_call);
        put_text(log, head);
        put(log, e->name, e->n_name);
        put_text(log, e->id ? ":" : "");
        put(log, e->id ? e->id : "", e->n_id);
        put_text(log, "|");
    } else if (e->kind == OUT_CALL_ARGUMENTS) {
        cr_assert_gt(e->n_text, 0);
        put(log, e->text, e->n_text);
        log->n_pieces++;
    } else {
        put_text(log, ")");
    }
}

static void put_event(struct log *log, const struct output_event *e)
{
    if (e->kind != OUT_REASONING && e->kind != OUT_CONTENT) {
        put_call_event(log, e);
        return;
    }
    cr_assert(!log->in_call && e->n_text > 0);
    if (log->last == (int)e->kind) {
        log->text.len--; /* go on within the bracket */
        put(log, e->text, e->n_text);
        put_text(log, ")");
        return;
    }
    log->last = (int)e->kind;
    put_text(log, e->kind == OUT_REASONING ? "R(" : "C(");
    put(log, e->text, e->n_text);
    put_text(log, ")");
}

static void drain(struct output_parser *p, struct log *log)
{
    struct output_event e;
    while (output_parser_next(p, &e))
        put_event(log, &e);
}

/* The log of a text pushed in pieces of the given sizes, again and again.
 * n_sizes 0: all at once. */
static char *run_counted(const struct output_options *o, const char *text, size_t n,
                         const size_t *sizes, size_t n_sizes, size_t *n_pieces)
{
    struct output_parser *p;
    struct log log = {.last = -1};
    cr_assert_eq(output_parser_create(&p, o), ST_OK);
    for (size_t at = 0, i = 0; at < n; i++) {
        size_t size = n_sizes ? sizes[i % n_sizes] : n;
        if (size > n - at)
            size = n - at;
        /* an exact copy, so that a sanitizer sees a read beyond it */
        char *piece = malloc(size ? size : 1);
        memcpy(piece, text + at, size);
        cr_assert_eq(output_parser_push(p, piece, size), ST_OK);
        free(piece);
        drain(p, &log);
        at += size;
    }
    cr_assert_eq(output_parser_finish(p), ST_OK);
    drain(p, &log);
    output_parser_destroy(p);
    cr_assert(!log.in_call);
    put(&log, "", 1);
    *n_pieces = log.n_pieces;
    return log.text.data;
}

static char *run(const struct output_options *o, const char *text, size_t n, const size_t *sizes,
                 size_t n_sizes)
{
    size_t n_pieces;
    return run_counted(o, text, n, sizes, n_sizes, &n_pieces);
}

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

/* For the types of parameters in the formats whose values have none. */
static const char tools_json[] = "[{\"type\":\"function\",\"function\":{\"name\":\"g\"}},{\"name\":"
                                 "\"f\",\"parameters\":{\"properties\":{"
                                 "\"path\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},"
                                 "\"on\":{\"type\":[\"boolean\",\"null\"]},"
                                 "\"list\":{\"type\":\"array\"},\"maybe\":{\"anyOf\":[{\"type\":"
                                 "\"string\"},{\"type\":\"null\"}]}}}}]";

Test(output_parser, table)
{
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct output_options o = {
            .tools = ROWS[i].tools, .reasoning = true, .tools_json = tools_json};
        size_t n = strlen(ROWS[i].text);
        char *whole = run(&o, ROWS[i].text, n, NULL, 0);
        cr_expect_str_eq(whole, ROWS[i].expected, "row %zu: %s\n gives    %s\n expected %s", i,
                         ROWS[i].text, whole, ROWS[i].expected);
        for (size_t size = 1; size < 8; size++) {
            char *cut = run(&o, ROWS[i].text, n, &size, 1);
            cr_expect_str_eq(cut, whole, "row %zu in pieces of %zu gives %s", i, size, cut);
            free(cut);
        }
        free(whole);
    }
}

Test(output_parser, other_think_marks)
{
    struct output_options o = {
        .reasoning = true, .think_open = "[THINK]", .think_close = "[/THINK]"};
    char *got = run(&o, "[THINK]a[/THINK]b", 17, NULL, 0);
    cr_expect_str_eq(got, "R(a)C(b)");
    free(got);
    o = (struct output_options){.reasoning = true, .starts_in_reasoning = true};
    got = run(&o, "a</think>b", 10, NULL, 0);
    cr_expect_str_eq(got, "R(a)C(b)");
    free(got);
    got = run(&o, "<think>a</think>b", 17, NULL, 0);
    cr_expect_str_eq(got, "R(a)C(b)");
    free(got);
    o = (struct output_options){.reasoning = false};
    got = run(&o, "<think>a</think>b", 17, NULL, 0);
    cr_expect_str_eq(got, "C(<think>a</think>b)");
    free(got);
}

/* What is pushed byte by byte is given byte by byte, as long as the arguments last. */
Test(output_parser, arguments_come_while_they_are_written)
{
    static const char *const names[] = {"f", "get weather"};
    static const struct {
        enum output_tools tools;
        const char *text, *expected;
        size_t least;
    } rows[] = {
        {OUTPUT_TOOLS_HERMES,
         "<tool_call>{\"name\":\"f\",\"arguments\":{\"path\":\"0123456789\"}}</tool_call>",
         "T0(f|{\"path\":\"0123456789\"})", 20},
        {OUTPUT_TOOLS_MISTRAL, "[TOOL_CALLS]f[ARGS]{\"path\":\"0123456789\"}",
         "T0(f|{\"path\":\"0123456789\"})", 20},
        {OUTPUT_TOOLS_MISTRAL,
         "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{\"a\":\"0123\"}},{\"name\":\"g\","
         "\"arguments\":{\"a\":\"0123\"}}]",
         "T0(f|{\"a\":\"0123\"})T1(g|{\"a\":\"0123\"})", 24},
        {OUTPUT_TOOLS_DEEPSEEK,
         CALL_BEGIN "function" SEP "f\n```json\n{\"path\":\"0123456789\"}\n```" CALL_END,
         "T0(f|{\"path\":\"0123456789\"})", 20},
        {OUTPUT_TOOLS_GEMMA4, "<|tool_call>call:f{path:<|\"|>0123456789<|\"|>}<tool_call|>",
         "T0(f|{\"path\":\"0123456789\"})", 12},
        {OUTPUT_TOOLS_LLAMA3,
         "<|python_tag|>{\"name\":\"f\",\"parameters\":{\"path\":\"0123456789\"}}",
         "T0(f|{\"path\":\"0123456789\"})", 20},
        {OUTPUT_TOOLS_LLAMA3, "{\"name\":\"f\",\"parameters\":{\"path\":\"0123456789\"}}",
         "T0(f|{\"path\":\"0123456789\"})", 20},
        {OUTPUT_TOOLS_AUTO,
         "{\"name\":\"get\\u0020weather\",\"arguments\":{\"path\":\"0123456789\"}}",
         "T0(get weather|{\"path\":\"0123456789\"})", 20},
        /* no function of that name: it may be an answer in JSON, and its end decides */
        {OUTPUT_TOOLS_AUTO, "{\"name\":\"Bob\",\"arguments\":{\"path\":\"0123456789\"}}",
         "T0(Bob|{\"path\":\"0123456789\"})", 1},
        {OUTPUT_TOOLS_AUTO, "{\"name\":\"Bob\",\"arguments\":{},\"age\":3}",
         "C({\"name\":\"Bob\",\"arguments\":{},\"age\":3})", 0},
        {OUTPUT_TOOLS_AUTO, "{\"name\":\"f\",\"arguments\":{},\"age\":3} x", "T0(f|{})C( x)", 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct output_options o = {.tools = rows[i].tools, .names = names, .n_names = 2};
        size_t one = 1, n_pieces;
        char *got = run_counted(&o, rows[i].text, strlen(rows[i].text), &one, 1, &n_pieces);
        cr_expect_str_eq(got, rows[i].expected, "row %zu: %s", i, got);
        cr_expect(rows[i].least > 1 ? n_pieces >= rows[i].least : n_pieces == rows[i].least,
                  "row %zu: %zu pieces", i, n_pieces);
        free(got);
    }
}

/* Arguments are not held back, so they may be longer than what may be held back. */
Test(output_parser, long_arguments)
{
    struct output_options o = {.tools = OUTPUT_TOOLS_HERMES, .max_call = 48};
    struct text_buf text = {0}, expected = {0};
    const char *head = "<tool_call>{\"name\":\"f\",\"arguments\":", *tail = "}</tool_call>";
    cr_assert_eq(text_buf_append(&text, head, strlen(head)), ST_OK);
    size_t from = text.len;
    cr_assert_eq(text_buf_append(&text, "{\"a\":\"", 6), ST_OK);
    for (int i = 0; i < 5000; i++)
        cr_assert_eq(text_buf_append(&text, "line \\n", 7), ST_OK);
    cr_assert_eq(text_buf_append(&text, "\"}", 2), ST_OK);
    cr_assert_eq(text_buf_append(&expected, "T0(f|", 5), ST_OK);
    cr_assert_eq(text_buf_append(&expected, text.data + from, text.len - from), ST_OK);
    cr_assert_eq(text_buf_append(&expected, ")", 2), ST_OK);
    cr_assert_eq(text_buf_append(&text, tail, strlen(tail)), ST_OK);
    for (size_t size = 1; size < 5000; size = size * 3 + 1) {
        char *got = run(&o, text.data, text.len, &size, 1);
        cr_expect_str_eq(got, expected.data);
        free(got);
    }
    text_buf_free(&text);
    text_buf_free(&expected);
}

Test(output_parser, too_long_a_call_is_content)
{
    struct output_options o = {.tools = OUTPUT_TOOLS_HERMES, .max_call = 40};
    const char
        *fits = "<tool_call>{\"name\": \"f\"}</tool_call>",
        *long_one =
            "<tool_call>{\"arguments\": {\"a\": \"bbbbbbbbbb\"}, \"name\": \"f\"}</tool_call>";
    for (size_t size = 1; size < 80; size += 13) {
        char *got = run(&o, fits, strlen(fits), &size, 1);
        cr_expect_str_eq(got, "T0(f|{})");
        free(got);
        got = run(&o, long_one, strlen(long_one), &size, 1);
        cr_expect(strncmp(got, "C(", 2) == 0 && strlen(got) == strlen(long_one) + 3, "%s", got);
        free(got);
    }
}

Test(output_parser, refuses_wrong_use)
{
    struct output_parser *p;
    struct output_options o = {.reasoning = true, .think_open = ""};
    enum output_tools tools;
    cr_expect_eq(output_parser_create(&p, &o), ST_RANGE);
    cr_expect_null(p);
    o = (struct output_options){.tools = (enum output_tools)77};
    cr_expect_eq(output_parser_create(&p, &o), ST_RANGE);
    o = (struct output_options){0};
    cr_assert_eq(output_parser_create(&p, &o), ST_OK);
    cr_assert_eq(output_parser_finish(p), ST_OK);
    cr_expect_eq(output_parser_push(p, "x", 1), ST_RANGE);
    output_parser_destroy(p);
    output_parser_destroy(NULL);
    cr_expect_eq(output_tools_from_name("mistral", &tools), ST_OK);
    cr_expect_eq(tools, OUTPUT_TOOLS_MISTRAL);
    cr_expect_eq(output_tools_from_name("nothing", &tools), ST_NOT_FOUND);
    cr_expect(strstr(status_text(), "hermes"));
}

/* --- the cut does not matter --- */

static uint64_t next_random(uint64_t *s) /* xorshift64* */
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * 2685821657736338717u;
}

static const char *const PIECES[] = {
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "<|python_tag|>",
    CALLS_BEGIN,
    CALLS_END,
    CALL_BEGIN,
    CALL_END,
    SEP,
    "<|tool_call|>",
    "<|/tool_call|>",
    "functools",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "functions.f:0",
    "<|start|>assistant",
    "<|channel|>",
    "analysis",
    "final",
    " to=functions.f ",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "<|tool_call>",
    "call:f{",
    "<|tool_call>call:f{a:",
    "<|\"|>",
    "a:",
    "<tool_call|>",
    "```tool_code\n",
    "function",
    "\n```json\n",
    "\n```",
    "{\"name\": \"f\", ",
    "{\"name\": \"f\", \"arguments\": {\"a\": ",
    "\"function\": {",
    "\"id\": \"x\", ",
    "\"arguments\": {}}",
    "\"parameters\": {\"a\": 1}}",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    ";",
    " ",
    "\n",
    "f",
    "1",
    "true",
    "<",
    "<t",
    "[T",
    "text",
    "\xc3\xa9",
    "{\"name\":\"g\",\"arguments\":{\"x\":[1,{\"y\":null}]}}",
};

Test(output_parser, any_cut_gives_the_same_events)
{
    static const char *const names[] = {"f"};
    uint64_t seed = 20250115;
    char text[2000];
    for (int round = 0; round < 20000; round++) {
        size_t n = 0, n_pieces = 1 + next_random(&seed) % 14, sizes[5];
        for (size_t i = 0; i < n_pieces; i++) {
            const char *piece = PIECES[next_random(&seed) % ARRAY_LEN(PIECES)];
            memcpy(text + n, piece, strlen(piece));
            n += strlen(piece);
        }
        for (size_t i = 0; i < 5; i++)
            sizes[i] = 1 + next_random(&seed) % 9;
        struct output_options o = {
            .tools = (enum output_tools)(next_random(&seed) % (OUTPUT_TOOLS_AUTO + 1)),
            .reasoning = next_random(&seed) % 2,
            .starts_in_reasoning = next_random(&seed) % 4 == 0,
            .names = names,
            .n_names = next_random(&seed) % 2,
            .max_call = next_random(&seed) % 3 ? 0 : 20 + next_random(&seed) % 60};
        char *whole = run(&o, text, n, NULL, 0), *cut = run(&o, text, n, sizes, 5);
        cr_assert_str_eq(cut, whole, "round %d: %.*s\n whole %s\n cut   %s", round, (int)n, text,
                         whole, cut);
        free(whole);
        free(cut);
    }
}

Test(output_parser, without_marks_nothing_is_lost)
{
    uint64_t seed = 7;
    char text[2000], expected[2100];
    struct output_options o = {.tools = OUTPUT_TOOLS_NONE};
    for (int round = 0; round < 2000; round++) {
        size_t n = 0, size = 1 + next_random(&seed) % 20;
        for (size_t i = 0; i < 10; i++) {
            const char *piece = PIECES[next_random(&seed) % ARRAY_LEN(PIECES)];
            memcpy(text + n, piece, strlen(piece));
            n += strlen(piece);
        }
        snprintf(expected, sizeof expected, "C(%.*s)", (int)n, text);
        char *got = run(&o, text, n, &size, 1);
        cr_assert_str_eq(got, expected);
        free(got);
    }
}
