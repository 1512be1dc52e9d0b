"""The Debian package in a Debian 12 that has nothing else: installed, it serves the demo model; removed, it leaves
nothing.  Behind --all: it makes that Debian with debootstrap and apt, from the mirrors of this machine."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import time

from prefix import BUILD, ok, run
import tap
import temp_dir

MINUTES = 60  # for a slow mirror


def needs():
    if not os.environ.get("INGOT_ALL"):
        return "only with --all"
    if os.getuid() != 0:
        return "chroot needs root"
    if not shutil.which("debootstrap"):
        return "there is no debootstrap"
    return None


def slow(*argv, **kw):
    p = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=60 * MINUTES, **kw)
    return p.returncode, p.stdout + p.stderr


@contextlib.contextmanager
def debian():
    """The root of a minimal Debian 12, with apt as on this machine."""
    with temp_dir.folder() as dir:
        root = pathlib.Path(dir) / "root"
        rc, text = slow("debootstrap", "--variant=minbase", "bookworm", root)
        if rc:
            raise tap.Skip(f"debootstrap has no Debian 12 here (no network?): {text.strip().splitlines()[-1]}")
        for pattern in ("etc/apt/apt.conf.d/*", "etc/resolv.conf", "etc/hosts"):
            for path in pathlib.Path("/").glob(pattern):
                if "docker" not in path.name:
                    shutil.copy(path, root / path.relative_to("/"))
        mounts = []
        try:
            for name in ("proc", "dev"):
                if run("mount", "--bind", f"/{name}", root / name).returncode == 0:
                    mounts.append(root / name)
            yield root
        finally:
            for path in mounts:
                ok("umount", "-l", path)


def inside(root, *argv):
    rc, text = slow("chroot", root, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8",
                    "DEBIAN_FRONTEND=noninteractive", *argv)
    assert rc == 0, (argv, rc, text[-3000:])
    return text


def files(root):
    """What the package could leave behind."""
    return {str(p.relative_to(root)) for top in ("etc", "usr", "opt", "var/lib", "root", "home")
            for p in (root / top).rglob("*")}


@tap.case
def installs_serves_and_goes():
    if why := needs():
        raise tap.Skip(why)
    with temp_dir.folder() as out, debian() as root:
        ok("cpack", "-G", "DEB", "-B", out, cwd=BUILD)
        package = next(pathlib.Path(out).glob("*.deb"))
        shutil.copy(package, root / "tmp/ingot.deb")
        before = time.monotonic()
        inside(root, "apt-get", "update", "-q")
        # the package's dependencies first, so that what follows is its own
        depends = ok("dpkg-deb", "-f", package, "Depends")
        inside(root, "apt-get", "install", "-y", "-q", "--no-install-recommends",
               *[d.split("|")[0].split("(")[0].strip() for d in depends.split(",")])
        dependencies_s = time.monotonic() - before
        clean = files(root)
        before = time.monotonic()
        inside(root, "apt-get", "install", "-y", "-q", "--no-install-recommends", "/tmp/ingot.deb")
        install_s = time.monotonic() - before
        answer = inside(root, "sh", "-c", """
            set -e
            ingot serve demo-model --tp 2 --listen ipc:///tmp/ingot.sock --http 127.0.0.1:0 >/tmp/log 2>&1 &
            for i in $(seq 3000); do ! grep -q Ready /tmp/log || break; kill -0 $! || { cat /tmp/log; exit 1; }; sleep 0.1; done
            ingot generate --connect ipc:///tmp/ingot.sock --message 'What is Ingot?' --temperature 0
            kill $!
            wait $!
            rm -rf ~/.cache ~/.local/state/ingot  # the user's: packs of the weights, journals
            rmdir ~/.local/state ~/.local""")
        assert "language models" in answer, answer
        inside(root, "apt-get", "purge", "-y", "-q", "ingot")
        left = {p for p in files(root) - clean if not p.startswith(("var/lib/dpkg", "var/lib/apt"))
                and "ld.so.cache" not in p}
        assert not left, sorted(left)
        print(f"   the package: {package.stat().st_size / 1e6:.1f} MB, installed in {install_s:.1f} s, "
              f"its dependencies in {dependencies_s:.0f} s")


tap.main()
