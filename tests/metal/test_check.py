"""check.sh with programs that pass, fail, hang, die and are missing; and with the real ones' command lines."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import tap  # noqa: E402

BIN = pathlib.Path(os.environ.get("INGOT_BIN", HERE.parents[1] / "build/release/bin"))
GOOD = "echo 'ok 1 - fine'\necho '# fact speed 3 GB/s'\necho 1..1\n"
PROGRAMS = ["probe", "device", "ops", "model", "bench"]
RUN = ["probe", "device", "second-start", "simple", "ops", "same-bytes", "matrices", "matrices-same", "golden", "bench", "matrices-bench", "stories"]  # of PROGRAMS; serve runs in metal_check
ALL = ",".join(["configure", "build", *RUN])


def check(*args):
    with tempfile.TemporaryDirectory() as logs:
        return subprocess.run([HERE / "check.sh", *map(str, args)], capture_output=True, text=True, timeout=tap.LIMIT,
                              env={**os.environ, "TMPDIR": logs})


class Programs:
    """A folder with a script for each program; all are good but those that are given."""

    def __init__(self, **other):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        for name in PROGRAMS:
            text = other.get(name, GOOD)
            if text is not None:
                (self.path / f"metal_{name}_double").write_text("#!/bin/sh\n" + text)
                (self.path / f"metal_{name}_double").chmod(0o755)

    def check(self, *args):
        out = self.path / "result.json"
        r = check("--double", "--bin", self.path, "--json", out, *([] if "--steps" in args else ["--steps", ALL]), *args)
        rows = json.loads(out.read_text())["steps"] if out.exists() else []
        return r, {row["step"]: row for row in rows}


def verdicts(rows):
    return {name: rows[name]["verdict"] for name in rows}


@tap.case
def all_good():
    r, rows = Programs().check()
    assert r.returncode == 0 and "every step passed" in r.stdout, r.stdout
    assert list(rows) == ["configure", "build", *RUN], rows
    assert verdicts(rows) == {"configure": "skipped", "build": "skipped", **dict.fromkeys(RUN, "passed")}, rows
    assert rows["probe"]["facts"] == {"speed": "3 GB/s"} and "3 GB/s" in r.stdout, rows


@tap.case
def a_failing_step_stops_no_other():
    r, rows = Programs(device="[ $# = 1 ] && echo 'ok 1 - b' && echo 1..1 && exit 0\n"
                              "echo 'ok 1 - a'\necho 'not ok 2 - the limit'\necho 1..2\nexit 1\n").check()
    assert r.returncode == 1 and "not passed: device" in r.stdout, r.stdout
    assert rows["device"]["verdict"] == "FAILED" and rows["device"]["note"] == "not ok 2 - the limit", rows["device"]
    assert rows["device"]["passed"] == 1 and rows["device"]["failed"] == 1, rows["device"]
    assert all(rows[name]["verdict"] == "passed" for name in RUN if name != "device"), rows


@tap.case
def matrices_are_skipped_where_the_probe_forbids_them():
    told = GOOD.replace("speed 3 GB/s", "matrix.keeps_rows no")
    r, rows = Programs(probe=told).check()
    assert r.returncode == 0, r.stdout
    for name in RUN:
        want = "skipped" if name.startswith("matrices") else "passed"
        assert rows[name]["verdict"] == want, rows[name]
    assert "matrix.keeps_rows no" in rows["matrices"]["note"], rows["matrices"]
    _, rows = Programs(probe=GOOD.replace("speed 3 GB/s", "matrix.keeps_columns no")).check()
    assert rows["matrices"]["verdict"] == "skipped" and "matrix.keeps_columns no" in rows["matrices"]["note"], rows["matrices"]


@tap.case
def products_by_chains_and_by_matrices_are_compared():
    bench = GOOD.replace("echo '# fact speed 3 GB/s'", 'if [ "$INGOT_METAL_PRODUCTS" = matrices ]; then\n'
                         "echo '# fact matrices.linear.q4_k.rows64.ms 2.0'\nelse\necho '# fact linear.q4_k.rows64.ms 5.0'\nfi")
    r, rows = Programs(bench=bench).check()
    assert r.returncode == 0 and "5.0 ms by chains, 2.0 by matrices: 2.50 times as fast" in r.stdout, r.stdout


@tap.case
def programs_that_die_or_are_cut_short_or_missing():
    r, rows = Programs(probe="echo 'ok 1 - a'\nkill -SEGV $$\n", ops="echo 'ok 1 - a'\necho 1..2\n", bench=None,
                       device="echo 'ok 1 - a # SKIP no device'\necho 1..1\n", model="exit 0\n").check()
    assert r.returncode == 1, r.stdout
    assert verdicts(rows) == {"configure": "skipped", "build": "skipped", **dict.fromkeys(RUN, "FAILED"),
                              "device": "skipped", "second-start": "skipped"}, rows
    assert "status -11" in rows["probe"]["note"] and "status 127" in rows["bench"]["note"], rows


@tap.case
def a_hanging_program_is_ended_with_what_it_started():
    with tempfile.TemporaryDirectory() as folder:
        pid = pathlib.Path(folder) / "pid"
        r, rows = Programs(ops=f"sleep 100000 &\necho $! > {pid}\nwait\n").check("--limit", "simple=1", "--limit", "ops=1", "--limit", "matrices=1")
        child = int(pid.read_text())
    assert r.returncode == 1 and rows["ops"]["verdict"] == "FAILED" and "1 s were up" in rows["ops"]["note"], rows["ops"]
    assert rows["stories"]["verdict"] == "passed", rows

    def gone():
        stat = pathlib.Path(f"/proc/{child}/stat")
        return not stat.exists() or stat.read_text().split()[2] == "Z"
    tap.wait_for(gone, "the end of the program's child")


@tap.case
def steps_beyond_the_budget_say_so():
    r, rows = Programs().check("--budget", "0")
    assert r.returncode == 1, r.stdout
    assert all(rows[name]["verdict"] == "not run" and "0 s for all steps" in rows[name]["note"] for name in RUN), rows


@tap.case
def some_steps_alone():
    r, rows = Programs(bench="exit 1\n").check("--steps", "ops,probe")
    assert r.returncode == 0 and list(rows) == ["probe", "ops"], r.stdout


@tap.case
def wrong_command_lines():
    for args, word in ((["--steps", "ops,nothing"], "no step 'nothing'"), (["--wrong"], "--wrong"),
                       (["--limit", "ops=x"], "STEP=SECONDS"), (["--limit", "nothing=3"], "STEP=SECONDS")):
        r = check("--double", *args)
        assert r.returncode == 2 and word in r.stderr, (args, r.stderr)
    if sys.platform != "darwin":
        r = check()
        assert r.returncode == 2 and "this is no Mac" in r.stderr, r.stderr


@tap.case
def help_and_dry_run_run_nothing():
    r = check("--help")
    assert r.returncode == 0 and all(step in r.stdout for step in RUN) and "--dry-run" in r.stdout, r.stdout
    with tempfile.TemporaryDirectory() as folder:
        r = check("--dry-run", "--build", f"{folder}/b", "--json", f"{folder}/j")
        assert not list(pathlib.Path(folder).iterdir())
    lines = dict(line.split(": ", 1) for line in r.stdout.splitlines())
    assert r.returncode == 0 and len(lines) == 2 + len(RUN) + 1, r.stdout
    assert "INGOT_TESTS=OFF" in lines["configure (60 s)"] and "check_build.cmake" in lines["configure (60 s)"], r.stdout
    assert "metal_probe metal_device metal_ops metal_model metal_bench ingot-cli ingot-coordinator" in lines["build (240 s)"], r.stdout
    assert lines["serve (60 s)"].split()[1:] == [str(HERE / "check_serve.py"), f"{folder}/b/bin"], r.stdout


@tap.case
def a_build_for_macos_without_tests_has_the_programs():
    """As check.sh configures it, with this system's compiler: nothing is compiled."""
    with tempfile.TemporaryDirectory() as folder:
        dry = check("--dry-run", "--steps", "configure", "--build", folder).stdout.split(": ", 1)[1].split()
        r = subprocess.run([*dry, "-G", "Ninja", "-DCMAKE_SYSTEM_NAME=Darwin", "-DCMAKE_C_COMPILER_WORKS=1"],
                           capture_output=True, text=True, timeout=tap.LIMIT)
        assert r.returncode == 0, r.stderr
        targets = subprocess.run(["ninja", "-C", folder, "-t", "targets", "all"], capture_output=True, text=True).stdout
    for name in PROGRAMS:
        assert f"bin/metal_{name}: C_EXECUTABLE_LINKER" in targets, name
    for name in "ingot", "ingot-coordinator", "ingot-gateway", "ingot-worker":
        assert re.search(rf"^bin/{name}: C\w*_EXECUTABLE_LINKER", targets, re.M), name


@tap.case
def a_gpu_without_functions_of_simdgroups_runs_the_simple_ops():
    """As hosted machines have: all of these ops pass there, and one that exchanges in simdgroups is a mistake."""
    program = BIN / "metal_ops_double"
    if not program.exists():
        raise tap.Skip("built without libobjc")
    old = {**os.environ, "INGOT_EMULATE_FAMILY": "1005", "XDG_CACHE_HOME": "/dev/null"}
    r = subprocess.run([program, "--simple", "--few"], capture_output=True, text=True, timeout=tap.LIMIT, env=old)
    assert r.returncode == 1 and "needed is a GPU of family Apple7" in r.stdout, r.stdout
    old["INGOT_METAL_GPU"] = "any"
    r = subprocess.run([program, "--simple"], capture_output=True, text=True, timeout=tap.LIMIT, env=old)
    good = [line for line in r.stdout.splitlines() if line.startswith("ok ")]
    assert r.returncode == 0 and len(good) > 15 and not r.stderr, (r.stdout, r.stderr)
    r = subprocess.run([program, "--few"], capture_output=True, text=True, timeout=tap.LIMIT, env=old)
    assert r.returncode and "an exchange in a simdgroup on a GPU of family Apple5" in r.stdout + r.stderr, (r.stdout, r.stderr)


def probe(**env):
    program = BIN / "metal_probe_double"
    if not program.exists():
        raise tap.Skip("built without libobjc")
    r = subprocess.run([program], capture_output=True, text=True, timeout=tap.LIMIT, env={**os.environ, **env})
    return r.returncode, r.stdout


@tap.case
def the_probe_tells_devices_apart():
    for env, status, words in (
            ({"INGOT_EMULATE_MATRICES": "0"}, 0, ["matrix.keeps_rows yes", "matrix.order chain", "matrix.lanes 0.0 0.1 0.2"]),
            ({"INGOT_EMULATE_MATRICES": "5"}, 0, ["matrix.keeps_rows yes", "matrix.order other", "matrix.lanes 0.5 2.0 3.3"]),
            ({"INGOT_PROBE_DEVICE": "by_row"}, 0, ["matrix.keeps_rows no", "matrix.keeps_columns yes", "matrix.order other"]),
            ({"INGOT_PROBE_DEVICE": "by_column"}, 0, ["matrix.keeps_columns no"]),
            ({"INGOT_PROBE_DEVICE": "fused"}, 1, ["not ok 3 - a product and a sum are not fused"]),
            ({"INGOT_PROBE_DEVICE": "flushing"}, 1, ["not ok 7 - subnormal numbers are kept", "f16 numbers are widened exactly (2047 of 65536 differ)"])):
        got, said = probe(**env)
        assert got == status and all(word in said for word in words), (env, got, said)


tap.main()
