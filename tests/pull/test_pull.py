"""`ingot pull` against a stand-in of the hub: whatever fails leaves whole files or a beginning that the next run goes
on from, never a wrong file."""
import os
import pathlib
import re
import resource
import signal

from pulling import BIG, MiB, cache, digest
from hub import Cut, Damage, Hold, NoRanges, Status
import tap

FOLDER = {"config.json": b'{"a": 1}', "tokenizer.json": b"{}" * 4000, "README.md": b"text",
          "model.safetensors": BIG[:50000], "pytorch_model.bin": BIG[:60000], "sub/other.safetensors": BIG[:5000]}
GGUF = {"model-q4_k_m.gguf": BIG, "README.md": b"text"}


def files_of(path):
    return {str(p.relative_to(path)) for p in path.rglob("*") if not p.is_dir()}


@tap.case
def a_folder_in_the_layout_of_the_hub():
    with cache() as (hub, c):
        repo = hub.add("org/name", FOLDER)
        path = c.pulled("org/name")
        assert path == c.repo() / "snapshots" / repo.commit
        assert files_of(path) == {"config.json", "tokenizer.json", "model.safetensors"}
        for name in files_of(path):
            link = path / name
            assert os.readlink(link) == f"../../blobs/{digest(FOLDER[name])}", link
            assert link.read_bytes() == FOLDER[name]
        assert (c.repo() / "refs/main").read_text() == repo.commit
        assert not list((c.repo() / "blobs").glob("*.incomplete"))
        before = len(hub.requests)
        assert c.pulled("org/name") == path
        assert [r[0] for r in hub.requests[before:]] == ["api"], "files came twice"
        # a branch with a slash, and a commit, which needs no ref
        c.pulled("org/name@v1/x")
        assert (c.repo() / "refs/v1/x").read_text() == repo.commit
        assert c.pulled(f"org/name@{repo.commit}") == path
        assert not (c.repo() / "refs" / repo.commit).exists()


@tap.case
def modules_that_make_embeddings_come_with_their_folder():
    more = {"1_Pooling/config.json": b"{}", "2_Dense/config.json": b'{"b": 1}', "2_Dense/model.safetensors": BIG[:3000],
            "2_Dense/pytorch_model.bin": BIG[:3000], "onnx/config.json": b"[]"}
    with cache() as (hub, c):
        hub.add("org/embedder", {**FOLDER, **more, "modules.json": b"[1]"})
        path = c.pulled("org/embedder")
        assert files_of(path) == {"config.json", "tokenizer.json", "model.safetensors", "modules.json",
                                  "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"}
        hub.add("org/other", {**FOLDER, **more})
        assert files_of(c.pulled("org/other")) == {"config.json", "tokenizer.json", "model.safetensors"}


@tap.case
def large_files_come_in_ranges_and_the_token_stays_at_home():
    with cache() as (hub, c):
        hub.add("org/name", {"sub/m.gguf": BIG}, token="hf_secret")
        path = c.pulled("org/name", env={"HF_TOKEN": "hf_secret"})
        assert path.read_bytes() == BIG and os.readlink(path).startswith("../../../blobs/")
        ranges = [r[3].get("Range") for r in hub.asked("store")]
        assert len(ranges) == 3 and all(ranges), ranges
        assert all(r[3]["Authorization"] == "Bearer hf_secret" for r in hub.asked("api") + hub.asked("file"))
        assert not any("Authorization" in r[3] for r in hub.asked("store"))
        assert len(hub.asked("file")) == 1, "the hub is asked once where a file is"
    with cache() as (hub, c):
        hub.add("org/name", FOLDER, token="hf_other")
        (c.home / "token").write_text("hf_other\n")
        c.pulled("org/name")


@tap.case
def broken_connections_in_each_phase():
    for kind in ("api", "file", "store"):
        for where in (None, -1, 0, 5) if kind == "api" else (None, -1, 0, 1000):
            with cache() as (hub, c):
                hub.add("org/name", GGUF)
                if kind == "file" and where in (0, 1000):
                    continue  # a redirect has no body
                hub.fault(kind, Cut(where))
                assert c.pulled("org/name").read_bytes() == BIG, (kind, where)
    with cache() as (hub, c):  # each connection breaks after 2 MiB: none of it is fetched twice
        hub.add("org/name", GGUF)
        hub.fault("store", Cut(2 * MiB), times=6)
        assert c.pulled("org/name", "--connections", 2).read_bytes() == BIG
        firsts = [int(re.match(r"bytes=(\d+)-", r[3]["Range"])[1]) for r in hub.asked("store")]
        assert len(set(firsts)) == len(firsts) and len(firsts) >= 7, firsts


@tap.case
def a_part_is_gone_on_from():
    with cache() as (hub, c):
        hub.add("org/name", GGUF)
        hub.fault("store", Cut(3 * MiB))
        hub.fault("store", Cut(None), times=1000)
        p = c.pull("org/name", "--connections", 1)
        assert p.returncode == 1 and "no connection to the hub, or it breaks" in p.err, p.err
        left = len(c.part(BIG))
        assert left == 3 * MiB, left
        assert not (c.repo() / "refs/main").exists()
        hub.faults.clear()
        before = len(hub.requests)
        assert c.pulled("org/name").read_bytes() == BIG
        asked = [r[3]["Range"] for r in hub.requests[before:] if r[0] == "store"]
        assert asked and asked[0].startswith(f"bytes={left}-"), (left, asked)


@tap.case
def no_hub():
    with cache() as (hub, c):
        p = c.pull("org/name", env={"HF_ENDPOINT": "http://127.0.0.1:1"})
        assert p.returncode == 1 and "no connection to the hub" in p.err, p.err
        p = c.pull("org/name", env={"HF_ENDPOINT": "ftp://127.0.0.1"})
        assert p.returncode == 2 and "is not the http or https address" in p.err, p.err
        p = c.pull("org/name", env={"HF_HUB_OFFLINE": "1"})
        assert p.returncode == 2 and "HF_HUB_OFFLINE" in p.err, p.err


@tap.case
def wrong_bytes_are_not_kept():
    with cache() as (hub, c):
        hub.add("org/name", GGUF)
        hub.fault("store", Damage(), times=1000)
        p = c.pull("org/name")
        assert p.returncode == 1 and f"do not have the digest {digest(BIG)}" in p.err, p.err
        assert c.part(BIG) == b"" and not list((c.repo() / "blobs").iterdir())
        hub.faults.clear()
        # the part that was there is wrong: the whole file is fetched
        bad = pathlib.Path(f"{c.blob(BIG)}.incomplete")
        bad.write_bytes(b"x" * 5 * MiB)
        p = c.pull("org/name")
        assert p.returncode == 0 and "is damaged; fetching the whole file" in p.err, p.err
        assert c.blob(BIG).read_bytes() == BIG and not bad.exists()
    with cache() as (hub, c):  # git's digest of a small file
        hub.add("org/name", FOLDER)
        hub.fault("file", Damage(), times=1, match="config.json")
        p = c.pull("org/name")
        assert p.returncode == 1 and digest(FOLDER["config.json"]) in p.err, p.err


@tap.case
def the_hub_contradicts_itself():
    with cache() as (hub, c):
        hub.add("org/name", GGUF)
        hub.says["model-q4_k_m.gguf"] = "0" * 64
        p = c.pull("org/name")
        assert p.returncode == 1 and "0" * 64 in p.err, p.err
        hub.says.clear()
        hub.fault("store", NoRanges(), times=100)
        p = c.pull("org/name")
        assert p.returncode == 1 and "does not give ranges" in p.err, p.err
        hub.faults.clear()
        hub.repos["org/name"].listed = [{"rfilename": "m.gguf", "size": 10000, "lfs": {"sha256": digest(BIG), "size": 10000}}]
        hub.repos["org/name"].files["m.gguf"] = BIG
        p = c.pull("org/name")
        assert p.returncode == 1 and ("more bytes" in p.err or "another size" in p.err), p.err
        assert not c.blob(BIG).exists()


@tap.case
def lists_that_are_refused():
    good = {"rfilename": "m.gguf", "size": 1, "blobId": "0" * 40}
    for entry, said in [({"rfilename": "../m.gguf"}, "not a path inside"), ({"rfilename": "/m.gguf"}, "not a path inside"),
                        ({"rfilename": "a/../../m.gguf"}, "not a path inside"), ({"rfilename": "a\\b.gguf"}, "not a path inside"),
                        ({"rfilename": "m\x1b.gguf"}, "not a path inside"), ({"rfilename": "m" * 600}, "rfilename"),
                        ({"size": -1}, "size"), ({"size": 1e300}, "size"), ({"blobId": "../../x"}, "no digest"),
                        ({"lfs": {"sha256": "../" * 10, "size": 1}}, "no digest"), ({"lfs": 5}, "lfs")]:
        with cache() as (hub, c):
            hub.add("org/name", {}).listed = [{**good, **entry}]
            p = c.pull("org/name")
            assert p.returncode in (1, 2) and said in p.err and "list of files" in p.err, (entry, p.returncode, p.err)
            assert not c.root.exists() or not files_of(c.root)
    with cache() as (hub, c):
        hub.fault("api", Status(200), times=9)
        p = c.pull("org/name")
        assert p.returncode == 1 and "list of files" in p.err, p.err


@tap.case
def no_access():
    with cache() as (hub, c):
        hub.add("org/private", GGUF, token="hf_a")
        p = c.pull("org/private")
        assert p.returncode == 4 and "set HF_TOKEN" in p.err, p.err
        p = c.pull("org/private", env={"HF_TOKEN": "hf_b"})
        assert p.returncode == 3 and "no such model" in p.err, p.err
        p = c.pull("org/private", env={"HF_TOKEN": "a\nb"})
        assert p.returncode == 2 and "token has characters" in p.err, p.err
        hub.add("org/gated", GGUF, gated=True)
        p = c.pull("org/gated")
        assert p.returncode == 4 and "accept the model's terms" in p.err and "/org/gated" in p.err, p.err
        p = c.pull("org/name@none", env={"HF_TOKEN": "hf_b"})
        assert p.returncode == 3, p
        hub.add("org/name", GGUF)
        p = c.pull("org/name@none")
        assert p.returncode == 3 and "revision" in p.err, p.err


@tap.case
def rate_limits_are_waited_for():
    with cache() as (hub, c):
        hub.add("org/name", GGUF)
        hub.fault("api", Status(429, Retry_After=1))
        hub.fault("file", Status(503))
        hub.fault("store", Status(429, Retry_After=1))
        p = c.pull("org/name")
        assert p.returncode == 0 and p.err.count("rate limit is reached; going on in 1 s") == 2, p.err
        assert c.blob(BIG).read_bytes() == BIG
        hub.fault("api", Status(429), times=100)
        p = c.pull("org/name")
        assert p.returncode == 1 and "rate limit is reached, after" in p.err, p.err


@tap.case
def an_address_of_the_store_that_has_expired():
    with cache() as (hub, c):
        hub.add("org/name", GGUF)
        hub.fault("store", Cut(MiB))
        hub.fault("store", Status(403))
        assert c.pulled("org/name", "--connections", 1).read_bytes() == BIG
        assert len(hub.asked("file")) == 2, "the hub was not asked again"
        hub.fault("file", Status(302, Location=f"{hub.url}/org/name/resolve/{hub.repos['org/name'].commit}/x"), times=99)
        hub.add("org/other", {"other.gguf": BIG[:90000]})
        p = c.pull("org/other")
        assert p.returncode == 1 and "in a circle" in p.err, p.err
        hub.faults.clear()
        hub.fault("file", Status(302, Location="file:///etc/passwd"))
        p = c.pull("org/other")
        assert p.returncode == 1 and "redirects to no HTTP address" in p.err, p.err


@tap.case
def a_full_disk():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (9 * MiB, 9 * MiB))

    with cache() as (hub, c):
        hub.add("org/name", GGUF)
        p = c.pull("org/name", preexec_fn=limit)
        assert p.returncode == 1 and "cannot write" in p.err and "too large" in p.err, p.err
        left = len(c.part(BIG))
        assert 8 * MiB <= left <= 9 * MiB, left
        assert c.pulled("org/name").read_bytes() == BIG
        # seen before anything is fetched
        hub.add("org/huge", {}).listed = [{"rfilename": "m.gguf", "size": 1 << 49,
                                           "lfs": {"sha256": "a" * 64, "size": 1 << 49}}]
        p = c.pull("org/huge")
        assert p.returncode == 1 and "needs 563 TB more" in p.err and "free" in p.err, p.err


@tap.case
def interrupted():
    for sig in (signal.SIGINT, signal.SIGTERM):
        with cache() as (hub, c):
            hub.add("org/name", GGUF)
            hold = hub.fault("store", Hold(9 * MiB), times=100)
            p = c.start("pull", "org/name", "--connections", "1")
            assert hold.reached.wait(tap.LIMIT)
            p.send_signal(sig)
            out, err = p.communicate(timeout=tap.LIMIT)
            assert p.returncode == 130 and "goes on where this one ended" in err, (p.returncode, err)
            left = c.part(BIG)
            hub.faults.clear()
            hold.release()
            assert c.pulled("org/name").read_bytes() == BIG, len(left)


@tap.case
def two_pulls_at_once():
    with cache() as (hub, c):
        hub.add("org/name", GGUF)
        hold = hub.fault("store", Hold(1000))
        first = c.start("pull", "org/name")
        assert hold.reached.wait(tap.LIMIT)
        second = c.start("pull", "org/name")
        line = second.stderr.readline()
        assert "another process downloads it; waiting" in line, line
        busy = c.ingot("models", "remove", "org/name")
        assert busy.returncode == 1 and "is being downloaded" in busy.err, busy.err
        hold.release()
        for p in (first, second):
            out, err = p.communicate(timeout=tap.LIMIT)
            assert p.returncode == 0, err
        assert c.blob(BIG).read_bytes() == BIG and len(hub.asked("store")) == 3


@tap.case
def a_silent_connection_is_given_up():
    with cache() as (hub, c):
        hub.add("org/name", GGUF)
        hold = hub.fault("store", Hold(5000))
        assert c.pulled("org/name", "--stall-s", 1, "--connections", 1).read_bytes() == BIG
        hold.release()


SMALL = BIG[:5000]


def chosen(files, name, **kw):
    """The files that a pull of name fetches from a repository with those; or its code and error."""
    with cache() as (hub, c):
        hub.add("org/name", {f: SMALL[:4500 + i] for i, f in enumerate(files)})
        p = c.pull(name, **kw)
        if p.returncode:
            return p.returncode, p.err
        path = pathlib.Path(p.out.strip())
        return files_of(c.repo() / "snapshots" / hub.repos["org/name"].commit), path.name


@tap.case
def which_files_are_chosen():
    q4, q8 = "m-Q4_K_M.gguf", "m-Q8_0.gguf"
    split = [f"big-Q6_K-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    assert chosen([q4, q8, "README.md"], "org/name") == ({q4}, q4)
    assert chosen([q4, q8], "org/name:q8_0") == ({q8}, q8)
    assert chosen([q4, q8], f"org/name:{q8}") == ({q8}, q8)
    assert chosen([q8, "mmproj-F16.gguf", "config.json"], "org/name") == ({q8}, q8)
    assert chosen([*split, q8], "org/name:Q6_K") == (set(split), split[0])
    assert chosen([*split, q8], f"org/name:{split[1]}") == (set(split), split[0])
    assert chosen(["Q6_K/" + s for s in split], "org/name") == ({"Q6_K/" + s for s in split}, split[0])
    usual = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    rest = ["config.json", "model.safetensors.index.json", "merges.txt", "chat_template.jinja"]
    got, _ = chosen([*usual, *rest, "consolidated.safetensors", "onnx/model.onnx", "x.py", "tf_model.h5", "a.bin"], "org/name")
    assert got == {*usual, *rest}, got
    for files, name, code, said in [
            ([q8, "m-Q5_0.gguf"], "org/name", 3, "several GGUF files"), ([q4, "n-Q4_K_M.gguf"], "org/name", 3, "several"),
            ([q4], "org/name:Q4_K", 3, "no file 'Q4_K'"), (["a.txt"], "org/name", 3, "neither safetensors nor GGUF"),
            (["pytorch_model.bin", "config.json"], "org/name", 3, "neither"),
            (["pytorch_model.bin"], "org/name:pytorch_model.bin", 4, "run code"),
            (["a.txt"], "org/name:a.txt", 4, "not a GGUF file"), (split[:2], "org/name", 1, "of its 3 parts there are 2"),
            ([usual[0], "config.json"], "org/name", 1, "of its 2 parts there are 1")]:
        got = chosen(files, name)
        assert got[0] == code and said in got[1], (files, name, got)
    code, err = chosen([q8, *split], "org/name")
    assert f"  {q8} " in err and split[0] in err and split[1] not in err and "13.5 KB" in err, err


@tap.case
def names_that_are_refused():
    with cache() as (hub, c):
        for name in ("name", "org/", "/name", "org/name/x", "../name", "org/..", "org/na--me", "org/.hidden", "org/-x",
                     "org/name@", "org/name@../x", "org/name@a/../b", "org/name@/a", "org/name:", "org/name:/etc/x",
                     "org/name:../x.gguf", "org/name:a/../../x", "org/name@a b", "org/na me", "a" * 200 + "/x"):
            p = c.pull(name)
            assert p.returncode == 2 and not hub.requests, (name, p.returncode, p.err)


@tap.case
def progress():
    import cli_tools
    with cache() as (hub, c):
        hub.add("org/name", GGUF)
        p = c.pull("org/name")
        assert re.fullmatch(r"model-q4_k_m.gguf  19.9 MB, checked\n", p.err), p.err
    with cache() as (hub, c):
        hub.add("org/name", GGUF)
        hold = hub.fault("store", Hold(5 * MiB))
        keep = {k: c.env[k] for k in ("HF_HOME", "HF_ENDPOINT", "NO_PROXY", "XDG_CACHE_HOME")}
        t = cli_tools.Terminal("pull", "org/name", "--connections", 1, env=keep)
        t.until(" of 19.9 MB")
        t.until("MB/s")
        hold.release()
        t.until("checked")
        assert t.wait() == 0


tap.main()
