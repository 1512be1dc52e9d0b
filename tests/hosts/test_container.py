"""deploy/container and deploy/kubernetes, behind --all.  The image's root file system is made by debootstrap and the
installed programs, and run as the image's user with a read-only root; no container engine is needed.  The manifests are
checked against Kubernetes' own schemas (PyPI kubernetes-validate), against each other and against the programs' options.
LeaderWorkerSet's schema is in no package: it is checked by hand."""
import contextlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, ROOT  # noqa: E402

CONTAINER = ROOT / "deploy/container"
MANIFESTS = ROOT / "deploy/kubernetes/ingot.yaml"
VERSION = "1.33.0"  # of Kubernetes
USER = 10001


def only_with_all():
    if not os.environ.get("INGOT_ALL"):
        raise tap.Skip("only with --all")


def documents():
    only_with_all()
    try:
        import yaml
    except ImportError:
        raise tap.Skip("not shown: there is no PyYAML") from None
    return [d for d in yaml.safe_load_all(MANIFESTS.read_text()) if d]


def pod_specs(docs):
    for d in docs:
        if d["kind"] == "Deployment":
            yield d["spec"]["template"]
        if d["kind"] == "LeaderWorkerSet":
            yield from (d["spec"]["leaderWorkerTemplate"][t] for t in ("leaderTemplate", "workerTemplate"))


def containers(docs):
    for pod in pod_specs(docs):
        yield from ((pod, c) for c in pod["spec"]["containers"])


def check(doc):
    import kubernetes_validate
    return kubernetes_validate.validate(doc, VERSION, strict=True)


@tap.case
def manifests_have_the_schemas():
    docs = documents()
    try:
        import kubernetes_validate
    except ImportError:
        raise tap.Skip("not shown: there is no kubernetes-validate") from None
    known = [d for d in docs if not d["apiVersion"].startswith("leaderworkerset")]
    assert len(known) == len(docs) - 1 >= 10
    for d in known:
        check(d)
    for pod in pod_specs(docs):  # those of LeaderWorkerSet too
        check({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod["spec"]})
    broken = {**known[1], "spec": {**known[1]["spec"], "selectors": {}}}
    try:
        check(broken)
    except kubernetes_validate.ValidationError:
        return
    raise AssertionError("a wrong field was not seen")


@tap.case
def manifests_agree_with_each_other():
    docs = documents()
    labels = [p["metadata"]["labels"] for p in pod_specs(docs)]
    selectors = [d["spec"]["selector"] if d["kind"] == "Service" else d["spec"]["selector"]["matchLabels"]
                 for d in docs if d["kind"] in ("Service", "PodDisruptionBudget", "Deployment")]
    for d in docs:
        if d["kind"] == "NetworkPolicy":
            selectors.append(d["spec"]["podSelector"]["matchLabels"])
            selectors += [f["podSelector"]["matchLabels"] for i in d["spec"].get("ingress", []) for f in i.get("from", [])]
    for s in selectors:
        assert any(s.items() <= one.items() for one in labels), s
    services = {d["metadata"]["name"] for d in docs if d["kind"] == "Service"}
    for pod, c in containers(docs):
        volumes = {v["name"] for v in pod["spec"]["volumes"]}
        assert {m["name"] for m in c["volumeMounts"]} <= volumes, c["name"]
        assert c["securityContext"]["readOnlyRootFilesystem"] and pod["spec"]["securityContext"]["runAsUser"] == USER
        for host in re.findall(r"tcp://([a-z-]+):", " ".join(c.get("args", []))):
            assert host in services, host


def options_of(program):
    said = subprocess.run([BIN / program[0], *program[1:], "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (--[a-z-]+)", said, re.MULTILINE))


@tap.case
def manifests_name_options_that_exist():
    docs = documents()
    seen = 0
    for _, c in containers(docs):
        commands = [c["command"] + c.get("args", [])]
        commands += [p["exec"]["command"] for k, p in c.items() if k.endswith("Probe") and "exec" in p]
        commands += [h["exec"]["command"] for h in c.get("lifecycle", {}).values()]
        for words in commands:
            if words[0] == "bash":
                words = ["ingot-worker", *shlex.split(words[-1].split(" -- ")[1])]
            if not words[0].startswith("ingot"):
                continue
            program = words[:2] if words[0] == "ingot" else words[:1]
            wrong = {w for w in words if w.startswith("--")} - options_of(program)
            assert not wrong, (program, wrong)
            seen += 1
    assert seen == 6, seen


def missing():
    only_with_all()
    if os.getuid() != 0 or not shutil.which("debootstrap"):
        return "not shown: a root file system needs root and debootstrap"
    return None


def packages():
    return [line for line in (CONTAINER / "runtime-packages.txt").read_text().split("\n") if line and line[0] != "#"]


@contextlib.contextmanager
def root_file_system():
    if why := missing():
        raise tap.Skip(why)
    with temp_dir.folder() as folder:
        root = pathlib.Path(folder) / "root"
        made = subprocess.run(["debootstrap", "--variant=minbase", f"--include={','.join(packages())}", "bookworm", root],
                              capture_output=True, text=True)
        if made.returncode:
            raise tap.Skip(f"not shown: debootstrap: {(made.stdout + made.stderr).strip().splitlines()[-1]}")
        subprocess.run(["cmake", "--install", BIN.parent, "--prefix", "/usr/local"], check=True, capture_output=True,
                       env={**os.environ, "DESTDIR": str(root)})
        for script in ("group-host.sh", "group-leader.sh"):
            shutil.copy(CONTAINER / script, root / "usr/local/bin")
        subprocess.run(["chroot", root, "useradd", "--uid", str(USER), "--create-home", "--shell", "/bin/bash", "ingot"], check=True)
        (root / "models").mkdir()
        shutil.copytree(DEMO, root / "models/m")
        yield root


IN_ROOT = """
set -e
mount --bind {root} {root}
cd {root}
for d in null zero urandom random full; do touch dev/$d; mount --bind /dev/$d dev/$d; done
mkdir -p dev/shm dev/pts
mount -t proc proc proc
mount -t tmpfs -o size={shm} tmpfs dev/shm
mount -t tmpfs tmpfs tmp
chmod 1777 dev/shm tmp
ip link set lo up
mount -o remount,ro,bind {root}
exec chroot --userspec={user}:{user} . /usr/bin/env -i HOME=/home/ingot TMPDIR=/tmp XDG_CACHE_HOME=/tmp/cache \\
  PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 bash -c {command}
"""


def run(root, command, shm="1g"):
    text = IN_ROOT.format(root=root, shm=shm, user=USER, command=shlex.quote(command))
    return subprocess.run(["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--propagation", "private",
                           "sh", "-c", text], capture_output=True, text=True, timeout=3 * tap.LIMIT, stdin=subprocess.DEVNULL)


@tap.case
def the_image_serves_as_a_user_with_a_read_only_root():
    with root_file_system() as root:
        p = run(root, "for f in /usr/local/bin/*; do ldd $f 2>/dev/null | grep 'not found'; done; id -u; ! touch /x 2>/dev/null")
        assert p.stdout.split() == [str(USER)] and p.returncode == 0, p
        serve = ("ingot serve /models/m --tp 2 --threads 1 --http 127.0.0.1:8080 --listen ipc:///tmp/clients >/tmp/log 2>&1 & s=$!; "
                 "until ingot ping --connect ipc:///tmp/clients >/dev/null 2>&1; do kill -0 $s || break; sleep 0.2; done; "
                 "ingot generate --connect ipc:///tmp/clients --max-tokens 8 'Once upon'; "
                 "ingot drain --connect ipc:///tmp/clients --wait || kill $s; wait $s; echo end $?; cat /tmp/log >&2")
        p = run(root, serve)
        assert p.stdout.splitlines()[-1] == "end 0" and len(p.stdout.splitlines()[0]) > 3, p
        p = run(root, "mpirun --oversubscribe -np 2 ingot-worker --hello", shm="64k")
        assert p.stderr.count("/dev/shm has 0.1 MiB free") == 1, p
        hosts = ("mkdir /tmp/key; ssh-keygen -q -t ed25519 -N '' -f /tmp/key/id; group-host.sh /tmp/key 2>/tmp/sshd & "
                 "group-leader.sh /tmp/key 1 $(hostname) 127.0.0.1 -- --hello; r=$?; kill $!; wait; exit $r")
        p = run(root, hosts)
        assert "2 ranks: hello" in p.stdout + p.stderr and p.returncode == 0, p


tap.main()
