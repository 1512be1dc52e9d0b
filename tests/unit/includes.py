#!/usr/bin/env python3
"""Dependencies point one way: between folders, between modules, and between the calls of files.

A module is X.c or X.cu with X.h.  Includes are read from the sources.  Calls are read from the objects of a build:
module A calls module B when an object of A has an undefined symbol that an object of B defines; calls through a
function pointer are not seen.  The build folder is the parent of $INGOT_BIN (set by CTest), else build/release.
"""
import collections
import functools
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import tap  # noqa: E402

# Folders of the top level, and those whose headers they may include.
TOP = {
    "common": "",
    "backends": "common",
    "collectives": "backends common",
    "worker": "collectives backends common",
    "coordinator": "common",
    "client": "common",
}

# Every folder with sources, and the other folders that it includes: exactly these.
FOLDERS = {
    "common": "",
    "common/digest": "common common/formats",
    "common/formats": "common common/json",
    "common/grammar": "common common/json",
    "common/json": "common common/text",
    "common/text": "common",
    "common/wire": "common",
    "backends": "common backends/cpu backends/cuda backends/metal",
    "backends/cpu": "common backends",
    "backends/cuda": "common backends backends/gpu",
    "backends/metal": "common backends backends/gpu",
    "backends/gpu": "backends",
    "collectives": "common backends backends/cuda",
    "worker": "common common/digest common/formats common/wire backends collectives worker/embed worker/load worker/model worker/sample worker/step",
    "worker/embed": "common common/formats backends worker/load",
    "worker/engine": "common worker/model",
    "worker/load": "common common/formats backends",
    "worker/model": "common common/formats backends collectives worker/load",
    "worker/quantize": "common common/formats common/text worker/engine worker/load worker/model",
    "worker/sample": "common common/grammar worker/step",
    "worker/step": "common backends",
    "coordinator": "common common/digest common/formats common/grammar common/json common/text common/wire coordinator/jinja coordinator/journal "
                   "coordinator/sched coordinator/tokenizer",
    "coordinator/jinja": "common common/text",
    "coordinator/journal": "common coordinator/sched",
    "coordinator/sched": "common",
    "coordinator/tokenizer": "common common/formats common/text",
    "coordinator/tools": "common common/digest common/formats common/text common/wire coordinator coordinator/jinja "
                         "coordinator/journal coordinator/tokenizer",
    "client/cli": "common common/json common/text common/wire client/hub client/keys client/lib",
    "client/gateway": "common common/json common/text client/keys client/lib",
    "client/keys": "common common/json",
    "client/hub": "common",
    "client/lib": "common common/wire",
    "client/pull": "common common/json common/text client/hub",
}

# Cycles between folders that stay, and why.
FOLDER_CYCLES = {
    "backends backends/cpu backends/cuda backends/gpu backends/metal":
        "backend.h is the interface that every backend implements; registry.c lists the backends; limits.h is kernels', too",
}

# Cycles between modules that stay, and why.
MODULE_CYCLES = {
    "client/gateway/http_conn client/gateway/http_server":
        "http_conn.h holds the server and its connections, which one state machine moves",
}

# Cycles of calls that stay, because the data or the language is recursive.
RECURSION = {
    "common/grammar/schema common/grammar/schema_array common/grammar/schema_keywords common/grammar/schema_object "
    "common/grammar/schema_values":
        "a schema's items and properties are schemas",
    "common/text/output_calls common/text/output_formats common/text/output_harmony common/text/output_parser_calls":
        "a format's row names the function that reads its calls; harmony's begins a call for each channel",
    "client/gateway/http_conn client/gateway/http_reply client/gateway/http_server":
        "a connection's input makes a reply, whose end lets the connection read on or close and leave the server",
    "coordinator/jinja/call coordinator/jinja/eval coordinator/jinja/exec":
        "an expression calls a macro, whose body is statements, which contain expressions",
    "coordinator/jinja/parse_expr coordinator/jinja/parse_postfix":
        "the arguments of a call and the subscripts of a value are expressions",
    "coordinator/jinja/attr coordinator/jinja/format coordinator/jinja/methods_str":
        "a string's methods are attributes; its method format reads attributes of the arguments",
    "coordinator/jinja/compare coordinator/jinja/dict":
        "two dicts are compared by looking up keys; a key is looked up by comparing",
    "coordinator/jinja/filters coordinator/jinja/filters_seq coordinator/jinja/tests":
        "map and select apply a filter or a test by its name; the test `filter` asks for such a name",
}

SOURCES = (".c", ".cu", ".cpp", ".m")
HEADERS = (".h", ".cuh")


def split(words):
    return set(words.split())


def sources():
    """The paths of all files with code below the folders of TOP."""
    for top in TOP:
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith(SOURCES + HEADERS):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def module(path):
    return os.path.splitext(path)[0]


def read_includes():
    """{file: [(line number, included path)]}, of lines #include "..."."""
    found = {}
    for path in sources():
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            found[path] = [(i, m.group(1)) for i, line in enumerate(f, 1)
                           if (m := re.match(r'\s*#\s*include\s*"([^"]*)"', line))]
    return found


INCLUDES = read_includes()


def cycles(graph):
    """The strongly connected components of {node: nodes} with more than one node (Tarjan 1972), each sorted."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(graph.get(v, ())):
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for v in sorted(graph):
        if v not in index:
            visit(v)
    return found


def check_cycles(graph, allowed, why):
    """graph: {node: {node: reason}}.  Its cycles are those of allowed, no more and no fewer."""
    found = cycles(graph)
    lines = [f"{a} -> {b}: {why(graph[a][b])}" for c in found if " ".join(c) not in allowed
             for a in c for b in c if b in graph.get(a, {})]
    lines += [f"the list has a cycle that is gone: {c}" for c in allowed if c.split() not in found]
    assert not lines, "\n".join(lines)


def includes_between(node):
    """{node: {other node: set of "file includes path"}}, where node(path) names a file's node."""
    graph = collections.defaultdict(dict)
    for path, lines in INCLUDES.items():
        for _, target in lines:
            if node(path) != node(target) and target in INCLUDES:
                graph[node(path)].setdefault(node(target), set()).add(f"{path} includes {target}")
    return graph


@tap.case
def cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"d"}}) == []
    assert cycles({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}}) == [["c", "d", "e"], ["a", "b"]]
    assert cycles({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": {"a"}}) == [["a", "b", "c", "d"]]


@tap.case
def paths_begin_at_the_root():
    bad = []
    for path, lines in INCLUDES.items():
        for line, target in lines:
            if target.endswith(".pb-c.h"):
                if not path.startswith("common/wire/"):
                    bad.append(f"{path}:{line}: only common/wire may include {target}")
            elif "/" not in target:
                bad.append(f'{path}:{line}: "{target}": write the path from the root of the tree')
            elif target not in INCLUDES:
                bad.append(f"{path}:{line}: there is no {target}")
    assert not bad, "\n".join(bad)


@tap.case
def folders_include_their_list():
    used = {os.path.dirname(path): set() for path in INCLUDES}
    bad = []
    for path, lines in INCLUDES.items():
        folder, top = os.path.dirname(path), path.split("/")[0]
        for line, target in lines:
            to = os.path.dirname(target)
            if to in (folder, "") or target not in INCLUDES:
                continue
            used[folder].add(to)
            if to.split("/")[0] not in split(TOP[top]) | {top}:
                bad.append(f"{path}:{line}: {top} must not include {target}")
            elif to not in split(FOLDERS.get(folder, "")):
                bad.append(f"{path}:{line}: {folder} must not include {target}")
    bad += [f"the list lacks {folder}" for folder in used if folder not in FOLDERS]
    for folder, listed in FOLDERS.items():
        bad += [f"the list has {folder} -> {to}, which no file needs"
                for to in sorted(split(listed) - used.get(folder, set()))]
    assert not bad, "\n".join(bad)


@tap.case
def no_cycles_between_folders():
    graph = {folder: dict.fromkeys(split(listed), "in the list") for folder, listed in FOLDERS.items()}
    check_cycles(graph, FOLDER_CYCLES, str)


@tap.case
def no_cycles_between_headers():
    graph = includes_between(str)
    headers = {a: {b: why for b, why in to.items() if b.endswith(HEADERS)}
               for a, to in graph.items() if a.endswith(HEADERS)}
    check_cycles(headers, {}, lambda why: ", ".join(sorted(why)))


@tap.case
def no_cycles_between_modules():
    """A header without a source of its own is no module: what it includes counts for those that include it."""
    graph = includes_between(module)
    modules = {module(path) for path in INCLUDES if path.endswith(SOURCES)}

    def reached(m, through):
        for to, why in graph.get(m, {}).items():
            if to in modules:
                yield to, why
            elif to not in through:
                for end, last in reached(to, through | {to}):
                    yield end, why | last

    modules_needed = {}
    for m in modules:
        modules_needed[m] = {}
        for to, why in reached(m, {m}):
            if to != m:
                modules_needed[m].setdefault(to, set()).update(why)
    check_cycles(modules_needed, MODULE_CYCLES, lambda why: ", ".join(sorted(why)))


def objects():
    """{object file: module} of the build, for the sources below TOP; each of them must have been built."""
    build = os.path.dirname(os.environ.get("INGOT_BIN", os.path.join(ROOT, "build/release/bin")))
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        commands = json.load(f)
    found, missing = {}, set()
    for c in commands:
        path = os.path.relpath(c["file"], ROOT)
        if path.split("/")[0] not in TOP:
            continue
        output = re.search(r" -o (\S+)", c["command"]).group(1)
        where = os.path.join(c["directory"], output)
        if os.path.exists(where):
            found[where] = module(path)
        else:
            missing.add(path)
    missing = {path for path in missing if module(path) not in found.values()}
    assert found and not missing, f"not built in {build}: {' '.join(sorted(missing)) or 'anything'}"
    return found


@functools.cache
def symbols():
    """{module: undefined names}, {name: modules that define it}."""
    built = objects()
    nm = subprocess.run(["nm", "-A", "-g", *built], capture_output=True, text=True, check=True)
    needs, defined = collections.defaultdict(set), collections.defaultdict(set)
    for line in nm.stdout.splitlines():
        where, _, rest = line.partition(":")
        kind, name = rest.split()[-2:]
        if kind == "U":
            needs[built[where]].add(name)
        elif kind not in "VvWw":  # weak: an inline function of C++, in each object that uses it
            defined[name].add(built[where])
    return needs, defined


def read_calls():
    """{module: {called module: names}}."""
    needs, defined = symbols()
    calls = collections.defaultdict(dict)
    for m, names in needs.items():
        for name in names:
            for to in defined.get(name, set()) - {m}:
                calls[m].setdefault(to, set()).add(name)
    assert sum(len(to) for to in calls.values()) > 500, "the objects' symbols were not read"
    return calls


@tap.case
def no_cycles_of_calls():
    check_cycles(read_calls(), RECURSION, lambda names: ", ".join(sorted(names)))


@tap.case
def calls_follow_the_includes():
    """A file calls its own folder and the folders that this includes, directly or through their headers."""
    def reached(folder, found):
        for to in split(FOLDERS[folder]) - found:
            found.add(to)
            reached(to, found)
        return found

    bad = [f"{a} calls {', '.join(sorted(names))} of {b}" for a, to in read_calls().items()
           for b, names in to.items() if os.path.dirname(b) not in reached(os.path.dirname(a), {os.path.dirname(a)})]
    assert not bad, "\n".join(bad)


@tap.case
def a_name_is_defined_once():
    _, defined = symbols()
    bad = [f"{name}: {' '.join(sorted(modules))}" for name, modules in defined.items()
           if len(modules) > 1 and name != "main" and not name.startswith("_")]
    assert not bad, "\n".join(bad)


tap.main()
