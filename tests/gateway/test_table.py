"""The table of README.md: each behaviour names tests that exist."""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
import tap  # noqa: E402

# what does not exist yet: rows may say "later" for these alone
LATER = ("adapter", "draft")
ROWS = [[cell.strip() for cell in line.strip("|\n").split("|")]
        for line in (HERE / "README.md").read_text().splitlines() if re.match(r"\| \d+ \|", line)]


@tap.case
def enough_rows():
    assert len(ROWS) >= 80 and [int(r[0]) for r in ROWS] == list(range(1, len(ROWS) + 1))
    assert all(len(r) == 4 and r[1] in "LV" and r[2] and r[3] for r in ROWS)


@tap.case
def tests_exist():
    for number, _, behaviour, held in ROWS:
        if held.startswith("later"):
            assert any(word in behaviour for word in LATER), f"row {number} is later"
            continue
        found = 0
        for part in held.split(";"):
            m = re.match(r"((?:\.\./cluster/)?test_\w+|api|openai_http)(?:: |\.)(.*)", part.strip())
            if not m:
                continue
            text = (HERE / f"{m.group(1)}.py").read_text()
            for name in re.findall(r"\b[a-z]\w*_\w+\b|\b(?:keys|models|messages|schemas|echo|reasoning|preflight|origins|content|fields)\b"
                                   r"|\b\w+(?=\(\))", m.group(2).split(" checks")[0]):
                assert re.search(rf"def {name}\(", text), f"row {number}: {m.group(1)} has no {name}"
                found += 1
            found += m.group(2).startswith("the cases of each format")
        assert found, f"row {number} names no test: {held}"


if __name__ == "__main__":
    tap.main()
