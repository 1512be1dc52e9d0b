"""The first run of the Metal backend on a Mac: builds the programs of this folder, runs them, writes one JSON file and a
table.  Needs what Ingot itself needs (deploy/install-packages.sh), no Criterion.  A step that fails stops no other one;
a step that no longer fits the budget says so.

Exit status: 0 when every step that ran passed, 1 when one failed or was not run, 2 for a wrong command line."""
import argparse
import json
import math
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("INGOT_DATA", ROOT.parent / "shared/data")) / "models"
PROGRAMS = ["metal_probe", "metal_device", "metal_ops", "metal_model", "metal_bench"]
SERVER = ["ingot-cli", "ingot-coordinator", "ingot-gateway", "ingot-worker"]
LEAST = 3  # seconds: a step with less left is not begun
STEPS = {  # name: seconds at most, what it does
    "configure": (60, "CMake without tests, MPI and CUDA"),
    "build": (240, "the programs of this folder"),
    "probe": (30, "does the device's arithmetic keep the contract; what simdgroup matrices and simd_sum do"),
    "device": (30, "name, families, limits, threads of each kernel"),
    "second-start": (30, "the device's kernels come from the archive that the step device has left; how long both took"),
    "simple": (60, "the ops whose kernels use no functions of simdgroups, which GPUs before M1 run, too"),
    "ops": (120, "every op against double precision; rows alone and together have the same bits"),
    "same-bytes": (120, "a text in chunks, batches and from the cache has the bits of the text decoded alone"),
    "matrices": (60, "the same of products and attention by simdgroup matrices, which are not the default: README.md"),
    "matrices-same": (60, "same-bytes with them"),
    "golden": (60, "logits of other programs"),
    "bench": (120, "times of products and steps"),
    "matrices-bench": (60, "the same of products by matrices, beside those of bench"),
    "stories": (60, "stories260K, greedy, as another program told it"),
    "serve": (60, "ingot serve, asked over its protocol and HTTP, alone and together, and behind a killed worker"),
}


def parse(arguments):
    p = argparse.ArgumentParser(prog="tests/metal/check.sh", formatter_class=argparse.RawDescriptionHelpFormatter,
                                description=__doc__, epilog="steps:\n" + "\n".join(
                                    f"  {name:14} {seconds:4} s  {what}" for name, (seconds, what) in STEPS.items()))
    p.add_argument("--steps", metavar="LIST", help="these alone, with commas between them (default: all)")
    p.add_argument("--dry-run", action="store_true", help="prints the commands and ends")
    p.add_argument("--double", action="store_true", help="on Linux: the programs that link the tests' double of Metal, few "
                                                         "cases; times mean nothing")
    p.add_argument("--bin", type=pathlib.Path, metavar="DIR", help="programs that are built already: nothing is built")
    p.add_argument("--build", type=pathlib.Path, metavar="DIR", default=ROOT / "build/metal-check", help="build folder")
    p.add_argument("--stories", type=pathlib.Path, metavar="DIR", default=DATA, help="folder of stories260K")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", default=pathlib.Path("metal-check.json"))
    p.add_argument("--budget", type=float, metavar="SECONDS",
                   help="for all steps (default: 570; with --double none, and no limits: its times mean nothing)")
    p.add_argument("--limit", action="append", default=[], metavar="STEP=SECONDS", help="another limit for a step")
    o = p.parse_args(arguments)
    if o.budget is None:
        o.budget = math.inf if o.double else 570
    o.limits = {name: math.inf if o.double else seconds for name, (seconds, _) in STEPS.items()}
    for text in o.limit:
        name, _, seconds = text.partition("=")
        if name not in STEPS or not re.fullmatch(r"\d+(\.\d+)?", seconds):
            p.error(f"--limit {text}: STEP=SECONDS")
        o.limits[name] = float(seconds)
    wanted = o.steps.split(",") if o.steps else list(STEPS)
    for name in wanted:
        if name not in STEPS:
            p.error(f"no step {name!r}; there are {', '.join(STEPS)}")
    o.wanted = [name for name in STEPS if name in wanted]
    if not o.double and not o.dry_run and platform.system() != "Darwin":
        p.error("this is no Mac; --double runs the steps on the tests' double of Metal")
    return o


def commands(o):
    """{step: command}, None: there is nothing to do."""
    suffix = "_double" if o.double else ""
    folder = o.bin or o.build / "bin"
    models = ["--models", ROOT / "tests/golden/models"]
    few, tiny = (["--few"], ["--tiny"]) if o.double else ([], [])
    include = f"-DCMAKE_PROJECT_ingot_INCLUDE={ROOT}/tests/metal/check_build.cmake"
    kind = "ON" if o.double else "OFF"  # the double is part of a build with tests
    all_programs = [name + suffix for name in PROGRAMS] + SERVER + (["ingot-worker-emulated"] if o.double else [])
    run = {name: folder / (name + suffix) for name in PROGRAMS}
    matrices = ["env", "INGOT_METAL_PRODUCTS=matrices"]
    return {
        "configure": None if o.bin else ["cmake", "-S", ROOT, "-B", o.build, "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                                         "-DINGOT_MPI=OFF", "-DINGOT_CUDA=OFF", f"-DINGOT_TESTS={kind}",
                                         *([] if o.double else [include])],
        "build": None if o.bin else ["cmake", "--build", o.build, "--parallel", str(os.cpu_count()), "--target",
                                     *all_programs],
        "probe": [run["metal_probe"]],
        "device": [run["metal_device"]],
        "second-start": [run["metal_device"], "--second"],
        "simple": ["env", "INGOT_METAL_GPU=any", run["metal_ops"], "--simple", *few],
        "ops": [run["metal_ops"], *few],
        "same-bytes": [run["metal_model"], *models, "--only", "same", *few],
        "matrices": [*matrices, run["metal_ops"], "--products", *few],
        "matrices-same": [*matrices, run["metal_model"], *models, "--only", "same", *few],
        "golden": [run["metal_model"], *models, "--only", "golden", *few],
        "bench": [run["metal_bench"], *tiny],
        "matrices-bench": [*matrices, run["metal_bench"], *tiny],
        "stories": [run["metal_model"], *models, "--stories", o.stories, "--only", "stories", *few],
        "serve": [sys.executable, ROOT / "tests/metal/check_serve.py", folder / "emulated" if o.double else folder, *few],
    }


def output_of(command, limit, log):
    """(status, timed out).  The step is a process group of its own: what it started ends with it.  Caches are those of this
    run: its first start compiles."""
    with open(log, "w") as out:
        try:
            p = subprocess.Popen([str(c) for c in command], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                 start_new_session=True, env={**os.environ, "XDG_CACHE_HOME": str(log.parent / "cache")})
        except OSError as e:
            out.write(f"{command[0]}: {e.strerror}\n")
            return 127, False
        try:
            return p.wait(None if limit == math.inf else limit), False
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            return None, True


def read(text):
    """What a program of this folder printed: cases and facts."""
    lines = text.splitlines()
    ok = [line for line in lines if re.match(r"ok \d", line)]
    skipped = [line for line in ok if "# SKIP" in line]
    bad = [line for line in lines if re.match(r"not ok \d", line)]
    facts = dict(line.split(" ", 3)[2:] for line in lines if line.startswith("# fact ") and line.count(" ") >= 3)
    plan = next((int(m[1]) for line in lines if (m := re.fullmatch(r"1\.\.(\d+)", line))), None)
    return {"passed": len(ok) - len(skipped), "failed": len(bad), "skipped": len(skipped), "facts": facts,
            "whole": plan == len(ok) + len(bad) and plan > 0, "bad": bad}


def run_step(name, command, limit, log):
    began = time.monotonic()
    status, late = output_of(command, limit, log)
    text = log.read_text(errors="replace")
    got = read(text)
    of_tap = name not in ("configure", "build")
    last = next((line for line in reversed(text.splitlines()) if line.strip() and not line.startswith(("ok ", "# fact"))), "")
    verdict, note = "passed", ""
    if late:
        verdict, note = "FAILED", f"its {limit:.0f} s were up"
    elif got["bad"]:
        verdict, note = "FAILED", got["bad"][0]
    elif status != 0 or (of_tap and not got["whole"]):
        verdict, note = "FAILED", f"ended with status {status}: {last}"
    elif of_tap and got["passed"] == 0:
        verdict, note = "skipped", last
    return {"step": name, "verdict": verdict, "seconds": round(time.monotonic() - began, 1), "passed": got["passed"],
            "failed": got["failed"] or int(verdict == "FAILED"), "skipped": got["skipped"], "note": note[:300],
            "facts": got["facts"]}


def not_run(name, why, verdict="not run"):
    return {"step": name, "verdict": verdict, "seconds": 0.0, "passed": 0, "failed": 0, "skipped": 0, "note": why, "facts": {}}


def show(row):
    print(f"{row['step']:<15}{row['verdict']:<9}{row['passed']:>5} passed{row['failed']:>4} failed{row['skipped']:>4} skipped"
          f"{row['seconds']:>8.1f} s  {row['note']}", flush=True)


def lost_contract(rows):
    """Why the probe forbids matrices; "": it does not, or did not run."""
    facts = {k: v for r in rows for k, v in r["facts"].items()}
    lost = [f"{name} {facts[name]}" for name in ("matrix.keeps_rows", "matrix.keeps_columns") if facts.get(name, "yes") != "yes"]
    return f"{', '.join(lost)}: products by matrices would break the numeric contract" if lost else ""


def compared(facts):
    """Lines: products and steps by chains and by matrices."""
    found = []
    for name, ms in facts.items():
        other = facts.get(f"matrices.{name}")
        if name.endswith(".ms") and other and float(other) > 0:
            found.append(f"{name[:-3]:<44}{ms} ms by chains, {other} by matrices: {float(ms) / float(other):.2f} times as fast")
    return found


def main(arguments):
    o = parse(arguments)
    todo = commands(o)
    if o.dry_run:
        for name in o.wanted:
            what = " ".join(map(str, todo[name])) if todo[name] else "nothing: the programs are given by --bin"
            print(f"{name} ({o.limits[name]:.0f} s): {what}")
        return 0
    logs = pathlib.Path(tempfile.mkdtemp(prefix="metal-check-"))
    began, rows = time.monotonic(), []
    for name in o.wanted:
        left = o.budget - (time.monotonic() - began)
        if not todo[name]:
            rows.append(not_run(name, "the programs are given by --bin", "skipped"))
        elif name.startswith("matrices") and (lost := lost_contract(rows)):
            rows.append(not_run(name, lost, "skipped"))
        elif left < LEAST:
            rows.append(not_run(name, f"of the {o.budget:.0f} s for all steps {max(left, 0):.0f} are left"))
        else:
            rows.append(run_step(name, todo[name], min(left, o.limits[name]), logs / f"{name}.log"))
        show(rows[-1])
    worst = [r["step"] for r in rows if r["verdict"] in ("FAILED", "not run")]
    result = {"machine": platform.platform(), "double": o.double, "seconds": round(time.monotonic() - began, 1), "steps": rows}
    o.json.write_text(json.dumps(result, indent=1) + "\n")
    facts = {k: v for r in rows for k, v in r["facts"].items() if not k.startswith("threads.")}
    if facts:
        print("\n" + "\n".join(f"{name:<47}{value}" for name, value in facts.items()))
    if lines := compared(facts):
        print("\n" + "\n".join(lines))
    print(f"\n{o.json}; logs: {logs}\n" + (f"not passed: {', '.join(worst)}" if worst else "every step passed"))
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
