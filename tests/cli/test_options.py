"""The options that several programs take: one text in every --help, one definition in the sources, and what
`ingot serve` and `ingot run` were given reaches the coordinator and the workers."""
import json
import os
import pathlib
import re
import shutil
import subprocess

from cli_tools import BIN, INGOT, ok
import tap
import temp_dir
from cluster import DEMO, ROOT, Cluster

HELPS = {"coordinator": [str(BIN / "ingot-coordinator")], "worker": [str(BIN / "ingot-worker")],
         "serve": [INGOT, "serve"], "run": [INGOT, "run"], "chat": [INGOT, "chat"], "inspect": [INGOT, "inspect"]}
# The same word for two things: a worker connects to the coordinator, a client to the server; the model of a
# request is a name, that of a program a path; --json is each command's own format.
OTHER_THINGS = {"connect", "json", "model"}
# Its limits are no limits of its own.
COORDINATOR_DEFAULTS = {"max-seqs", "max-step-tokens"}


def options(command):
    """name -> its text in --help, blanks as one."""
    text = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=tap.LIMIT, check=True).stdout
    found, name = {}, None
    for line in text.splitlines():
        m = re.match(r"  --(\[no-\])?([a-z0-9-]+)(.*)", line)
        if m:
            name = m.group(2)
            assert name not in found, f"{command}: --{name} twice"
            found[name] = m.group(3)
        elif name and line.startswith(" " * 20):
            found[name] += " " + line
        else:
            name = None
    return {n: " ".join(t.split()) for n, t in found.items()}


@tap.case
def an_option_means_the_same_everywhere():
    tables = {program: options(command) for program, command in HELPS.items()}
    n_shared = 0
    of_a_server = set().union(*(tables[p] for p in ("coordinator", "worker", "serve", "inspect")))
    for name in sorted(of_a_server - OTHER_THINGS - {"help", "version"}):
        texts = {p: t[name] for p, t in tables.items() if name in t}
        if name in COORDINATOR_DEFAULTS:
            texts = {p: re.sub(r"\(default \d+;", "(default;", t) for p, t in texts.items()}
        if name == "log-level":  # run and chat are quieter
            texts = {p: re.sub(r"\(default \w+\)", "", t) for p, t in texts.items()}
        assert len(set(texts.values())) == 1, (name, texts)
        n_shared += len(texts) > 1
    assert n_shared >= 35, n_shared
    for name in ("client-grace-ms", "peer-ms", "step-deadline-ms", "first-step-ms", "lease-ms", "silence-ms"):
        assert name in tables["serve"], name


@tap.case
def help_has_groups_and_examples():
    """Groups in --help of what has many options, examples in that of every program."""
    commands = [*HELPS.values(), *([BIN / f"ingot-{p}"] for p in ("text", "journal", "quantize"))]
    for command in commands:
        text = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=tap.LIMIT, check=True).stdout
        groups = re.findall(r"^([A-Z][^:\n]*):$", text, re.M)
        assert re.search(r"Examples?:\n  ingot", text) or command[-1] == "chat", (command, text[-500:])
        assert "xit codes" in text, command
        if text.count("\n  --") > 15:
            assert len(groups) >= 5, (command, groups)
        assert all(len(line) <= 100 for line in text.splitlines()), command


@tap.case
def a_shared_option_is_defined_once():
    table = (ROOT / "common" / "shared_options.c").read_text()
    shared = re.findall(r'\.name = "([a-z0-9-]+)"', table)
    assert len(shared) >= 40 and len(set(shared)) == len(shared), shared
    for folder in ("coordinator", "worker", "client/cli"):
        for path in (ROOT / folder).glob("*.c"):
            for name in re.findall(r'\.name = "([a-z0-9-]+)"', path.read_text()):
                other = (name, path.name) == ("model", "request_options.c")
                assert name not in shared or other, f"{path}: a second definition of --{name}"


# A stand-in for the coordinator and the worker: it notes its arguments.  The coordinator says that it listens;
# the worker's exit code says that starting it again would not help.
FAKE = """#!/bin/sh
printf '%s\\n' "$@" > "{dir}/$(basename "$0").args.new"
mv "{dir}/$(basename "$0").args.new" "{dir}/$(basename "$0").args"
case "$0" in *worker) exit 3;; esac
fd=$(printf '%s\\n' "$@" | sed -n 's/--notify-fd=//p')
eval "echo 'listening ipc://{dir}/nothing' >&$fd"
exec sleep 60
"""


def arguments_of_children(*args):
    """What the coordinator and the worker are given by an `ingot` that is run with args."""
    with temp_dir.folder() as d:
        d = pathlib.Path(d)
        alone = shutil.copy2(INGOT, d / "ingot")
        for name in ("ingot-coordinator", "ingot-worker"):
            (d / name).write_text(FAKE.format(dir=d))
            (d / name).chmod(0o755)
        p = subprocess.run([alone, *map(str, args)], capture_output=True, text=True, timeout=tap.LIMIT)
        assert p.returncode in (1, 2), (p.returncode, p.stderr)
        return [(d / f"{n}.args").read_text().splitlines() for n in ("ingot-coordinator", "ingot-worker")], p


def named(argv):
    return {a.split("=")[0]: a.split("=", 1)[-1] for a in argv}


@tap.case
def serve_passes_on_what_it_is_given():
    # for whom, what: never a default
    cases = [("c", "--listen", "ipc:///tmp/a,ipc:///tmp/b c"), ("cw", "--name", "a name"), ("c", "--drain-ms", "0"),
             ("c", "--client-grace-ms", "5"), ("c", "--slow-client-ms", "1234"), ("c", "--first-step-ms", "77777"),
             ("c", "--step-deadline-ms", "99"), ("c", "--silence-ms", "4000"), ("c", "--heartbeat-ms", "300"),
             ("c", "--group-wait-ms", "500"), ("cw", "--lease-ms", "2000"), ("w", "--peer-ms", "1500"),
             ("w", "--rejoin-ms", "700"),
             ("c", "--max-queued", "7"), ("c", "--max-queued-tokens", "999"), ("c", "--overtake", "5"),
             ("c", "--turn-tokens", "12"), ("c", "--target-itl-ms", "20"), ("c", "--max-step-ms", "30"),
             ("c", "--max-clients", "3"), ("c", "--max-message", "131072"), ("cw", "--max-seqs", "9"),
             ("cw", "--max-step-tokens", "33"),
             ("w", "--max-ctx", "100"), ("w", "--kv-blocks", "55"), ("w", "--block-len", "8"),
             ("w", "--kv-dtype", "bf16"), ("w", "--threads", "3"), ("w", "--coll", "local"), ("w", "--isa", "plain"),
             ("w", "--bind", "none"), ("w", "--numerics", "fast"), ("w", "--graphs", "off"), ("w", "--device", "2"),
             ("w", "--backend", "cuda"), ("w", "--pack-cache", "/tmp/x y"), ("c", "--journal", "/tmp/j"), ("c", "--journal-sync", "each"),
             ("c", "--journal-size", "67108864"), ("c", "--journal-hours", "5"),
             ("cw", "--log-level", "debug")]
    flags = [("c", "--no-prefix-cache", "--prefix-cache"), ("c", "--no-overlap", "--overlap"),
             ("w", "--no-forced-tokens", "--forced-tokens")]
    given = [a for _, name, value in cases for a in (name, value)] + [f for _, f, _ in flags]
    given += ["--allow-remote", "--print-config", "--http", "off"]
    (coordinator, worker), _ = arguments_of_children("serve", DEMO, *given)
    coordinator, worker = named(coordinator), named(worker)
    expected = {"c": {"--model": str(DEMO), "--allow-remote": "true", "--print-config": "true"},
                "w": {"--model": str(DEMO), "--print-config": "true"}}
    for whom, name, value in cases:
        for one in whom:
            expected[one][name] = value
    for whom, _, name in flags:
        expected[whom][name] = "false"
    for got, want, own in [(coordinator, expected["c"],
                            {"--workers", "--notify-fd", "--die-with-parent", "--failure-file"}),
                           (worker, expected["w"], {"--connect", "--die-with-parent", "--failure-file", "--launch"})]:
        assert own <= set(got), got
        assert {k: v for k, v in got.items() if k not in own} == want, got
    assert coordinator["--workers"] == worker["--connect"]


@tap.case
def defaults_are_not_passed_on():
    (coordinator, worker), _ = arguments_of_children("serve", DEMO, "--http", "off")
    assert set(named(coordinator)) == {"--model", "--workers", "--notify-fd", "--die-with-parent", "--failure-file", "--max-seqs", "--journal",
                                       "--max-step-tokens"}, coordinator
    assert set(named(worker)) == {"--model", "--connect", "--die-with-parent", "--failure-file", "--launch"}, worker
    (coordinator, worker), _ = arguments_of_children("run", DEMO, "--prompt", "a", "--first-step-ms", "5000")
    coordinator, worker = named(coordinator), named(worker)
    assert coordinator["--first-step-ms"] == "5000" and coordinator["--listen"].startswith("ipc://"), coordinator
    assert coordinator["--log-level"] == worker["--log-level"] == "warn"
    assert coordinator["--max-seqs"] == worker["--max-seqs"] == "16"
    assert "--no-warm-up" in worker, worker


@tap.case
def a_server_for_one_request_is_not_warmed_up():
    p = subprocess.run([INGOT, "run", DEMO, "--prompt", "a", "--max-tokens", "1", "--log-level", "info"], capture_output=True,
                       text=True, timeout=tap.LIMIT)
    assert p.returncode == 0 and ", no first steps:" in p.stderr, p


@tap.case
def options_that_do_not_fit_are_refused():
    p = subprocess.run([INGOT, "serve", DEMO, "--name", "x" * 20000], capture_output=True, text=True, timeout=tap.LIMIT)
    assert p.returncode == 1 and "too long" in p.stderr, p
    p = subprocess.run([INGOT, "inspect", DEMO, "--pack-cache", "x" * 20000], capture_output=True, text=True,
                       timeout=tap.LIMIT)
    assert p.returncode == 2 and "too long" in p.stderr, p


@tap.case
def print_config_shows_what_is_in_effect():
    for program, extra in [("ingot-coordinator", ["--drain-ms", "5"]),
                           ("ingot-worker", ["--connect", "ipc:///nowhere/x", "--peer-ms", "500"])]:
        p = subprocess.run([BIN / program, "--model", "/no/such/model", "--print-config", *extra],
                           capture_output=True, text=True, timeout=tap.LIMIT)
        assert p.returncode in (2, 3), p
        lines = p.stderr.splitlines()
        assert lines[0].startswith(program), lines[0]
        name, value = extra[-2:]
        assert f"{name[2:]} = {value}" in lines and "model = /no/such/model" in lines, p.stderr
        assert "lease-ms = 10000 (default)" in lines and "log-level = info (default)" in lines, p.stderr


@tap.case
def ranks_that_tp_does_not_count():
    p = subprocess.run([BIN / "ingot-worker", "--model", DEMO, "--connect", "ipc:///nowhere/x", "--tp", "2"],
                       capture_output=True, text=True, timeout=tap.LIMIT)
    assert p.returncode == 2 and "--tp 2: this group has 1 rank" in p.stderr, p
    assert len(json.loads(ok("inspect", DEMO, "--tp", "2", "--json"))["ranks"]) == 2


@tap.case
def serve_warns_of_ranks_with_other_bits():
    for tp in (1, 2, 3, 4, 5, 6, 8, 16):
        p = subprocess.run([INGOT, "serve", "/no/such/model", "--tp", str(tp), "--listen", "ipc:///tmp/ingot-nowhere"],
                           capture_output=True, text=True, timeout=tap.LIMIT)
        warned = f"--tp {tp}: answers differ in bits from those of 1, 2, 4 and 8 ranks" in p.stderr
        assert p.returncode == 2 and warned == (tp not in (1, 2, 4, 8)), (tp, p.stderr)


@tap.case
def serve_warns_of_ranks_that_share_cores():
    one = {min(os.sched_getaffinity(0))}
    for tp, groups in ((1, 1), (2, 1), (1, 2)):
        p = subprocess.run([INGOT, "serve", "/no/such/model", "--tp", str(tp), "--groups", str(groups), "--listen",
                            "ipc:///tmp/ingot-nowhere"], capture_output=True, text=True, timeout=tap.LIMIT,
                           preexec_fn=lambda: os.sched_setaffinity(0, one))
        assert p.returncode == 2 and ("2 ranks share 1 core" in p.stderr) == (tp * groups == 2), (tp, groups, p.stderr)


@tap.case
def version_of_every_program_and_command():
    programs = {name: name for name in ("ingot", "ingot-coordinator", "ingot-worker", "ingot-text", "ingot-journal",
                                        "ingot-quantize")}
    commands = [[BIN / p, "--version"] for p in programs]
    table = re.findall(r"^  ([a-z-]+) {2,}", ok("--help"), re.M)
    assert len(table) == 23, table
    commands += [[INGOT, c, "--version"] for c in table]
    commands += [[BIN / "ingot-text", c, "--version"] for c in ("tokenize", "detokenize", "template")]
    builds = set()
    for c in commands:
        p = subprocess.run(c, capture_output=True, text=True, timeout=tap.LIMIT)
        lines = p.stdout.splitlines()
        assert p.returncode == 0 and not p.stderr and len(lines) >= 2, (c, p)
        assert re.fullmatch(r"ingot(-[a-z]+| [a-z]+)? \d+\.\d+\.\d+", lines[0]), (c, lines)
        builds.add(lines[1])
    assert len(builds) == 1, builds
    build = builds.pop()
    assert re.match(r"build: .*(GNU|Clang) \d+.*, (no )?MPI, (no )?CUDA$", build), build
    with Cluster(DEMO, threads=1) as c:
        version = re.search(r"\d+\.\d+\.\d+", ok("--version")).group()
        assert c.clients[0].welcome.server == f"ingot {version} ({build.removeprefix('build: ')})", c.clients[0].welcome


tap.main()
