"""tests/gpu/check.sh and its programs where there is no GPU: they say so, name what is missing, keep to their time, and
write what others read.  A stand-in for nvidia-smi lets check.sh go on to rows that then find no driver."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("INGOT_BIN", ROOT / "build/release/bin"))
MODELS = ["--models", str(ROOT / "tests/golden/models")]
PROGRAMS = {"gpu_ops": [], "gpu_rank": MODELS, "gpu_model": [*MODELS, "--only", "golden", "--few"], "bench_linear": [],
            "bench_gpu": []}
LIBRARY = "libingot_backends_real.so"  # of a bundle with programs: the backends with their kernels
NO_GPU = ("no CUDA driver on this machine", "no CUDA device on this machine")
# A bundle's kernels, compressed, three architectures and PTX together, have so much of the bytes that one architecture's have in
# another build, with line numbers: 0.21 in 25 of 34 files, and the larger the file the less.  Bytes of a bundle's program from
# libraries that the backends have, too.
COMPRESSED, MOST_COMMON = 0.25, 1 << 20
TOOLS = ("bash env timeout grep sed find awk head tail paste tr date mktemp mkdir rm cat cp ln sort nproc dirname realpath chmod "
         "du sleep strip uname").split()


def need_no_gpu():
    if shutil.which("nvidia-smi"):
        raise tap.Skip("there is a GPU")


def need_programs():
    need_no_gpu()
    if not (BIN / "gpu_ops").exists():
        raise tap.Skip("built without the CUDA toolkit")


def run(*command, limit=tap.LIMIT, **how):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=limit, check=False, **how)


class Bare:
    """A folder to be all of PATH, with a few tools, and an environment without anything else."""

    def __init__(self, *tools):
        self.folder = tempfile.TemporaryDirectory()
        for tool in TOOLS + list(tools):
            if shutil.which(tool):
                os.symlink(shutil.which(tool), self.path / tool)

    @property
    def path(self):
        return pathlib.Path(self.folder.name)

    def add(self, name, text):
        (self.path / name).write_text(text)
        (self.path / name).chmod(0o755)

    def add_gpu(self):
        self.add("nvidia-smi", "#!/bin/sh\ncase $* in *compute_cap*) echo 9.0 ;; *) echo 'A GPU, 580.1' ;; esac\n")

    def check(self, *args, script=ROOT / "tests/gpu/check.sh"):
        """check.sh as on another machine: no toolkit is found but through PATH."""
        return run(script, *args, env={"PATH": str(self.path), "HOME": str(self.path), "CUDA_HOME": "/nowhere"})


@tap.case
def programs_without_a_driver_end_with_a_sentence():
    need_programs()
    for name, args in PROGRAMS.items():
        r = run(BIN / name, *args)
        assert r.returncode == 1, f"{name}: status {r.returncode}\n{r.stdout}"
        assert any(text in r.stdout for text in NO_GPU), f"{name}: {r.stdout}"


@tap.case
def without_a_gpu_check_refuses():
    need_no_gpu()
    r = Bare().check()
    assert r.returncode == 1 and "no GPU here" in r.stdout, r.stdout


@tap.case
def wrong_options_are_named():
    for args, what in ((["--nonsense"], "unknown option --nonsense"), (["--budget"], "--budget needs a value"),
                       (["--budget", "x"], "--budget x is no number"), (["--prebuilt"], "--prebuilt needs --bundle"),
                       (["--emulated", "--bundle", "x"], "--bundle is for a GPU")):
        r = run(ROOT / "tests/gpu/check.sh", *args)
        assert r.returncode == 2 and what in r.stdout and "--help" in r.stdout, (args, r.stdout)
    r = run(ROOT / "tests/gpu/check.sh", "--emulated", "--bin", "/nowhere")
    assert r.returncode == 1 and "no program gpu_ops_emulated in /nowhere" in r.stdout, r.stdout


@tap.case
def check_names_the_tools_that_are_missing():
    bare = Bare("make")
    bare.add_gpu()
    r = bare.check()
    assert r.returncode == 1 and "lacks cmake, cc, c++, nvcc" in r.stdout and "--prebuilt" in r.stdout, r.stdout


@tap.case
def a_build_that_hangs_is_stopped():
    bare = Bare()
    bare.add_gpu()
    for tool in ("cc", "c++", "make", "nvcc"):
        bare.add(tool, "#!/bin/sh\n")
    bare.add("cmake", "#!/bin/sh\nsleep 100000\n")
    r = bare.check("--budget", "12")
    assert r.returncode == 1 and re.search(r"stopped at its limit of \d+ s", r.stdout), r.stdout
    assert re.search(r"the build failed \(log: \S+/build\.log\)", r.stdout), r.stdout


@tap.case
def every_row_says_that_there_is_no_driver():
    need_programs()
    bare = Bare()
    bare.add_gpu()
    out = bare.path / "result.json"
    r = bare.check("--bin", BIN, "--json", out)
    assert r.returncode == 1, r.stdout
    rows = {s["name"]: s for s in json.loads(out.read_text())["suites"]}
    for name in ("ops", "same-bytes", "rank", "ranks", "golden", "stories", "bench", "bench-rows", "bench-linear"):
        if name == "stories" and rows[name]["verdict"] == "skipped":
            continue
        assert rows[name]["verdict"] == "FAILED", rows[name]
        assert any(text in rows[name]["note"] for text in NO_GPU + ("one-rank",)), rows[name]
        log = re.search(r"\(log: (\S+)\)$", rows[name]["note"]).group(1)
        assert log.endswith(f"/{name}.log") and pathlib.Path(log).read_text().strip(), log
        assert f"FAILED {name}: {rows[name]['note']}" in r.stdout.splitlines(), r.stdout
    for name in ("mpi", "memcheck", "racecheck", "synccheck", "peer"):
        assert rows[name]["verdict"] == "skipped", rows[name]
    passed = sum(s["passed"] for s in rows.values())
    assert passed == 0, rows


def bundle_with_programs(folder):
    """A copy of check.sh with this build's programs as a bundle's."""
    copy = pathlib.Path(folder) / "bundle"
    (copy / "gpu-data/bin").mkdir(parents=True)
    (copy / "tests").mkdir()
    os.symlink(ROOT / "tests/golden", copy / "tests/golden")
    shutil.copytree(ROOT / "tests/gpu", copy / "tests/gpu")
    for name in PROGRAMS:
        os.symlink(BIN / name, copy / "gpu-data/bin" / name)
    return copy


@tap.case
def programs_of_a_bundle_are_taken_and_nothing_is_built():
    need_programs()
    bare = Bare()
    bare.add_gpu()
    for tool in ("cc", "c++", "make", "nvcc"):
        bare.add(tool, "#!/bin/sh\n")
    bare.add("cmake", "#!/bin/sh\necho cmake was called; exit 1\n")
    with tempfile.TemporaryDirectory() as folder:
        copy = bundle_with_programs(folder)
        r = bare.check("--no-bench", script=copy / "tests/gpu/check.sh")
        assert "programs of the bundle" in r.stdout and "the build failed" not in r.stdout, r.stdout
        assert "no CUDA driver" in r.stdout and r.returncode == 1, r.stdout
        r = bare.check("--build", copy / "build", script=copy / "tests/gpu/check.sh")
        assert r.returncode == 1 and "cmake was called" in r.stdout and "the build failed" in r.stdout, r.stdout


@tap.case
def programs_of_a_bundle_that_do_not_start_are_not_taken():
    need_programs()
    bare = Bare()
    bare.add_gpu()
    with tempfile.TemporaryDirectory() as folder:
        copy = bundle_with_programs(folder)
        (copy / "gpu-data/bin/bench_gpu").unlink()
        (copy / "gpu-data/bin/bench_gpu").write_text("#!/bin/sh\necho no library >&2; exit 127\n")
        (copy / "gpu-data/bin/bench_gpu").chmod(0o755)
        r = bare.check("--no-bench", script=copy / "tests/gpu/check.sh")
    assert r.returncode == 1 and "the bundle's programs do not start here: no library" in r.stdout, r.stdout
    assert "this machine lacks cmake, cc, c++" in r.stdout, r.stdout


@tap.case
def rows_that_do_not_fit_the_budget_are_not_run():
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "result.json"
        r = run(ROOT / "tests/gpu/check.sh", "--emulated", "--bin", BIN, "--budget", "0", "--json", out)
        rows = {s["name"]: s for s in json.loads(out.read_text())["suites"]}
    assert r.returncode == 0, r.stdout
    for name in ("ops", "same-bytes", "rank", "ranks", "golden", "stories", "bench", "bench-rows", "bench-linear", "nccl"):
        assert rows[name]["verdict"] == "not run" and re.search("0 of 0 s are left", rows[name]["note"]), rows[name]


@tap.case
def the_most_important_rows_come_first_and_fit():
    """Of 540 seconds, if each row takes all of its limit."""
    plan = run(ROOT / "tests/gpu/check.sh", "--plan")
    assert plan.returncode == 0, plan.stdout
    lines = [re.match(r"(\S+) +(\d+) s  (.+)", line).groups() for line in plan.stdout.splitlines()]
    assert lines[0][0] == "rank" and len(lines) == 16, plan.stdout
    assert [name for name, _, fate in lines if fate == "fits"] == ["rank", "ops", "same-bytes", "golden", "bench"], plan.stdout
    assert 500 <= sum(int(s) for _, s, fate in lines if fate == "fits") <= 530, plan.stdout
    assert "default: 540;" in run(ROOT / "tests/gpu/check.sh", "--help").stdout
    less = run(ROOT / "tests/gpu/check.sh", "--plan", "--budget", "100").stdout.splitlines()
    assert less[0].endswith("fits") and less[1].startswith("ops") and less[1].endswith("only if rows before it take less"), less


@tap.case
def rows_run_in_the_plan_s_order_and_one_that_does_not_fit_is_named():
    """With time for `rank` alone: no row begins that could be stopped by the budget."""
    order = [line.split()[0] for line in run(ROOT / "tests/gpu/check.sh", "--plan").stdout.splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        out, programs = pathlib.Path(folder) / "result.json", pathlib.Path(folder) / "bin"
        programs.mkdir()
        for name in PROGRAMS:
            (programs / f"{name}_emulated").write_text("#!/bin/sh\necho 1..1; echo ok 1 - a case\n")
            (programs / f"{name}_emulated").chmod(0o755)
        r = run(ROOT / "tests/gpu/check.sh", "--emulated", "--bin", programs, "--budget", "99", "--json", out)
        rows = json.loads(out.read_text())["suites"]
    assert r.returncode == 0, r.stdout
    ran = [row["name"] for row in rows]
    assert [name for name in order if name in ran] == ran and ran[0] == "rank", (order, ran)
    for row in rows:
        if row["name"] in ("rank", "bench-rows", "nccl"):
            assert row["verdict"] == "passed", row
        elif row["name"] in ("ops", "same-bytes", "bench"):
            assert row["verdict"] == "not run" and re.match(r"it may take \d+ s, and \d+ of 99 s are left", row["note"]), row


@tap.case
def the_benchmark_writes_every_row():
    if not (BIN / "bench_gpu_emulated").exists():
        raise tap.Skip("bench_gpu_emulated is not built")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "bench.json"
        r = run(BIN / "bench_gpu_emulated", "--tiny", "--json", out)
        got = json.loads(out.read_text())
    assert r.returncode == 0, r.stdout
    assert all(got["ceilings"][c] > 0 for c in ("read_gbs", "copy_gbs", "gemm_tflops")), got["ceilings"]
    seen = [(x["kind"], x["numerics"], x["mode"], x["batch"]) for x in got["runs"]]
    assert seen == [("decode", "strict", "graph", 1), ("decode", "strict", "eager", 2), ("prefill", "strict", "eager", 1),
                    ("decode", "fast", "graph", 1), ("prefill", "fast", "eager", 1)], seen
    for row in got["runs"]:
        floor = row["bytes"] / got["ceilings"]["copy_gbs"] / 1e6
        assert abs(row["copy_pct"] - 100 * floor / row["ms"]) <= 0.06 + 0.01 * row["copy_pct"], row
        assert row["expected_ms"] == (None if row["batch"] == 2 else 1.0), row
    lines = [line for line in r.stdout.splitlines() if line.startswith("ingot ")]
    assert len(lines) == len(seen) and all("expected" in line and "of copy" in line for line in lines), r.stdout


def missing_headers(build):
    """Of a configured folder: what the compiler says of each source whose headers are not all there.  The emulator's programs
    read the kernels, too."""
    said, sources = [], json.loads((build / "compile_commands.json").read_text())
    for source in sources:
        args = shlex.split(source["command"])
        args[args.index("-c")] = "-M"
        at = args.index("-o")
        r = run(*args[:at], *args[at + 2:], cwd=source["directory"])
        said += [] if r.returncode == 0 else [r.stdout]
    assert len(sources) > 200, len(sources)
    return said


@tap.case
def a_bundle_is_whole_and_small():
    if not shutil.which("cmake"):
        raise tap.Skip("no cmake")
    with tempfile.TemporaryDirectory() as folder:
        bundle = pathlib.Path(folder) / "bundle"
        r = run(ROOT / "tests/gpu/check.sh", "--bundle", bundle)
        if r.returncode != 0 and "no cJSON" in r.stdout:
            raise tap.Skip(r.stdout.strip())
        assert r.returncode == 0, r.stdout
        size = sum(f.stat().st_size for f in bundle.rglob("*") if f.is_file())
        assert size < 28 << 20, size  # sources and models: programs have the rest of 64 MiB
        golden, missing = bundle / "tests/golden", []
        sources = "".join((ROOT / "tests/gpu" / f"gpu_{part}.c").read_text() for part in ("model", "golden", "rank", "ranks"))
        models = set(re.findall(r'\{"([\w-]+)", DT_', sources)) | set(re.findall(r"%s/([a-z][\w-]+)\"", sources))
        models |= set(re.findall(r'"([\w-]+)"', re.search(r"names\[\] = \{(.*?)\};", sources, re.S).group(1)))
        inputs = set(re.findall(r'\{"([\w-]+)", (?:true|false)\}', sources))
        for name in inputs:
            missing += [] if (golden / "inputs" / name / "logits.f32").exists() else [name]
            models.add(json.loads((ROOT / "tests/golden/inputs" / name / "expected.json").read_text())["model"])
        missing += [m for m in models - {"", "expected.json"} if not (golden / "models" / m / "config.json").exists()]
        assert len(models) > 60 and len(inputs) > 8 and not missing, (len(models), len(inputs), missing)
        unused = [f.name for kind in ("models", "inputs") for f in (golden / kind).iterdir() if f.name not in models | inputs]
        assert not unused, unused
        r = run("cmake", "-S", bundle, "-B", bundle / "build", "-DINGOT_CUDA_CHECK=ON", "-DINGOT_CUDA=OFF",
                f"-DINGOT_CJSON_ROOT={bundle}/gpu-data/cjson", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
        assert r.returncode == 0, r.stdout
        without = missing_headers(bundle / "build")
        assert not without, without


@tap.case
def a_bundle_with_programs_has_at_most_64_mib():
    """Stand-ins for what builds: five programs of 1 MiB and a library of 16 MiB, then of 40."""
    if not shutil.which("cc"):
        raise tap.Skip("no cc")
    for size, good in ((16, True), (40, False)):
        bare = Bare("cc", "truncate")
        bare.add("nvcc", "#!/bin/sh\n")
        bare.add("cmake", f"""#!/bin/bash
[ "$1" = --build ] || exit 0
mkdir -p "$2/bin"
truncate -s {size}M "$2/bin/{LIBRARY}"
for p in {" ".join(PROGRAMS)}; do truncate -s 1M "$2/bin/$p"; done
""")
        (bare.path / "strip").unlink(missing_ok=True)
        bare.add("strip", '#!/bin/sh\ncp "$3" "$2"\n')
        to = bare.path / "bundle"
        r = bare.check("--bundle", to, "--prebuilt", "--build", bare.path / "built")
        if "no cJSON" in r.stdout:
            raise tap.Skip(r.stdout.strip())
        assert (r.returncode == 0) == good, r.stdout
        assert good or re.search(r"more than 64 MiB: programs \d+, models \d+", r.stdout), r.stdout
        assert {f.name for f in (to / "gpu-data/bin").iterdir()} == {*PROGRAMS, LIBRARY}
        assert (to / "tests/gpu/predicted_rows.txt").exists()


def sections(program):
    """{section: bytes} of what is loaded."""
    r = run("size", "-A", program)
    assert r.returncode == 0, r.stdout
    return {name: int(size) for name, size, at in re.findall(r"^(\S+) +(\d+) +(\d+)$", r.stdout, re.M) if int(at)}


def library_and_programs():
    """Bytes of a bundle's, from this build's programs: each of these has the backends, bench_linear hardly anything else."""
    cache = BIN.parent / "CMakeCache.txt"
    if not shutil.which("size") or not cache.exists():
        raise tap.Skip("no size (binutils) or no CMakeCache.txt")
    archs = re.search(r"^INGOT_CUDA_ARCHS:\w+=(.+)$", cache.read_text(), re.M).group(1).split(";")
    found = {name: sections(BIN / name) for name in PROGRAMS}
    kernels = max(f[".nv_fatbin"] for f in found.values()) / len(archs)
    host = {name: sum(f.values()) - f[".nv_fatbin"] for name, f in found.items()}
    backends = host["bench_linear"]
    return COMPRESSED * kernels + backends, sum(host.values()) - len(host) * (backends - MOST_COMMON)


@tap.case
def programs_of_this_tree_will_fit_in_a_bundle():
    """Without a build of minutes."""
    need_programs()
    library, programs = library_and_programs()
    print(f"predicted: {library / 1e6:.1f} MB of library, {programs / 1e6:.1f} MB of programs")
    assert library + programs < (64 - 28) << 20, (library, programs)


@tap.case
def programs_of_a_bundle_start_where_it_is_and_fit():
    """Builds every kernel for three architectures and as PTX: minutes."""
    if not os.environ.get("INGOT_ALL"):
        raise tap.Skip("only with tests/run.sh --all")
    need_programs()
    with tempfile.TemporaryDirectory() as folder:
        bundle = pathlib.Path(folder) / "bundle"
        r = run(ROOT / "tests/gpu/check.sh", "--bundle", bundle, "--prebuilt", limit=1500)
        if r.returncode != 0 and re.search("no nvcc|no cJSON", r.stdout):
            raise tap.Skip(r.stdout.strip())
        assert r.returncode == 0, r.stdout
        print(r.stdout.strip())
        library, _ = library_and_programs()
        assert (bundle / "gpu-data/bin" / LIBRARY).stat().st_size <= 1.1 * library, library
        size = sum(f.stat().st_size for f in bundle.rglob("*") if f.is_file())
        assert size <= 64 << 20, size
        for name, args in PROGRAMS.items():
            r = run(bundle / "gpu-data/bin" / name, *args, env={})
            assert r.returncode == 1 and any(text in r.stdout for text in NO_GPU), (name, r.stdout)
            assert (bundle / "gpu-data/bin" / name).stat().st_size < 4 << 20, "kernels are in the library"


if __name__ == "__main__":
    tap.main()
