#!/usr/bin/env python3
"""JSON-Schema-Test-Suite, required parts of drafts 7, 2019-09 and 2020-12, on the compiler of schemas: the instances,
written compactly with members in the schema's order, go through the matcher.

No invalid instance may be taken.  Valid ones that are not taken, and schemas that are refused, are in schema_suite.txt,
which may only become shorter: DRAFT FILE GROUP refused, or DRAFT FILE GROUP/INSTANCE not_taken, by their indices.
INGOT_WRITE_BASELINE=1 writes the file."""
import json
import os
import pathlib
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packages  # noqa: E402
import tap  # noqa: E402
from probe import Probe, Refused  # noqa: E402

BASELINE = pathlib.Path(__file__).with_name("schema_suite.txt")
DRAFTS = {"draft7": "http://json-schema.org/draft-07/schema#", "draft2019-09": None, "draft2020-12": None}  # schemas there name theirs


def groups():
    """(draft, file, index, schema, its instances)"""
    with tarfile.open(packages.json_schema_suite()) as archive:
        for member in sorted(archive.getmembers(), key=lambda m: m.name):
            _, *path = member.name.split("/")
            if len(path) != 4 or path[:2] != ["json", "tests"] or path[2] not in DRAFTS or not path[3].endswith(".json"):
                continue
            draft = DRAFTS[path[2]]
            for i, group in enumerate(json.load(archive.extractfile(member))):
                schema = group["schema"]
                if draft and isinstance(schema, dict) and "$schema" not in schema:
                    schema = {"$schema": draft, **schema}
                yield path[2], path[3].removesuffix(".json"), i, schema, group["tests"]


def names_in_order(schema, order):
    """The names of members as the schema's objects list them: properties, then what is required besides."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            for name in schema["properties"]:
                order.setdefault(name, len(order))
        for value in schema.values():
            names_in_order(value, order)
        if isinstance(schema.get("required"), list):
            for name in schema["required"]:
                order.setdefault(str(name), len(order))
    elif isinstance(schema, list):
        for value in schema:
            names_in_order(value, order)
    return order


def rewritten(value, order):
    if isinstance(value, dict):
        return {k: rewritten(value[k], order) for k in sorted(value, key=lambda k: order.get(k, len(order)))}
    if isinstance(value, list):
        return [rewritten(v, order) for v in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def compact(value, order):
    text = json.dumps(rewritten(value, order), ensure_ascii=False, separators=(",", ":"))
    return text.replace("\x7f", "\\u007f").encode()


def failures():
    """([lines of the baseline], cases compiled, cases refused); an invalid instance that is taken fails the test."""
    lines, compiled, refused = [], 0, 0
    with Probe() as probe:
        for draft, file, i, schema, instances in groups():
            try:
                probe.compile("schema", json.dumps(schema))
            except Refused as e:
                assert str(e), (draft, file, i)
                lines.append("%s %s %d refused" % (draft, file, i))
                refused += len(instances)
                continue
            compiled += len(instances)
            order = names_in_order(schema, {})
            for k, instance in enumerate(instances):
                taken = probe.matches(compact(instance["data"], order))
                assert instance["valid"] or not taken, "%s %s %d/%d: an invalid instance is taken" % (draft, file, i, k)
                if not taken and instance["valid"]:
                    lines.append("%s %s %d/%d not_taken" % (draft, file, i, k))
    return lines, compiled, refused


@tap.case
def no_invalid_instance_and_no_new_refusal():
    lines, compiled, refused = failures()
    not_taken = sum(line.endswith("not_taken") for line in lines)
    print("%d cases compiled, %d of them not taken; %d cases refused" % (compiled, not_taken, refused))
    assert compiled > 1500 and not_taken <= 0.03 * compiled
    if os.environ.get("INGOT_WRITE_BASELINE"):
        BASELINE.write_text("\n".join(lines) + "\n")
    known = BASELINE.read_text().split("\n")[:-1]
    assert not set(lines) - set(known), "new: %s" % sorted(set(lines) - set(known))
    assert lines == known, "take these out of %s: %s" % (BASELINE.name, sorted(set(known) - set(lines)))


@tap.case
def no_more_refusals_than_llguidance():
    """Both with compact JSON; llguidance over the vocabulary of single bytes."""
    other = packages.llguidance()
    tokenizer = other.LLTokenizer("byte")
    refused, taken = 0, 0
    for draft, file, i, schema, instances in groups():
        if isinstance(schema, bool):  # it reads options out of an object
            schema = {"allOf": [schema]}
        grammar = other.LLMatcher.grammar_from_json_schema(json.dumps(schema), defaults={"whitespace_flexible": False})
        if other.LLMatcher(tokenizer, grammar, log_level=0).is_error():
            refused += len(instances)
        else:
            taken += len(instances)
    _, compiled, ours = failures()
    print("cases refused: %d, llguidance %d; compiled: %d and %d" % (ours, refused, compiled, taken))
    assert taken > 1000 and ours <= refused


if __name__ == "__main__":
    tap.main()
