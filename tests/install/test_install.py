"""The installed program: moved to another folder, it has everything that it needs, and programs can be built with
its library."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess

from prefix import BUILD, HERE, LIMIT, ROOT, install, ok, run
import tap
import temp_dir

PREFIX = install()
INGOT = PREFIX / "bin" / "ingot"
PROGRAMS = ["ingot", "ingot-coordinator", "ingot-worker", "ingot-gateway", "ingot-text", "ingot-journal",
            "ingot-quantize", "ingot-pull"]
LIB = next(PREFIX.glob("lib*/**/libingot.a")).parent
PKG_CONFIG = {"PKG_CONFIG_PATH": str(LIB / "pkgconfig")}
# A PATH in which only the tools are found, not the build's programs.
TOOLS = {"PATH": os.pathsep.join(d for d in os.environ["PATH"].split(os.pathsep)
                                 if not (pathlib.Path(d) / "ingot").exists())}


@contextlib.contextmanager
def serving():
    """The endpoint of a server that the installed program has started."""
    with temp_dir.folder() as dir:
        endpoint = f"ipc://{dir}/clients"
        p = subprocess.Popen([INGOT, "serve", "demo-model", "--tp", "2", "--listen", endpoint, "--http", "off",
                              "--log-level", "warn"], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, **TOOLS, "XDG_CACHE_HOME": dir})
        try:
            assert p.stdout.readline() == f"Ready at {endpoint}\n"
            yield endpoint
        finally:
            p.send_signal(signal.SIGTERM)
            assert p.wait(LIMIT) == 0


def dynamic(path):
    return ok("readelf", "-d", path)


@tap.case
def programs_run_from_anywhere():
    version = re.search(r"VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text().split("project(ingot")[1]).group(1)
    for name in PROGRAMS:
        text = ok(PREFIX / "bin" / name, "--version", env=TOOLS)
        assert f" {version}\n" in text, text
        paths = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic(PREFIX / "bin" / name))
        assert all(p.startswith("$ORIGIN") for p in paths), (name, paths)
    with temp_dir.folder() as home:
        text = ok(INGOT, "run", "demo-model", "--tp", "2", "--message", "What is Ingot?", "--temperature", "0",
                  cwd=home, env={**TOOLS, "HOME": home})
        assert "language models" in text, text
        assert "hidden" in ok(INGOT, "inspect", "demo-model", cwd=home, env={**TOOLS, "HOME": home})
        assert ok(INGOT, "tokenize", "demo-model", "--text", "Once", cwd=home, env=TOOLS).split()
    assert str(BUILD) not in "".join(p.read_text() for p in PREFIX.rglob("*") if p.suffix in (".pc", ".cmake"))


@tap.case
def the_library_has_the_names_of_its_header():
    declared = set(re.findall(r"\b(ingot_[a-z_]+)\(", re.sub(r"/\*.*?\*/", "", (PREFIX / "include/ingot.h").read_text(),
                                                              flags=re.S)))
    shared = LIB / "libingot.so.0"
    assert "SONAME" in dynamic(shared) and "[libingot.so.0]" in dynamic(shared)
    assert (LIB / "libingot.so").is_symlink()
    for path, extra in ((shared, ["-D"]), (LIB / "libingot.a", [])):
        names = {line.split()[-1] for line in ok("nm", "-g", "--defined-only", *extra, path).splitlines() if " " in line}
        assert names == declared, (path, names ^ declared)


@tap.case
def a_program_is_built_outside_the_tree():
    """With pkg-config, shared and static, and with CMake."""
    with temp_dir.folder() as dir, serving() as endpoint:
        answers = set()

        def asks(program, **env):
            answers.add(ok(program, endpoint, env={**TOOLS, **env}))

        flags = ok("pkg-config", "--cflags", "--libs", "ingot", env=PKG_CONFIG)
        libraries = ok("pkg-config", "--libs", "libzmq", "libprotobuf-c").split()
        for name, flags in (("shared", flags.split()),
                            ("static", [*flags.replace("-lingot", "-l:libingot.a").split(), *libraries])):
            ok("cc", "-Wall", "-Werror", HERE / "ask.c", "-o", f"{dir}/{name}", *flags)
            needs = "libingot.so.0" in dynamic(f"{dir}/{name}")
            assert needs == (name == "shared")
            asks(f"{dir}/{name}", LD_LIBRARY_PATH=str(LIB))
        assert ok("pkg-config", "--modversion", "ingot", env=PKG_CONFIG) == ok(
            INGOT, "--version").split("\n")[0].split()[-1] + "\n"

        pathlib.Path(dir, "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.20)\nproject(ask LANGUAGES C)\nfind_package(Ingot 0.1 REQUIRED)\n"
            f"foreach(kind ingot static)\n  add_executable(ask_${{kind}} \"{HERE}/ask.c\")\n"
            "  target_link_libraries(ask_${kind} PRIVATE Ingot::${kind})\nendforeach()\n")
        ok("cmake", "-S", dir, "-B", f"{dir}/build", f"-DCMAKE_PREFIX_PATH={PREFIX}")
        ok("cmake", "--build", f"{dir}/build")
        asks(f"{dir}/build/ask_ingot")
        asks(f"{dir}/build/ask_static")
        assert len(answers) == 1 and len(answers.pop()) > 20, answers


def commands():
    return [line.split("\t")[0] for line in ok(INGOT, "--help=options").splitlines()]


@tap.case
def manual_pages_say_the_same_as_help():
    pages = {p.name.removesuffix(".1"): p for p in (PREFIX / "share/man/man1").iterdir()}
    callers = {"ingot": [INGOT]}
    callers.update({f"ingot-{c}": [INGOT, c] for c in commands() if c != "help"})
    callers.update({p: [PREFIX / "bin" / p] for p in ("ingot-coordinator", "ingot-worker", "ingot-gateway",
                                                      "ingot-journal")})
    assert set(pages) == set(callers), set(pages) ^ set(callers)
    for name, caller in callers.items():
        page = pages[name].read_text()
        assert page == ok(*caller, "--help=man"), name
        shown = set(re.findall(r"^  --(?:\[no-\])?([a-z0-9-]+)", ok(*caller, "--help"), re.M))
        if name != "ingot":
            told = set(re.findall(r"^\\fB--(?:\[no-\])?([a-z0-9-]+)", page.replace("\\-", "-"), re.M))
            assert told == shown, (name, told, shown)
    if not shutil.which("man"):
        raise tap.Skip("there is no man to format the pages with")
    for name, path in pages.items():
        p = run("man", "--warnings", "-l", path, env={"MANPAGER": "cat", "MANWIDTH": "90", "LC_ALL": "C.UTF-8"})
        assert p.returncode == 0 and not p.stderr, (name, p.stderr)
        title = {"ingot-replay": "ingot-journal"}.get(name, name).upper()  # the program that replays
        assert title + "(1)" in p.stdout and "SYNOPSIS" in p.stdout, (name, p.stdout)


@tap.case
def systemd_units_name_the_installed_programs():
    units = list((PREFIX / "lib/systemd/system").iterdir())
    assert {u.name for u in units} == {u.name for u in (ROOT / "deploy/systemd").iterdir()}
    for unit in units:
        started = re.findall(r"^ExecStart=.*?(/\S*/ingot\S*)", unit.read_text(), re.M)
        assert len(started) == 1, unit
        was = pathlib.Path(started[0])  # where `cmake --install` was told to put it
        assert was.parent == PREFIX.parent / "at-first" / "bin" and (PREFIX / "bin" / was.name).exists(), was


tap.main()
