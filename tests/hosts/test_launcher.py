"""deploy/run-group.sh: which hosts a group starts on, spares, and which ends of a group are final."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, Parts  # noqa: E402
from several_hosts import LAUNCHER, hurt_in_the_middle, undisturbed  # noqa: E402
from streams import finish, start  # noqa: E402


def launch(*argv, path=BIN, **env):
    """(Exit code, output) of the launcher on this host."""
    p = subprocess.run([str(a) for a in (LAUNCHER, "--oversubscribe", *argv)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, timeout=4 * tap.LIMIT,
                       env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}", **env})
    return p.returncode, p.stdout


@contextlib.contextmanager
def worker_that(script):
    """A folder with a program ingot-worker of so many lines of sh; it notes each start in the file `starts`."""
    with temp_dir.folder() as folder:
        program = pathlib.Path(folder) / "ingot-worker"
        program.write_text(f"#!/bin/sh\necho >>{folder}/starts\n{script}\n")
        program.chmod(0o755)
        yield folder, lambda: (pathlib.Path(folder) / "starts").read_text().count("\n")


WELCOMED = "echo 'info worker.0: welcomed by the coordinator at x'; "


@tap.case
def options():
    assert launch("-np", 1)[0] == 2, "there is no --"
    code, said = launch("--help")
    assert code == 0 and "--hostfile" in said and "Exit codes: 0" in said and "set -uo" not in said, said
    code, said = launch("-np", 1, "--hostfile", "/nonexistent/hosts", "--", "--model", DEMO)
    assert code == 2 and "cannot read the hostfile /nonexistent/hosts" in said, said


@tap.case
def options_of_mpirun_that_the_launcher_has_too():
    """mpirun refuses an option that comes twice: the user's takes the place."""
    with worker_that("echo $OMPI_MCA_odls_base_sigkill_timeout") as (folder, starts):
        for own, want in ((), "0"), (("--mca", "odls_base_sigkill_timeout", "3", "--bind-to", "core"), "3"):
            code, said = launch("-np", 1, *own, "--", path=folder, INGOT_TRIES="1")
            assert code == 0 and want in said.splitlines(), (own, code, said)


@tap.case
def shared_memory_of_ranks_that_were_killed():
    """Open MPI's segments are in a folder of the group, which is empty at each start and gone at the end."""
    script = ("d=$OMPI_MCA_btl_vader_backing_directory; echo folder $d, $(ls $d | wc -l) files; touch $d/vader_segment.x; "
              "kill -KILL $$")
    with worker_that(script) as (folder, starts):
        code, said = launch("-np", 1, "--", path=folder, INGOT_TRIES="2")
        folders = [line.split()[1:4] for line in said.splitlines() if line.startswith("folder ")]
        assert code == 1 and starts() == 2 and len(folders) == 2 and folders[0] == folders[1], said
        name, n_files = folders[0][0].rstrip(","), folders[0][1]
        assert n_files == "0" and "/ingot-segments." in name and not os.path.exists(name), (said, name)
    with worker_that("echo folder $OMPI_MCA_btl_vader_backing_directory") as (folder, starts):
        for own in ("--mca", "btl_vader_backing_directory", folder), ("--host", "localhost"):
            code, said = launch("-np", 1, *own, "--", path=folder, INGOT_TRIES="1")
            assert code == 0 and "ingot-segments" not in said, (own, said)


@tap.case
def a_signal_while_it_starts_leaves_nothing():
    with worker_that("exit 6") as (folder, starts):
        here, program = pathlib.Path(folder), pathlib.Path(folder) / "mktemp"
        program.write_text(f"#!/bin/sh\n{shutil.which('mktemp')} \"$@\"\nkill -TERM $PPID\n")
        program.chmod(0o755)
        (here / "tmp").mkdir()
        code, said = launch("-np", 1, "--", path=folder, TMPDIR=f"{folder}/tmp")
        assert code == 0 and not said and not list((here / "tmp").iterdir()) and not (here / "starts").exists(), (code, said)


@tap.case
def what_another_start_cannot_change_ends_the_loop():
    for argv, code, why in ((("--model", "/nonexistent"), 3, "the model cannot be served"),
                            (("--model", DEMO, "--nonsense"), 2, "the options of the worker are wrong")):
        got, said = launch("-np", 2, "--", "--connect", "ipc:///nonexistent", *argv)
        assert got == code and said.count(why) == 1 and "starting it again" not in said, (got, said)
    for script, code, why in (("exit 5", 5, "the coordinator refuses this group"),
                              ("echo 'error worker.0: ending: timeout: no coordinator has welcomed this group for 9 ms: "
                               "the server refuses this key (last tried: x)'; exit 4", 5, "refuses the connection")):
        with worker_that(script) as (folder, starts):
            got, said = launch("-np", 1, "--", path=folder)
            assert (got, starts()) == (code, 1) and why in said, (got, said)


@tap.case
def failures_of_unknown_cause_are_bounded():
    """However long the start took: a group counts as started when it has served for a while."""
    for script in ("exit 6", WELCOMED + "exit 5", "kill -SEGV $$"):
        with worker_that(script) as (folder, starts):
            code, said = launch("-np", 1, "--", path=folder, INGOT_TRIES="3")
            assert (code, starts()) == (1, 3), (code, starts(), said)
            assert "ended 3 times before it had served" in said and "again in 0.2 s" in said and "again in 0.4 s" in said, said


@tap.case
def a_slow_start_that_fails_is_bounded_too():
    if not os.environ.get("INGOT_ALL"):
        raise tap.Skip("only with --all")
    with worker_that("sleep 11; exit 6") as (folder, starts):
        code, said = launch("-np", 1, "--", path=folder, INGOT_TRIES="2")
        assert (code, starts()) == (1, 2), (code, said)


@tap.case
def without_a_coordinator_it_goes_on():
    with worker_that("[ $(wc -l <$0.starts 2>/dev/null || echo 0) -lt 4 ] || exit 0; echo >>$0.starts; exit 4") as (folder, starts):
        code, said = launch("-np", 1, "--", path=folder, INGOT_TRIES="2")
        assert (code, starts()) == (0, 5), (code, starts(), said)


@tap.case
def a_group_that_does_not_end_is_ended():
    """When a rank shows no sign of life, or when the coordinator says that it has given the group up."""
    watch = "echo 'ingot-worker epoch 6 is given up: of another one'; echo 'ingot-worker epoch 7 is given up: no answer'; exit 5"
    for script, why in (("echo 'ingot-worker rank 0 lives'; exec sleep 100000", "rank 0 has shown no sign of life for 1 s"),
                        (f"case \"$*\" in *--connect\\ ipc:///x\\ --watch-epoch\\ 7) {watch} ;; esac; echo 'info worker.0: welcomed by "
                         "the coordinator at ipc:///x: epoch 7, heartbeat 9 ms'; trap '' TERM; while :; do sleep 1; done",
                         "the coordinator has given the group up (no answer): it is ended")):
        with worker_that(script) as (folder, starts):
            code, said = launch("-np", 1, "--", path=folder, INGOT_TRIES="1", INGOT_SILENCE_S="1")
            assert code == 1 and said.count(why) == 1 and "the group ended 1 times" in said, (code, said)


@tap.case
def a_coordinator_that_refuses_the_group():
    with Parts(DEMO, coordinator=["--weights-digest", "0" * 64], groups=0) as c:
        code, said = launch("-np", 1, "--", "--model", DEMO, "--connect", c.workers)
        assert code == 5 and "the coordinator refuses this group (the group ended with 5)" in said, (code, said)
        assert "starting it again" not in said, said


AGENT = """#!/bin/sh
[ "$2" = true ] || exit 1
case $1 in
198.51.100.2) echo "no route"; exit 255 ;;
198.51.100.9) echo $$ >"$0.new"; mv "$0.new" "$0.pid"; exec sleep 100000 ;;
198.51.100.8) while [ ! -e "$0.pid" ]; do sleep 0.01; done ;;
esac
"""  # logins to all hosts but two, for `true` alone: mpirun itself cannot start there


@contextlib.contextmanager
def agent():
    """A folder, and a function that runs the launcher with a hostfile and options of mpirun."""
    with temp_dir.folder() as folder:
        program, hostfile = pathlib.Path(folder) / "agent", pathlib.Path(folder) / "hosts"
        program.write_text(AGENT)
        program.chmod(0o755)

        def argv(text, *options):
            hostfile.write_text(text)
            return ["--mca", "plm_rsh_agent", program, *(["--hostfile", hostfile] if text else []), *options, "--"]
        argv.program = program
        yield argv


@tap.case
def hosts_are_chosen():
    left = "left out: 198.51.100.2 (no route)"
    with agent() as argv:
        for want, text, *options in (
                (f"hosts: 198.51.100.1 198.51.100.3; {left}", "", "-np", 2, "--host", "198.51.100.1,198.51.100.2:1,198.51.100.3"),
                ("hosts: 198.51.100.1; left out: 198.51.100.3 (spare)", "198.51.100.1 slots=2 # two\n\n198.51.100.3 slots = 1",
                 "-np", 2),
                (f"hosts: 198.51.100.3 198.51.100.4; {left}", "198.51.100.2\n198.51.100.3\n198.51.100.4\n", "-np", 2,
                 "--map-by", "ppr:1:node"),
                (f"hosts: 198.51.100.3 198.51.100.4; {left}", "198.51.100.2\n198.51.100.3\n198.51.100.4\n", "-np", 1),
                ("hosts: 198.51.100.1 198.51.100.3", "198.51.100.1 slots=4\n198.51.100.3 slots=4\n", "-np", 4, "--map-by", "node")):
            code, said = launch(*argv(text, *options), INGOT_TRIES="1", INGOT_PROBE_S=str(tap.LIMIT))
            assert code == 1 and f"run-group.sh: {want}\n" in said, (want, said)


@tap.case
def no_login_is_left():
    """Neither one that has not ended when other hosts suffice, nor one that mpirun leaves."""
    with agent() as argv:
        code, said = launch(*argv("", "-np", 1, "--host", "198.51.100.8,198.51.100.9"), INGOT_TRIES="1", INGOT_PROBE_S=str(tap.LIMIT))
        assert code == 1 and "run-group.sh: hosts: 198.51.100.8; left out: 198.51.100.9 (spare)" in said, said
        pid = argv.program.with_suffix(".pid").read_text().strip()
        assert not pathlib.Path(f"/proc/{pid}").exists(), pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    with temp_dir.folder() as folder:
        mpirun = pathlib.Path(folder) / "mpirun"
        mpirun.write_text(f"#!/bin/sh\nsleep 100000 &\necho $! >{folder}/pid\nexit 2\n")
        mpirun.chmod(0o755)
        assert launch("-np", 1, "--", path=folder)[0] == 2
        pid = (pathlib.Path(folder) / "pid").read_text().strip()
        tap.wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "the end of mpirun's child")


@tap.case
def without_a_number_of_ranks_all_hosts_are_needed():
    """And a signal ends the wait for them."""
    with agent() as argv:
        p = subprocess.Popen([str(a) for a in (LAUNCHER, *argv("", "--host", "198.51.100.1,198.51.100.2"))], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        assert p.stdout.readline() == "run-group.sh: too few hosts answer: 198.51.100.1; left out: 198.51.100.2 (no route)\n"
        p.terminate()
        assert p.communicate(timeout=tap.LIMIT)[0] == "" and p.returncode == 0


@tap.case
def a_spare_takes_the_place_of_a_lost_host():
    with undisturbed(spare=True) as (c, want):
        client, w2, w3 = c.clients[0], c.net.host["w2"], c.net.host["w3"]
        assert finish(client, start(client)) == want
        assert c.log().count(f"left out: {w3.address} (spare)") == 1 and not w3.pids("ingot-worker"), c.log()
        silence = hurt_in_the_middle(c, want, w2.kill)
        print(f"    a host is lost, a spare takes its place: the longest silence was {silence:.1f} s")
        assert w3.pids("ingot-worker"), c.log()
        reason = next(line for line in c.log().splitlines() if "left out: " + w2.address in line)
        assert "spare" not in reason and f"hosts: {c.net.host['w1'].address} {w3.address};" in reason, reason
        print(f"    {reason}")


@tap.case
def too_few_hosts_are_waited_for():
    """Without a spare: the launcher says whom it waits for, and goes on when the host is back."""
    if not os.environ.get("INGOT_ALL"):
        raise tap.Skip("only with --all")
    with undisturbed() as (c, want):
        client, w2 = c.clients[0], c.net.host["w2"]
        assert finish(client, start(client)) == want
        w2.kill()
        tap.wait_for(lambda: f"too few hosts answer: {c.net.host['w1'].address}; left out: {w2.address}" in c.log(), "its line")
        c.net.restore("w2")
        assert finish(client, start(client)) == want


tap.main()
