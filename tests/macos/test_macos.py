"""The programs without MPI, compiled and linked for macOS by zig cc with warnings as errors.  What they take from
libraries must be in macOS' system library or in a library that Ingot names.  Nothing here is run.  Behind --all: ziglang
takes 440 MB."""
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
import mach_o  # noqa: E402
import tap  # noqa: E402

PACKAGES = ["libzmq", "libprotobuf-c", "libcjson", "libcrypto", "libpcre2-8", "libutf8proc", "libevent_core",
            "libevent_openssl", "openssl", "libcurl", "libedit"]
HEADERS = ["zmq.h", "protobuf-c", "cjson", "pcre2.h", "utf8proc.h", "event2", "openssl", "curl", "editline", "histedit.h"]
# of libobjc and of the framework Metal, which zig has not: what backends/metal/objc.h declares
METAL = {"_objc_msgSend", "_objc_getClass", "_sel_registerName", "_objc_autoreleasePoolPush", "_objc_autoreleasePoolPop",
         "_MTLCreateSystemDefaultDevice"}
PROGRAMS = ["ingot", "ingot-coordinator", "ingot-gateway", "ingot-journal", "ingot-pull", "ingot-quantize", "ingot-text",
            "ingot-worker"]


def zig():
    try:
        import ziglang
    except ImportError:
        raise tap.Skip("ziglang is not installed (tests/run.sh --all installs it)") from None
    return pathlib.Path(ziglang.__file__).parent


def program(path, text):
    path.write_text("#!/usr/bin/env bash\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def make_sysroot(folder):
    """Headers of the other libraries, without those of this system's C library, and packages that name them."""
    include, packages = folder / "include", folder / "pkgconfig"
    include.mkdir()
    packages.mkdir()
    arch = said("cc", "-print-multiarch").strip()
    for name in HEADERS:
        found = [p for d in ("/usr/include", f"/usr/include/{arch}") if (p := pathlib.Path(d) / name).exists()]
        assert found, f"there is no header {name}"
        for p in found:
            if p.is_dir():
                (include / name).mkdir(exist_ok=True)
                for file in p.iterdir():
                    (include / name / file.name).symlink_to(file)
            else:
                (include / name).symlink_to(p)
    for name in PACKAGES:
        version = said("pkg-config", "--modversion", name).strip()
        (packages / f"{name}.pc").write_text(f"includedir={include}\nName: {name}\nDescription: headers\n"
                                             f"Version: {version}\nCflags: -I{include}\n")
    return packages


def names_of_libraries():
    """What the libraries that Ingot names export on this system, as Mach-O spells it."""
    names = set()
    folder = said("pkg-config", "--variable=libdir", "libzmq").strip()
    for name in PACKAGES:
        for flag in said("pkg-config", "--libs", name).split():
            if flag.startswith("-l") and (path := pathlib.Path(folder) / f"lib{flag[2:]}.so").exists():
                names.update("_" + line.split()[-1].split("@")[0]
                             for line in said("nm", "-D", "--defined-only", path).splitlines())
    assert {"_zmq_msg_send", "_protobuf_c_message_unpack", "_SSL_new", "_curl_easy_perform"} <= names
    return names


def build(arch):
    lib = zig()
    known = set(re.findall(r"[A-Za-z_][A-Za-z0-9_$]*", (lib / "lib/libc/darwin/libSystem.tbd").read_text()))
    assert "_malloc" in known
    with tempfile.TemporaryDirectory(prefix="ingot-macos-") as d:
        folder = pathlib.Path(d)
        target = {"arm64": "aarch64", "x86_64": "x86_64"}[arch]
        # zig names processors as LLVM does, defines NDEBUG with -O2, and has no -exported_symbol
        cc = program(folder / "cc", f"""args=()
for a in "$@"; do
  case $a in
  -march=armv8.2-a+dotprod) args+=(-mcpu=apple_m1) ;;
  -march=armv8.2-a+dotprod+i8mm) args+=(-mcpu=apple_m2) ;;
  -Wl,-exported_symbol,*) ;;
  *) args+=("$a") ;;
  esac
done
exec {sys.executable} -m ziglang cc -target {target}-macos -UNDEBUG "${{args[@]}}"
""")
        ar = program(folder / "ar", f'exec {sys.executable} -m ziglang ar "$@"\n')
        ranlib = program(folder / "ranlib", f'exec {sys.executable} -m ziglang ranlib "$@"\n')
        env = {**os.environ, "PKG_CONFIG_LIBDIR": str(make_sysroot(folder))}
        for command in (["cmake", "-S", ROOT, "-B", folder / "build", "-G", "Ninja", "-DINGOT_MPI=OFF", "-DINGOT_TESTS=OFF",
                         "-DINGOT_CUDA=OFF", "-DINGOT_WERROR=ON", "-DCMAKE_C_COMPILER_LAUNCHER=", "-DCCACHE=OFF",
                         f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake/macos-zig.cmake'}", f"-DINGOT_MAC_ARCH={arch}",
                         f"-DINGOT_MAC_CC={cc}", f"-DINGOT_MAC_AR={ar}", f"-DINGOT_MAC_RANLIB={ranlib}"],
                        ["cmake", "--build", folder / "build", "-j", str(os.cpu_count())]):
            p = subprocess.run(command, env=env, capture_output=True, text=True)
            assert p.returncode == 0, "\n".join(line for line in (p.stdout + p.stderr).splitlines()
                                                if "error" in line or "FAILED" in line)[:4000]
        libraries = names_of_libraries()
        for name in PROGRAMS:
            assert (missing := mach_o.undefined(folder / "build/bin" / name) - known - libraries - METAL) == set(), (name, missing)


@tap.case
def apple_silicon():
    build("arm64")


@tap.case
def intel():
    build("x86_64")


tap.main()
