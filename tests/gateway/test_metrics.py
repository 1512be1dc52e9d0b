"""/metrics before a coordinator and a worker: the format, the names, and figures that are those of the requests."""
import json
import os
import pathlib
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from gateway_process import GATEWAY, Gateway  # noqa: E402
from scrape import histograms, one_histogram, scrape, value  # noqa: E402

# Of vLLM 0.33's names those that are served, with their types.
VLLM = {
    "num_requests_running": "gauge", "num_requests_waiting": "gauge", "kv_cache_usage_perc": "gauge",
    "cache_config_info": "gauge",
    "prompt_tokens": "counter", "generation_tokens": "counter", "prompt_tokens_cached": "counter",
    "prompt_tokens_by_source": "counter",
    "request_success": "counter", "num_preemptions": "counter", "prefix_cache_queries": "counter",
    "prefix_cache_hits": "counter", "admission_rejections": "counter",
    **{name: "histogram" for name in (
        "time_to_first_token_seconds", "inter_token_latency_seconds", "request_time_per_output_token_seconds",
        "e2e_request_latency_seconds", "request_queue_time_seconds", "request_prefill_time_seconds",
        "request_decode_time_seconds", "request_inference_time_seconds", "request_prompt_tokens",
        "request_generation_tokens", "request_max_num_generation_tokens", "request_params_max_tokens",
        "request_prefill_kv_computed_tokens", "iteration_tokens_total", "request_params_n",
        "request_num_preemptions")},
}
LONG = [.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]
FIRST = [.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560]
BETWEEN = [.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]
CONTEXT = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]  # the demo model's context is 1024
BOUNDS = {
    "time_to_first_token_seconds": FIRST, "inter_token_latency_seconds": BETWEEN,
    "request_time_per_output_token_seconds": BETWEEN, "e2e_request_latency_seconds": LONG,
    "request_queue_time_seconds": LONG, "request_prefill_time_seconds": LONG, "request_decode_time_seconds": LONG,
    "request_inference_time_seconds": LONG, "request_prompt_tokens": CONTEXT, "request_generation_tokens": CONTEXT,
    "request_max_num_generation_tokens": CONTEXT, "request_params_max_tokens": CONTEXT,
    "request_prefill_kv_computed_tokens": CONTEXT, "request_params_n": [1, 2, 5, 10, 20],
    "request_num_preemptions": [1, 2, 3, 4, 5, 10, 20],
    "iteration_tokens_total": [1] + [2**k for k in range(3, 15)],
}


def post(gateway, path, **body):
    with gateway.connect() as c:
        return c.post(path, json.dumps(body).encode(), "Content-Type: application/json")


def us(seconds):
    return round(seconds * 1e6)


def finishes(client, n):
    """n requests over ZeroMQ, of several sizes; their Finish messages."""
    done = []
    for i in range(n):
        a = client.generate(text=b"Once upon a time there was a fox. " * 4 + b" there was" * i, max_tokens=1 + 7 * i, n=1 + i % 3,
                            sampling={"seed": i, "ignore_eos": True})
        done.append((1 + 7 * i, a.finish))
    return done


@tap.case
def names_buckets_and_format():
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as own, \
            Gateway("--connect", c.endpoint, "--metrics-prefix", "vllm:") as vllm:
        own.wait_ready(), vllm.wait_ready()
        c.clients[0].generate(text=b"Once", max_tokens=2)
        a, b = scrape(own), scrape(vllm)
        assert {n.removeprefix("vllm:"): f.type for n, f in b.items() if n.startswith("vllm:")} == VLLM
        assert {n.replace("vllm:", "ingot_") for n in b} == set(a), "all other names stay"
        for name, bounds in BOUNDS.items():
            h = one_histogram(b, "vllm:" + name)
            assert [float(le) for le in h["bucket"]] == bounds + [float("inf")], (name, h)
        epoch = f"{c.clients[0].welcome.epoch:016x}"
        for name in VLLM:
            for s in b["vllm:" + name].samples:
                assert s.labels["model_name"] == "demo-model" and s.labels["engine"] == epoch, s
        info = b["vllm:cache_config_info"].samples[0].labels
        stats = c.clients[0].call("Stats")[1]
        assert (int(info["block_size"]), int(info["num_gpu_blocks"])) == (stats.block_tokens, stats.blocks_total)


@tap.case
def grammars_and_masks_are_counted():
    """A grammar twice, one that is refused twice, an answer without one."""
    good, bad = ({"kind": 1, "source": t} for t in (b'{"enum":["red","green"]}', b'{"not":{}}'))
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        for grammar in (good, good, bad, bad):
            a = c.clients[0].generate(text=b"Once", max_tokens=40, grammar=grammar, sampling={"temperature": 0.0})
            assert (a.finish is None) == (grammar is bad), a.error
        assert c.clients[0].generate(text=b"Once", max_tokens=2).finish
        f, stats = scrape(g), c.clients[0].call("Stats")[1]
        assert [value(f, "ingot_grammars", result=r) for r in ("compiled", "known", "dropped")] == [2, 2, 0]
        assert value(f, "ingot_grammars_refused") == 2
        times = one_histogram(f, "ingot_grammar_compile_seconds")
        assert times["count"] == 2 and us(times["sum"]) == stats.grammar_compile_us.sum
        assert value(f, "ingot_masks") == stats.masks > 2
        # the second answer's masks were all made by the first one
        assert value(f, "ingot_masks_cached") == stats.masks_cached >= stats.masks // 2
        assert us(value(f, "ingot_mask_seconds")) == stats.mask_us
        assert us(value(f, "ingot_mask_wait_seconds")) == stats.mask_wait_us


@tap.case
def turns_are_counted_as_pauses():
    with Parts(DEMO, worker=("--max-seqs", "1"), coordinator=("--turn-tokens", "4")) as c, \
            Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        a = c.clients[0].generate(text=b"Once upon a time", max_tokens=40, n=3, sampling={"seed": 1, "ignore_eos": True})
        f = scrape(g)
        assert value(f, "ingot_pauses") == c.clients[0].call("Stats")[1].pauses > 0
        assert value(f, "ingot_pauses") + value(f, "ingot_num_preemptions") == a.finish.preemptions


@tap.case
def figures_are_the_sums_of_the_requests():
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        done = finishes(c.clients[0], 7)
        f = scrape(g)
        ends = [s for _, m in done for s in m.sample]
        longest = [max(s.completion_tokens for s in m.sample) for _, m in done]
        want = {
            "ingot_e2e_request_latency_seconds": [m.total_us / 1e6 for _, m in done],
            "ingot_time_to_first_token_seconds": [m.first_token_us / 1e6 for _, m in done],
            "ingot_request_queue_time_seconds": [m.queue_us / 1e6 for _, m in done],
            "ingot_request_prompt_tokens": [m.prompt_tokens for _, m in done],
            "ingot_request_prefill_kv_computed_tokens": [m.prompt_tokens - m.cached_tokens for _, m in done],
            "ingot_request_generation_tokens": [s.completion_tokens for s in ends],
            "ingot_request_max_num_generation_tokens": longest,
            "ingot_request_params_max_tokens": [limit for limit, _ in done],
            "ingot_request_params_n": [len(m.sample) for _, m in done],
            "ingot_request_num_preemptions": [m.preemptions for _, m in done],
        }
        for name, values in want.items():
            h = one_histogram(f, name)
            assert h["count"] == len(values) and us(h["sum"]) == us(sum(values)), (name, h, values)
            for le, n in h["bucket"].items():
                assert n == sum(v <= float(le) for v in values), (name, le, n, values)
        tokens = sum(s.completion_tokens for s in ends)
        between = one_histogram(f, "ingot_inter_token_latency_seconds")
        assert between["count"] == tokens - len(ends)
        assert one_histogram(f, "ingot_request_time_per_output_token_seconds")["count"] == \
            sum(s.completion_tokens > 1 for s in ends)
        part = {p: us(one_histogram(f, f"ingot_request_{p}_time_seconds")["sum"])
                for p in ("queue", "prefill", "decode", "inference")}
        assert part["prefill"] + part["decode"] == part["inference"] > 0
        assert part["queue"] + part["prefill"] == us(one_histogram(f, "ingot_time_to_first_token_seconds")["sum"])
        assert value(f, "ingot_generation_tokens") == tokens
        assert value(f, "ingot_prompt_tokens") == sum(m.prompt_tokens for _, m in done)
        assert value(f, "ingot_prompt_tokens_cached") == sum(m.cached_tokens for _, m in done)
        assert value(f, "ingot_prompt_tokens_by_source", source="local_cache_hit") == sum(
            m.cached_tokens for _, m in done)
        assert value(f, "ingot_prompt_tokens_by_source", source="local_compute") == sum(
            m.prompt_tokens - m.cached_tokens for _, m in done)
        assert value(f, "ingot_prefix_cache_queries") == sum(m.prompt_tokens * len(m.sample) for _, m in done)
        assert 0 < value(f, "ingot_prompt_tokens_cached") <= value(f, "ingot_prefix_cache_hits")
        assert value(f, "ingot_request_success", finished_reason="length") == len(ends)
        assert value(f, "ingot_requests", outcome="finished") == len(done)
        steps = value(f, "ingot_steps")
        assert one_histogram(f, "ingot_iteration_tokens_total")["count"] == steps
        assert one_histogram(f, "ingot_step_seconds")["count"] == steps
        assert not histograms(f["ingot_collective_seconds"]), "one rank has no collectives"
        blocks = {s.labels["state"]: s.value for s in f["ingot_kv_blocks"].samples}
        assert sum(blocks.values()) == c.clients[0].call("Stats")[1].blocks_total and blocks["held"] == 0


@tap.case
def ends_and_refusals_have_reasons():
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        client = c.clients[0]
        client.generate(text=b"Once", max_tokens=4, sampling={"ignore_eos": True})
        client.generate(chat={"turn": [{"role": "user", "content": b"Hello"}]}, sampling={"temperature": 0})
        with c.held():
            rid = client.start(text=b"Once", max_tokens=500, sampling={"ignore_eos": True})
            assert client.recv()[0] == "Accepted"
            running = scrape(g)
            assert value(running, "ingot_num_requests_running") + value(running, "ingot_num_requests_waiting") == 1
            client.send("Cancel", request_id=rid)
            while client.recv()[0] != "Finish":
                pass
        f = scrape(g)
        assert value(f, "ingot_request_success", finished_reason="abort") == 1
        assert value(f, "ingot_request_success", finished_reason="stop") == 1
        assert value(f, "ingot_request_success", finished_reason="length") == 1
        assert value(f, "ingot_request_success", finished_reason="error") == 0
        assert one_histogram(f, "ingot_e2e_request_latency_seconds")["count"] == value(
            f, "ingot_requests", outcome="finished"), "cancelled ones are not among the times"
        before = value(f, "ingot_admission_rejections", reason="range")
        client.start(request_id="wrong", text=b"x", max_tokens=1, sampling={"top_p": 7.0})
        while client.recv()[0] != "Rejected":
            pass
        f = scrape(g)
        assert value(f, "ingot_admission_rejections", reason="range") == before + 1
        assert value(f, "ingot_requests", outcome="rejected") == sum(
            s.value for s in f["ingot_admission_rejections"].samples)


@tap.case
def http_answers_are_counted():
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        for _ in range(3):
            assert post(g, "/v1/completions", prompt="Once", max_tokens=2).status == 200
        assert post(g, "/v1/completions", prompt=7, max_tokens=2).status == 400
        assert g.get("/nothing").status == 404 and g.get("/v1/models/no").status == 404
        with g.connect() as h:
            assert h.get("/v1/models", method="HEAD").status == 200
        with g.connect() as h:
            h.send("nonsense\r\n\r\n")
            assert h.answer().status == 400
        f = scrape(g)
        got = {(s.labels["handler"], s.labels["method"], s.labels["status"]): s.value
               for s in f["http_requests"].samples}
        assert got == {("/v1/completions", "POST", "2xx"): 3, ("/v1/completions", "POST", "4xx"): 1,
                       ("other", "GET", "4xx"): 1, ("/v1/models/", "GET", "4xx"): 1, ("/v1/models", "HEAD", "2xx"): 1,
                       ("other", "other", "4xx"): 1}, got
        times = histograms(f["http_request_duration_seconds"])
        assert times[("handler", "/v1/completions"), ("method", "POST")]["count"] == 4, times
        assert value(f, "ingot_http_connections") == 1 == value(f, "ingot_http_requests_pending")
        assert value(f, "ingot_http_refused") == 0


@tap.case
def several_gateways_report_one_engine():
    """The coordinator's figures are equal at both with equal labels; what is a gateway's own is not."""
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as one, Gateway("--connect", c.endpoint) as other:
        one.wait_ready(), other.wait_ready()
        assert post(one, "/v1/completions", prompt="Once", max_tokens=9).status == 200
        a, b = scrape(one), scrape(other)
        mine = ("ingot_up", "ingot_http_", "http_")
        moving = ("ingot_uptime_seconds", "ingot_last_step_age_seconds")
        for name in a:
            if not name.startswith(mine + moving):
                assert a[name].samples == b[name].samples, name
        assert a["http_requests"].samples and not b["http_requests"].samples


@tap.case
def without_a_coordinator_the_rest_is_there():
    with Gateway("--connect", "ipc:///nonexistent/ingot") as g:
        f = scrape(g)
        assert value(f, "ingot_up") == 0 and not any("engine" in s.labels for m in f.values() for s in m.samples)
        assert value(f, "ingot_http_connections") == 1
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        assert value(scrape(g), "ingot_up") == 1
        os.kill(c.coordinator.pid, signal.SIGSTOP)  # it neither answers nor closes
        try:
            with g.connect() as slow:
                slow.request("/metrics")
                assert g.get("/health").status == 200, "the loop does not wait for the coordinator"
                a = slow.answer()
            assert a.status == 200 and b"\ningot_up 0\n" in a.body
            with g.connect() as gone:
                gone.request("/metrics")
        finally:
            os.kill(c.coordinator.pid, signal.SIGCONT)
        tap.wait_for(lambda: value(scrape(g), "ingot_up") == 1, "the coordinator answers again")
        os.kill(c.coordinator.pid, signal.SIGKILL)
        tap.wait_for(lambda: value(scrape(g), "ingot_up") == 0, "the coordinator is missed")


@tap.case
def a_lost_group_is_a_recovery():
    with Parts(DEMO, tp=2, coll="shm") as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        c.clients[0].generate(text=b"Once", max_tokens=5)
        f = scrape(g)
        group = f["ingot_group_ranks"].samples[0]
        assert group.value == 2 and group.labels["role"] == "active" and group.labels["coll"] == "shm", group
        steps = value(f, "ingot_steps")
        assert one_histogram(f, "ingot_collective_seconds")["count"] == steps
        assert one_histogram(f, "ingot_collective_seconds")["sum"] <= one_histogram(f, "ingot_step_seconds")["sum"]
        os.kill(c.worker_pids()[0], signal.SIGKILL)
        tap.wait_for(lambda: value(scrape(g), "ingot_ready") == 0, "the group is lost")
        f = scrape(g)
        assert value(f, "ingot_recoveries") == 1 and not f["ingot_group_ranks"].samples
        c.group()
        tap.wait_for(lambda: value(scrape(g), "ingot_ready") == 1, "another group runs the steps")
        assert value(scrape(g), "ingot_steps") == steps, "sums go on"


def of_ranks(families, name):
    return {(s.labels["group"], s.labels["rank"]): s.value for s in families[name].samples}


@tap.case
def figures_of_every_rank_and_group():
    with Parts(DEMO, tp=2, coll="shm", groups=2) as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        tap.wait_for(lambda: len([s for s in scrape(g)["ingot_group_ranks"].samples if s.labels["role"] == "active"]) == 2,
                     "both groups run steps")
        assert post(g, "/v1/completions", prompt="Once", max_tokens=40, n=8, ignore_eos=True, seed=1).status == 200

        def complete():
            f = scrape(g)
            n = of_ranks(f, "ingot_rank_steps")
            return f if len(n) == 4 and sum(v for (_, r), v in n.items() if r == "0") == value(f, "ingot_steps") else None
        f = tap.wait_for(complete, "the last steps are reported")
        steps, step = of_ranks(f, "ingot_rank_steps"), of_ranks(f, "ingot_rank_step_seconds")
        collective = of_ranks(f, "ingot_rank_collective_seconds")
        sent = {s.labels["group"]: s.value for s in f["ingot_step_seconds"].samples if s.name.endswith("_sum")}
        waited = {s.labels["group"]: s.value for s in f["ingot_collective_seconds"].samples if s.name.endswith("_sum")}
        for group, rank in steps:
            assert steps[group, rank] == steps[group, "0"], "every rank runs every step"
            assert 0 < collective[group, rank] < step[group, rank] < sent[group], (group, rank)
            assert us(collective[group, "0"]) == us(waited[group])
        blocks = {(s.labels["group"], s.labels["state"]): s.value for s in f["ingot_group_kv_blocks"].samples}
        for state in ("held", "cached", "free"):
            assert sum(v for (_, k), v in blocks.items() if k == state) == value(f, "ingot_kv_blocks", state=state)
        size = of_ranks(f, "ingot_rank_kv_cache_bytes")
        assert len(set(size.values())) == 1 and min(size.values()) > 0, "two ranks have half of the heads each"
        assert set(of_ranks(f, "ingot_rank_kv_held_bytes").values()) == {0}, "no sample runs"


@tap.case
def bytes_of_the_cache_in_use():
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        client = c.clients[0]
        client.generate(text=b"Once", max_tokens=4, sampling={"ignore_eos": True})
        tap.wait_for(lambda: of_ranks(scrape(g), "ingot_rank_steps"), "the first figures")
        with c.held():
            rid = client.start(text=b"Once", max_tokens=500, sampling={"ignore_eos": True})
            tap.wait_for(lambda: value(scrape(g), "ingot_kv_blocks", state="held") > 0, "the sample has blocks")
            f = scrape(g)
            held = value(f, "ingot_group_kv_blocks", group="0", state="held")
            size = value(f, "ingot_rank_kv_cache_bytes", rank="0")
            total = sum(s.value for s in f["ingot_kv_blocks"].samples)
            assert value(f, "ingot_rank_kv_held_bytes", rank="0") == size // total * held > 0
            client.send("Cancel", request_id=rid)


@tap.case
def labels_are_escaped_and_cut():
    for name, want in (('a"b\\c', 'a"b\\c'), ("m\u00e9" * 60, "m\u00e9" * 60), ("x" + "\u20ac" * 120, None)):
        with Parts(DEMO, coordinator=["--name", name]) as c, Gateway("--connect", c.endpoint) as g:
            g.wait_ready()
            label = scrape(g)["ingot_ready"].samples[0].labels["model_name"]
            assert label == want if want else name.startswith(label.rstrip("?")) and len(label) > 80, label


@tap.case
def who_may_read():
    with Gateway("--api-key", "secret") as g:
        assert value(scrape(g), "ingot_up") == 0, "open by default, as vLLM's is"
    with Gateway("--api-key", "secret", "--metrics-need-key") as g:
        a = g.get("/metrics")
        assert a.status == 401 and "ingot" not in a.body.decode(), a
        assert value(scrape(g, "Authorization: Bearer secret"), "ingot_up") == 0
    for prefix in ("9a_", "a b", "x" * 40, "a-b"):
        p = subprocess.run([GATEWAY, "--http", "127.0.0.1:0", "--metrics-prefix", prefix], capture_output=True,
                           text=True, timeout=tap.LIMIT)
        assert p.returncode == 2 and "--metrics-prefix" in p.stderr, p


if __name__ == "__main__":
    tap.main()
