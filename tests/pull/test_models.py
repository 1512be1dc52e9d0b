"""Models by name: from the cache without a download, pulled when asked, listed and removed; and the cache is that of
huggingface_hub, which finds what Ingot has pulled, as Ingot finds its files."""
import json
import os
import pathlib
import subprocess
import sys
import time

from pulling import BIG, INGOT, cache, digest
from hub import Cut
import tap
from cluster import DEMO, LIMIT, ROOT

NAMES = ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
MODEL = {n: (DEMO / n).read_bytes() for n in NAMES}
ASK = ("--message", "What is Ingot?", "--temperature", 0, "--max-tokens", 12)


def python(c, code, **env):
    """Runs a program with huggingface_hub on the same cache."""
    p = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT,
                       env={**c.env, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                            "HF_HUB_DISABLE_TELEMETRY": "1", **env})
    assert p.returncode == 0, p.stderr
    return p.stdout.strip()


@tap.case
def a_model_is_pulled_when_asked():
    with cache() as (hub, c):
        hub.add("org/demo", MODEL)
        for command in ("run", "inspect"):
            p = c.ingot(command, "org/demo", *(ASK if command == "run" else ()))
            assert p.returncode == 2 and "'ingot pull org/demo' downloads it" in p.err, p.err
        p = c.ingot("serve", "org/demo")
        assert p.returncode == 2 and "'ingot pull org/demo' downloads it" in p.err, p.err
        p = c.ingot("quantize", "org/demo", c.home / "o.gguf", "--type", "q8_0")
        assert p.returncode == 2 and "'ingot pull org/demo' downloads it" in p.err, p.err
        assert not hub.requests
        p = c.ingot("run", "org/none", "--pull", *ASK)
        assert p.returncode == 4 and "org/none" in p.err, (p.returncode, p.err)
        p = c.ingot("run", "org/demo", "--pull", *ASK)
        assert p.returncode == 0 and p.out.strip() and "model.safetensors  4.5 MB, checked" in p.err, (p.out, p.err)
        before = len(hub.requests)
        again = c.ingot("run", "org/demo", "--pull", *ASK)
        assert (again.returncode, again.out) == (0, p.out), again.err
        assert c.ingot("tokenize", "org/demo", "--text", "Once").out.split()
        p = c.ingot("quantize", "org/demo", c.home / "o.gguf", "--type", "q8_0")
        assert p.returncode == 0 and (c.home / "o.gguf").stat().st_size > 100000, p.err
        # a GGUF file by its quantisation
        hub.add("org/small", {"small-Q8_0.gguf": (c.home / "o.gguf").read_bytes(), "small-F16.gguf": b"x" * 5000})
        assert len(hub.requests) == before, "the cache was not enough"
        c.pulled("org/small:Q8_0")
        p = c.ingot("inspect", "org/small:Q8_0", "--json")
        assert p.returncode == 0 and json.loads(p.out), p.err
        p = c.ingot("inspect", "org/small:F16")
        assert p.returncode == 2 and "'ingot pull org/small:F16'" in p.err, p.err


@tap.case
def the_server_has_the_name():
    with cache() as (hub, c):
        hub.add("org/demo", MODEL)
        c.pulled("org/demo")
        endpoint = f"ipc://{c.home}/clients"
        with subprocess.Popen([INGOT, "serve", "org/demo", "--listen", endpoint, "--http", "off"], env=c.env,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as p:
            try:
                assert p.stdout.readline().startswith("Ready")
                assert c.ingot("models", "--connect", endpoint).out.split()[0] == "org/demo"
                got = c.ingot("generate", "--connect", endpoint, "--model", "org/demo", *ASK)
                assert got.returncode == 0 and got.out.strip(), got.err
                p.terminate()
                assert p.wait(LIMIT) == 0
            finally:
                p.kill()


@tap.case
def the_cache_is_listed_and_cleaned():
    with cache() as (hub, c):
        assert c.ingot("models", "list").out == ""
        hub.add("org/demo", MODEL)
        hub.add("org/part", {"m.gguf": BIG})
        c.pulled("org/demo")
        hub.fault("store", Cut(1 << 20))
        hub.fault("store", Cut(None), times=100)
        assert c.pull("org/part", "--connections", 1).returncode == 1
        shown = json.loads(c.ingot("models", "list", "--json").out)
        assert shown == [{"name": "org/demo", "bytes": sum(map(len, MODEL.values())), "incomplete_bytes": 0},
                         {"name": "org/part", "bytes": 0, "incomplete_bytes": 1 << 20}], shown
        lines = c.ingot("models", "list").out.splitlines()
        assert "4.6 MB" in lines[0] and "1.0 MB incomplete" in lines[1] and str(c.repo("org/part")) in lines[1], lines
        assert c.ingot("models", "list", "--names").out == "org/demo\norg/part\n"
        p = c.ingot("run", "org/part", *ASK)
        assert p.returncode == 2 and "'ingot pull org/part'" in p.err, p.err
        for args, code, said in [(["org/demo:Q8_0"], 2, "with all its files"), (["../x"], 2, "is not the name"),
                                 (["org/none"], 1, "is not in the cache"), ([], 2, "argument is missing")]:
            p = c.ingot("models", "remove", *args)
            assert p.returncode == code and said in p.err, (args, p.err)
        assert c.ingot("models", "remove", "org/demo", "org/part").returncode == 0
        assert not c.repo("org/demo").exists() and not list((c.root / ".locks").iterdir())
        assert c.ingot("models", "list").out == ""


@tap.case
def a_path_comes_before_a_name():
    with cache() as (hub, c):
        hub.add("org/demo", MODEL)
        (c.home / "org").mkdir()
        (c.home / "org/demo").symlink_to(DEMO)
        p = c.ingot("inspect", "org/demo", "--json", cwd=c.home)
        assert p.returncode == 0 and not hub.requests, p.err
        p = c.ingot("inspect", "./org/none", cwd=c.home)
        assert p.returncode != 0 and "ingot pull" in p.err and "downloads it" not in p.err, p.err


@tap.case
def what_huggingface_hub_has_downloaded_is_used():
    with cache() as (hub, c):
        hub.add("org/demo", MODEL)
        path = python(c, "import huggingface_hub as h; print(h.snapshot_download('org/demo'))")
        before = len(hub.requests)
        p = c.ingot("run", "org/demo", "--pull", *ASK)
        assert p.returncode == 0 and p.out.strip(), p.err
        assert len(hub.requests) == before
        assert c.pulled("org/demo") == pathlib.Path(path)
        assert {r[0] for r in hub.requests[before:]} == {"api"}, "its files were fetched again"


@tap.case
def huggingface_hub_uses_what_ingot_has_pulled():
    with cache() as (hub, c):
        hub.add("org/demo", MODEL)
        hub.add("org/small", {"sub/small-Q8_0.gguf": BIG[:70000]})
        path = c.pulled("org/demo")
        gguf = c.pulled("org/small")
        before = len(hub.requests)
        assert python(c, "import huggingface_hub as h; print(h.snapshot_download('org/demo'))",
                      HF_HUB_OFFLINE="1") == str(path)
        assert python(c, "import huggingface_hub as h; print(h.hf_hub_download('org/small', 'sub/small-Q8_0.gguf'))",
                      HF_HUB_OFFLINE="1") == str(gguf)
        assert len(hub.requests) == before
        # with the hub there, it asks for the digests and fetches nothing
        assert python(c, "import huggingface_hub as h; print(h.hf_hub_download('org/demo', 'model.safetensors'))"
                      ) == str(path / "model.safetensors")
        assert all(r[1] == "HEAD" for r in hub.requests[before:] if r[0] != "api"), hub.requests[before:]
        scan = json.loads(python(c, "import huggingface_hub as h, json; r = h.scan_cache_dir(); "
                                 "print(json.dumps([sorted(x.repo_id for x in r.repos), len(r.warnings)]))"))
        assert scan == [["org/demo", "org/small"], 0], scan


@tap.case
def huggingface_hub_goes_on_from_our_part():
    with cache() as (hub, c):
        hub.add("org/part", {"m.gguf": BIG})
        hub.fault("store", Cut(2 << 20))
        hub.fault("store", Cut(None), times=100)
        assert c.pull("org/part", "--connections", 1).returncode == 1
        assert len(c.part(BIG, "org/part")) == 2 << 20
        hub.faults.clear()
        before = len(hub.requests)
        path = python(c, "import huggingface_hub as h; print(h.hf_hub_download('org/part', 'm.gguf'))")
        assert pathlib.Path(path).read_bytes() == BIG
        asked = [r[3].get("Range") for r in hub.requests[before:] if r[0] == "store" and r[1] == "GET"]
        assert asked and asked[0].startswith(f"bytes={2 << 20}-"), asked


tap.main()
