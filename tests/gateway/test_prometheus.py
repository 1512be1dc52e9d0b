"""A real Prometheus scrapes two gateways of one coordinator; the board and the alert rules in deploy/ ask for metrics
that exist, and Prometheus can evaluate all of them."""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import DEMO, ROOT, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402
from scrape import parse  # noqa: E402

RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
BOARD = ROOT / "deploy" / "grafana" / "ingot.json"
OF_PROMETHEUS = {"up"}  # made by Prometheus itself
# What promtool finds in names that are vLLM's.
KNOWN_LINT = {'ingot_iteration_tokens_total non-counter metrics should not have "_total" suffix'}


def need(program):
    if not shutil.which(program):
        raise tap.Skip(f"needs {program} (Debian's package prometheus)")


def board_expressions():
    board = json.loads(BOARD.read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$model_name", ".*")


def rule_expressions():
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def names_in(expression):
    """The metrics of an expression: a name before '{', '[' or a comparison, no function and no label."""
    text = re.sub(r'"[^"]*"', "", expression)
    text = re.sub(r"\b(by|ignoring|group_left|on)\s*(\([^)]*\))?", "", text)
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", text)
    words = re.findall(r"[a-z_:][a-z0-9_:]*(?![a-z0-9_:]*\s*\()", text)
    return set(words) - {"and", "or", "unless", "bool"}


@tap.case
def board_and_rules_name_what_exists():
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        with g.connect() as h:
            assert h.post("/v1/completions", b'{"prompt":"Once","max_tokens":3}').status == 200
        text = g.get("/metrics").body.decode()
    exist = set(re.findall(r"^([a-z_:][a-z0-9_:]*)[{ ]", text, re.M)) | {f.name for f in parse(text).values()}
    exist |= {f"{name}_bucket" for name in re.findall(r"^# TYPE (\S+) histogram", text, re.M)}
    used = 0
    for title, expression in (*board_expressions(), *rule_expressions()):
        names = names_in(expression)
        assert names and names <= exist | OF_PROMETHEUS, (title, names - exist, expression)
        used += len(names)
    assert used > 40, "the expressions were read"
    board = json.loads(BOARD.read_text())
    assert len({p["id"] for p in board["panels"]}) == len(board["panels"]) == 15
    assert all(p["title"] and p["description"] for p in board["panels"])


@tap.case
def promtool_agrees():
    need("promtool")
    p = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True)
    assert p.returncode == 0 and "12 rules found" in p.stdout, p
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        text = g.get("/metrics").body.decode()
    p = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert set(p.stderr.splitlines()) <= KNOWN_LINT, p.stderr


class Prometheus:
    def __init__(self, *targets):
        self.dir = pathlib.Path(temp_dir.make())
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(RULES)],
                  "scrape_configs": [{"job_name": "ingot", "static_configs": [{"targets": list(targets)}]}]}
        (self.dir / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.log = open(self.dir / "log", "w")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.dir}/prometheus.yml", f"--storage.tsdb.path={self.dir}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def ask(self, path, **query):
        assert self.process.poll() is None, (self.dir / "log").read_text()[-3000:]
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=tap.LIMIT) as r:
                return json.load(r)["data"]
        except urllib.error.HTTPError as e:
            if e.code == 503:  # it starts
                return None
            raise AssertionError((query, e.read().decode())) from e
        except urllib.error.URLError:  # not up yet
            return None

    def query(self, expression):
        data = self.ask("query", query=expression)
        return [(r["metric"], float(r["value"][1])) for r in data["result"]] if data else []


@tap.case
def a_prometheus_scrapes_and_evaluates():
    need("prometheus")
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as one, Gateway("--connect", c.endpoint) as other:
        one.wait_ready(), other.wait_ready()
        with Prometheus(*(f"127.0.0.1:{g.port}" for g in (one, other))) as p:
            tap.wait_for(lambda: [v for _, v in p.query("sum(ingot_up)")] == [2], "both are scraped")
            done = c.clients[0].generate(text=b"Once upon a time", max_tokens=21, sampling={"ignore_eos": True})
            tokens = "sum(max by (model_name, engine) (ingot_generation_tokens_total))"
            tap.wait_for(lambda: [v for _, v in p.query(tokens)] == [21], "the tokens, once and not twice")
            (_, total), = tap.wait_for(
                lambda: p.query("max by (engine) (ingot_e2e_request_latency_seconds_sum) > 0"), "the latency")
            assert round(total * 1e6) == done.finish.total_us, (total, done.finish)
            for title, expression in (*board_expressions(), *rule_expressions()):
                p.query(expression)  # raises when it cannot be evaluated
            (label, _), = p.query("max by (model_name, engine) (ingot_ready)")
            assert label == {"model_name": "demo-model", "engine": f"{c.clients[0].welcome.epoch:016x}"}
            rules = tap.wait_for(lambda: [r for g in p.ask("rules")["groups"] for r in g["rules"]
                                          if r["health"] != "unknown"][11:], "the rules are evaluated")
            assert all(r["health"] == "ok" for r in rules)
            c.coordinator.kill()
            tap.wait_for(lambda: [a for a in p.ask("alerts")["alerts"]
                                  if a["labels"]["alertname"] == "IngotCoordinatorDown"][1:], "an alert for each gateway")


if __name__ == "__main__":
    tap.main()
