"""The command line of `ingot`: help, errors, exit codes; no server is needed."""
import json
import os
import re
import shutil
import socket
import subprocess

import gguf
from cli_tools import BIN, INGOT, Terminal, ingot, ok
import tap
import temp_dir
from cluster import DEMO, ROOT

COMMANDS = ["serve", "drain", "run", "chat", "generate", "embed", "rerank", "status", "models", "ping", "bench", "doctor",
            "inspect", "tokenize", "detokenize", "template", "quantize", "replay"]
NO_SERVER = "ipc:///tmp/ingot-no-server-here"


@tap.case
def help_of_all_commands():
    table = ok("--help")
    assert ok("help") == table
    for c in COMMANDS + ["version", "help"]:
        assert f"\n  {c} " in table, c
    for c in COMMANDS + ["version"]:
        text = ok(c, "--help")
        assert all(len(line) <= 100 for line in text.splitlines()), c
        assert text.lower().startswith("usage"), (c, text[:80])
        assert "xit codes" in text, c
        assert ok("help", c) == text, c
    assert "ingot replay recompute journal" in ok("replay", "--help")
    assert ok("help", "--help") == ok("help", "help") == table
    assert ok("version").startswith("ingot ")
    assert ok("--version") == ok("version")


@tap.case
def examples_work_as_printed():
    """Those with the demo model; the others need a server at the default endpoint."""
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    n = 0
    for c in ("run", "chat", "tokenize", "detokenize", "template"):
        for line in ok(c, "--help").split("\nExample", 1)[1].splitlines():
            if "demo-model" in line and re.search(r"^  .*\bingot ", line):
                p = subprocess.run(line, shell=True, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120,
                                   stdin=subprocess.DEVNULL)
                assert p.returncode == 0 and (p.stdout or c == "chat"), (line, p)
                n += 1
    assert n >= 10, n


@tap.case
def hints_name_a_command_that_works():
    with temp_dir.folder() as d:
        os.symlink(INGOT, os.path.join(d, "ingot"))
        for path, name in ((os.environ["PATH"], INGOT), (f"/nowhere:{d}", "ingot"), (f"{BIN}:{d}", "ingot")):
            p = ingot("status", "--wath", env={"PATH": path})
            assert f"\n'{name} status --help' explains." in p.stderr, (path, p)
            assert f"\n  {name} serve demo-model --tp 2\n" in ok("help", env={"PATH": path})
            p = ingot("chat", "a", "--connect", "b", env={"PATH": path})
            assert f"\n'{name} chat --help' explains." in p.stderr, (path, p)


@tap.case
def wrong_commands_and_options():
    p = ingot()
    assert p.returncode == 2 and "Serve:" in p.stderr and not p.stdout
    for args, said in [
            (["servee"], "did you mean serve?"),
            (["stats"], "did you mean status?"),
            (["frobnicate"], " help' lists them"),
            (["help", "benhc"], "did you mean bench?"),
            (["serve"], "an argument is missing"),
            (["serve", "a", "b"], "unexpected argument 'b'"),
            (["serve", "a", "--tp", "0"], "--tp 0: it must be between 1 and 1024"),
            (["serve", "a", "--coll", "tcp"], "--coll tcp: it must be one of auto|local|shm|mpi"),
            (["generate", "--promt", "x"], "did you mean --prompt?"),
            (["generate"], "give one of --prompt"),
            (["generate", "--prompt", "a", "--tokens", "1"], "give only one of"),
            (["generate", "--prompt", "a", "--temperature", "warm"], "--temperature warm: not a number"),
            (["generate", "--prompt", "a", "--max-tokens", "-1"], "--max-tokens -1"),
            (["generate", "--prompt", "a", "--max-tokens", "4294967296"], "--max-tokens 4294967296"),
            (["generate", "--prompt", "a", "--seed", "-3"], "--seed -3"),
            (["generate", "--prompt", "a", "--seed", "18446744073709551616"], "a seed is a whole number"),
            (["generate", "--prompt", "a", "--logit-bias", "5"], "write ID=X"),
            (["generate", "--prompt", "a", "--logit-bias", "5=nan"], "not a number after ="),
            (["generate", "--prompt", "a", "--stop-id", "2x"], "--stop-id 2x"),
            (["generate", "--prompt", "a", "--request-id", "x" * 65], "longer than 64"),
            (["generate", "--prompt", "a", "--system", "s"], "--system goes with --message"),
            (["generate", "--tokens", "1 2 x"], "not a token id"),
            (["generate", "--tokens", "99999999999"], "token ids are 0 to"),
            (["generate", "--tokens", " "], "no ids"),
            (["generate", "--chat", "[]"], "not a JSON list of messages"),
            (["generate", "--chat", '[{"role":"user"}'], "not a JSON list of messages"),
            (["generate", "--chat", '[{"a":"}"},]'], "not a JSON list of messages"),
            (["generate", "--chat", '[{}] x'], "not a JSON list of messages"),
            (["generate", "--prompt", "a", "--connect", "http://x"], "http://x"),
            (["chat", "MODEL", "--connect", NO_SERVER], "either MODEL or --connect"),
            (["bench", "--concurrency", "0"], "--concurrency 0"),
            (["inspect"], "an argument is missing"),
            (["tokenize", "--connect", NO_SERVER], "either --text or --text-file"),
            (["tokenize", "--connect", NO_SERVER, "M", "--text", "a"], "give one of MODEL, --tokenizer and --connect"),
            (["tokenize", "--connect", NO_SERVER, "--tokenizer", "F", "--text", "a"], "give one of MODEL"),
            (["tokenize", "--connect", NO_SERVER, "--text", "a", "--explain"], "need MODEL or --tokenizer"),
            (["tokenize", "M", "N", "--text", "a"], "unexpected argument 'N'"),
            (["tokenize", "12", "--text", "a"], "./MODEL"),
            (["detokenize", "--connect", NO_SERVER], "as arguments, by --ids or by --ids-file"),
            (["detokenize", "M", "1", "--ids", "2"], "as arguments, by --ids or by --ids-file"),
            (["detokenize", "M", "--ids-file", "f", "--ids", "2"], "as arguments, by --ids or by --ids-file"),
            (["template", "M"], "give either --message TEXT or --messages FILE"),
            (["template", "M", "--message", "a", "--messages", "-"], "give either --message TEXT"),
            (["template", "M", "--messages", "-", "--system", "a"], "--system goes with --message"),
            (["template", "--message", "a"], "give either MODEL or --template FILE"),
            (["status", "--wath"], "did you mean --watch?")]:
        p = ingot(*args)
        assert p.returncode == 2, (args, p.returncode, p.stderr)
        assert said in p.stderr, (args, p.stderr)
        assert "ingot" in p.stderr.splitlines()[0] and not p.stdout, (args, p.stdout)


@tap.case
def no_server_there():
    p = ingot("generate", "--connect", NO_SERVER, "--prompt", "a", "--json", "--wait-ms", "3500")
    assert "no answer from " + NO_SERVER + " yet; trying for 3.5 s" in p.stderr, p
    p = ingot("generate", "--connect", NO_SERVER, "--prompt", "a", "--json", "--wait-ms", "0")
    assert p.returncode == 3 and "no server answers" in p.stderr and "yet" not in p.stderr, p
    e = json.loads(p.stdout)
    assert e["type"] == "error" and e["retryable"] is True and NO_SERVER in e["detail"], e
    for c in ["status", "ping"]:
        p = ingot(c, "--connect", NO_SERVER)
        assert p.returncode == 3 and not p.stdout and len(p.stderr.splitlines()) == 1, (c, p)


@tap.case
def missing_files():
    p = ingot("generate", "--prompt-file", "/no/such/file")
    assert p.returncode == 1 and "cannot open /no/such/file" in p.stderr, p
    p = ingot("generate", "--chat", "/no/such/file")
    assert p.returncode == 1 and "cannot open /no/such/file" in p.stderr, p
    p = ingot("run", "/no/such/model", "--prompt", "a")
    assert p.returncode != 0 and "/no/such/model" in p.stderr, p
    p = ingot("run", "/no/such/model", "--prompt", "a", "--json")
    e = json.loads(p.stdout)
    assert e["type"] == "error" and e["detail"], p
    p = ingot("serve", "/no/such/model", "--listen", NO_SERVER)
    assert p.returncode == 2 and "/no/such/model" in p.stderr, p


@tap.case
def errors_say_where_a_model_comes_from():
    with temp_dir.folder() as empty, temp_dir.folder() as gguf:
        open(os.path.join(gguf, "m.gguf"), "w").close()
        for path, said in [("/no/such/model", "there is no model at /no/such/model"),
                           (empty, "HuggingFace layout"), (gguf, "m.gguf")]:
            for args in (["run", path, "--prompt", "a"], ["chat", path], ["inspect", path],
                         ["serve", path, "--listen", NO_SERVER]):
                p = ingot(*args)
                assert p.returncode != 0 and said in p.stderr and ".gguf" in p.stderr, (args, p)
                assert not re.search(r"\.c:\d|not_found", p.stderr), (args, p)
        for args in (["tokenize", "/no/such/model", "--text", "a"], ["tokenize", empty, "--text", "a"],
                     ["template", "/no/such/model", "--messages", "-"]):
            p = ingot(*args)
            assert p.returncode == 1 and "HuggingFace layout" in p.stderr, (args, p)
            assert not re.search(r"\.c:\d|not_found", p.stderr) and len(p.stderr.splitlines()) == 1, (args, p)


def foreign_gguf(folder):
    """A model of an architecture and a tokenizer that nothing here knows."""
    path = os.path.join(folder, "foreign.gguf")
    w = gguf.GGUFWriter(path, "wavelet")
    w.add_tokenizer_model("syllables")
    w.add_token_list(["a", "b"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


@tap.case
def the_reason_why_a_model_is_not_served():
    """In the last line and in the JSON, of the coordinator's refusal and of a worker's."""
    with temp_dir.folder() as folder:
        no_weights = os.path.join(folder, "no-weights")
        shutil.copytree(DEMO, no_weights)
        for f in os.listdir(no_weights):
            if f.endswith(".safetensors"):
                os.remove(os.path.join(no_weights, f))
        for path, said in ((foreign_gguf(folder), 'the architecture "wavelet" is not supported'),
                           (no_weights, "has neither model.safetensors nor")):
            for tp in ("1", "2"):
                p = ingot("run", path, "--prompt", "a", "--json", "--tp", tp)
                assert p.returncode == 1 and said in p.stderr.splitlines()[-1], p
                e = json.loads(p.stdout)
                assert e["type"] == "error" and said in e["detail"], e


@tap.case
def a_place_in_the_source_is_for_debug_logs():
    for level, shown in (("info", False), ("debug", True)):
        p = subprocess.run([BIN / "ingot-coordinator", "--model", "/no/such/model", "--log-level", level],
                           capture_output=True, text=True, timeout=tap.LIMIT)
        assert p.returncode == 2 and "there is no model at /no/such/model" in p.stderr, p
        assert bool(re.search(r"not_found at \w+\.c:\d+: ", p.stderr)) == shown, p


@tap.case
def address_in_use():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        ep = f"tcp://127.0.0.1:{s.getsockname()[1]}"
        p = ingot("serve", DEMO, "--listen", ep)
        assert p.returncode == 3 and ep in p.stderr, p


@tap.case
def siblings_are_named_when_missing():
    with temp_dir.folder() as d:
        alone = os.path.join(d, "ingot")
        with open(INGOT, "rb") as f, open(alone, "wb") as out:
            out.write(f.read())
        os.chmod(alone, 0o755)
        for args, sibling in [(["tokenize", "m", "--text", "x"], "ingot-text"),
                              (["inspect", "m"], "ingot-worker"), (["replay", "list", "f"], "ingot-journal"),
                              (["quantize", "m", "o.gguf", "--type", "q8_0"], "ingot-quantize"),
                              (["serve", "m"], "ingot-coordinator")]:
            p = subprocess.run([alone, *args], capture_output=True, text=True, timeout=tap.LIMIT,
                               env={"PATH": "/usr/bin:/bin"})
            assert p.returncode == 1 and sibling in p.stderr, (args, p)


@tap.case
def offline_commands():
    for command in ("tokenize", "detokenize"):
        assert ok(command, "--help") == ok(command, "--connect", NO_SERVER, "--help")
    ids = ok("tokenize", DEMO, "--text", "Hello there").split()
    assert json.loads(ok("tokenize", DEMO, "--text", "Hello there", "--json"))["ids"] == [int(i) for i in ids]
    assert ok("detokenize", DEMO, "--ids", " ".join(ids), "--skip-special") == "Hello there"
    assert ok("detokenize", DEMO, *ids, "--skip-special") == "Hello there"
    assert ok("detokenize", "--tokenizer", DEMO / "tokenizer.json", ",".join(ids), "--skip-special") == "Hello there"
    p = ingot("detokenize", DEMO, "1", "x")
    assert p.returncode == 1 and "'x' is no token id" in p.stderr, p
    for turns in ([("user", "Hi")], [("system", "Be \"brief\"."), ("user", "a\n\\b\tÄ\x01")], [("user", "")]):
        messages = json.dumps([{"role": r, "content": c} for r, c in turns])
        text = ok("template", DEMO, "--messages", "-", stdin=messages)
        given = [w for r, c in turns for w in ({"system": "--system", "user": "--message"}[r], c)]
        assert ok("template", DEMO, *given) == text and all(c in text for _, c in turns), (turns, text)
    t = Terminal("template", DEMO, "--message", "a\x1b[5mb")
    assert "a\\x1b[5mb" in t.rest()
    plan = json.loads(ok("inspect", DEMO, "--tp", "2", "--json"))
    assert [r["rank"] for r in plan["ranks"]] == [0, 1], plan["ranks"]
    for r in plan["ranks"]:
        parts = ("weights", "kv", "scratch", "tables", "step", "backend", "graphs", "collective")
        assert r["total_bytes"] == sum(r[k + "_bytes"] for k in parts), r
    assert ok("inspect", DEMO, "--tp", "4").count("\n   3 ") == 3
    p = ingot("inspect", "/no/such/model")
    assert p.returncode == 3 and "/no/such/model" in p.stderr, p


@tap.case
def doctor_reports():
    p = ingot("doctor", env={"NO_COLOR": "1"})
    found = [line.split()[0] for line in p.stdout.splitlines() if line and line[0] not in " 0123456789"]
    assert len(found) >= 9 and set(found) <= {"ok", "warn", "fail"}, p.stdout
    assert p.returncode == (1 if "fail" in found else 0), p
    assert "\x1b" not in p.stdout and "shared memory" in p.stdout and "MPI launcher" in p.stdout
    alone = ingot("doctor", env={"PATH": "/nowhere"})
    assert "there is no mpirun" in alone.stdout, alone.stdout


tap.main()
