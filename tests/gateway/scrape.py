"""What a scrape of /metrics has, parsed by prometheus_client and checked against the rules of the format."""
from prometheus_client.parser import text_string_to_metric_families


def scrape(gateway, *headers):
    """The families by name, as the parser names them: counters without _total."""
    a = gateway.get("/metrics", *headers)
    assert a.status == 200 and a.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8", a
    return parse(a.body.decode())


def parse(text):
    assert text.endswith("\n") and "\r" not in text
    families = {}
    for f in text_string_to_metric_families(text):
        assert f.name not in families, f"{f.name} twice"
        assert f.type in ("counter", "gauge", "histogram") and f.documentation, f.name
        seen = [(s.name, tuple(sorted(s.labels.items()))) for s in f.samples]
        assert len(seen) == len(set(seen)), f"{f.name}: a sample twice"
        if f.type == "histogram":
            for key, h in histograms(f).items():
                bounds = [float(le) for le in h["bucket"]]
                counts = list(h["bucket"].values())
                assert bounds == sorted(bounds) and counts == sorted(counts), (f.name, key)
                assert bounds[-1] == float("inf") and counts[-1] == h["count"], (f.name, key)
                assert h["sum"] == 0 if h["count"] == 0 else h["sum"] >= 0, (f.name, key)
        families[f.name] = f
    return families


def histograms(family):
    """bucket, sum and count by labels."""
    found = {}
    for s in family.samples:
        labels = {k: v for k, v in s.labels.items() if k != "le"}
        h = found.setdefault(tuple(sorted(labels.items())), {"bucket": {}})
        part = s.name.removeprefix(family.name + "_")
        if part == "bucket":
            h["bucket"][s.labels["le"]] = s.value
        else:
            h[part] = s.value
    return found


def one_histogram(families, name):
    (h,) = histograms(families[name]).values()
    return h


def value(families, name, **labels):
    """Of the one sample that has these labels."""
    (v,) = [s.value for s in families[name].samples if labels.items() <= s.labels.items()]
    return v
