"""The third claim: the journal of a run with kills, cancels and preemptions repeats offline, step by step."""
import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, Cluster, model  # noqa: E402

MODEL = model("stories260K") or DEMO


def journal_tool(*args):
    return subprocess.run([BIN / "ingot-journal", *map(str, args)], capture_output=True, text=True)


@tap.case
def a_run_with_a_kill_replays():
    with temp_dir.folder() as tmp, \
            Cluster(MODEL, tp=2, extra=["--kv-blocks", "40", "--journal", f"{tmp}/journal"]) as c:
        folder = pathlib.Path(tmp) / "journal"
        client = c.clients[0]
        rids = []

        def lost_in_the_middle():
            rids[:] = [client.start(text=f"Tale {i}".encode(), max_tokens=120, n=1 + i % 3,
                                    sampling={"temperature": 0.9, "top_k": 40, "seed": i, "ignore_eos": True})
                       for i in range(12)]
            while client.recv()[0] != "Delta":
                pass
            client.send("Cancel", request_id=rids[3])
            os.kill(c.worker_pids()[-1], signal.SIGKILL)
            finished = set()
            while len(finished) < len(rids):
                name, m = client.recv()
                if name in ("Finish", "Error", "Rejected"):
                    finished.add(m.request_id)
            stats = client.call("Stats")[1]
            assert stats.preemptions > 0 and stats.steps_overlapped > 0, stats
            return stats.recoveries >= 1

        tap.race(lost_in_the_middle)
        again = client.generate(text=b"Tale 5", max_tokens=120, n=3,
                                sampling={"temperature": 0.9, "top_k": 40, "seed": 5, "ignore_eos": True})
        stranger = c.client()
        stranger.start(request_id="stranger", text=b"Tale", max_tokens=3)
        assert stranger.collect(["stranger"], 60)["stranger"].finish
        client.send("Drain", request_id="d")
        c.serve.wait(tap.LIMIT)
        files = sorted(folder.glob("*.journal"))
        assert files, "no journal was written"
        assert all(f.stat().st_mode & 0o077 == 0 for f in files), "prompts are readable by others"
        r = journal_tool("verify", *files)
        assert r.returncode == 0 and "the same" in r.stdout, r
        print("    " + r.stdout.strip().splitlines()[-1])
        shown = journal_tool("show", *files, rids[5])
        assert shown.returncode == 0, shown
        assert ", ".join(map(str, again.ids[0][:8])) in shown.stdout or \
            ",".join(map(str, again.ids[0][:8])) in shown.stdout, shown.stdout[:600]
        # requests of one tenant have one digest of it, not 0; of another one another
        def tenant_of(rid):
            return json.loads(journal_tool("show", *files, rid).stdout.splitlines()[0])["tenant"]
        assert tenant_of(rids[5]) == tenant_of(rids[6]) != "0" * 16
        assert tenant_of("stranger") not in (tenant_of(rids[5]), "0" * 16)
        # a flipped byte inside a record is found and named
        data = bytearray(files[0].read_bytes())
        data[data.index(rids[5].encode())] ^= 0x10
        bad = pathlib.Path(c.dir) / "bad.journal"
        bad.write_bytes(data)
        r = journal_tool("verify", bad)
        assert r.returncode != 0 and r.stderr, r


tap.main()
