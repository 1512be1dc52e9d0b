"""The documents: each file that they name is there, and each option is one of a program's or of a script's."""
import os
import re
import subprocess

from cli_tools import BIN, INGOT
import tap
from cluster import ROOT

OURS = ("backends", "client", "cmake", "collectives", "common", "coordinator", "deploy", "docs", "proto", "tests", "worker")
KINDS = "c|h|cu|py|sh|md|proto|json|ya?ml|metal|txt|svg|png|cmake|sbatch"  # of files that documents name
SOURCES = (".c", ".h", ".cu", ".py", ".sh", ".cmake", ".sbatch", ".txt")
# files that a document tells to make, of a model, or of another project
OTHER_FILES = {"X.c", "X.h", "_request.c", "tekken.json", "llama2.c", "result.json", "metal-check.json"}
# of sbatch, docker and llama.cpp's converter
OTHER_OPTIONS = {"gpus-per-node", "read-only", "rm", "no-mtp"}


def files():
    """Paths of the source tree, without what a build or a run leaves there."""
    found = set()
    for folder, below, names in os.walk(ROOT):
        below[:] = [d for d in below if (not d.startswith(".") or d == ".github") and d not in ("__pycache__", "shared")
                    and not (folder == str(ROOT) and d.startswith("build"))]
        found.update(os.path.relpath(os.path.join(folder, n), ROOT) for n in names)
    return found


FILES = files()
FOLDERS = {os.path.dirname(f) for f in FILES} | {os.path.dirname(os.path.dirname(f)) for f in FILES}
DOCUMENTS = {f: (ROOT / f).read_text() for f in sorted(FILES) if f.endswith(".md")}


def found(pattern):
    for document, text in DOCUMENTS.items():
        for m in re.finditer(pattern, text):
            yield f"{document}:{text.count(chr(10), 0, m.start()) + 1}", document, m.group(1)


@tap.case
def the_files_exist():
    assert len(DOCUMENTS) >= 10
    ends = {f[i:] for f in FILES for i in [0, *(k + 1 for k, c in enumerate(f) if c == "/")]}
    wrong = []
    for place, document, name in found(rf"(?<![\w/.$<-])(\.?/?(?:[\w.-]+/)*[\w-][\w.-]*\.(?:{KINDS}))\b(?![\w*/])"):
        beside = os.path.normpath(os.path.join(os.path.dirname(document), name))
        inside = re.sub(r"^(\.\.?/|DIR/)+", "", name)
        if not ({inside, beside} & ends or os.path.basename(name) in OTHER_FILES):
            wrong.append(f"{place}: {name}")
    for place, _, name in found(rf"(?<![\w/.<-])((?:{'|'.join(OURS)})/[\w./-]*\w)"):
        if name not in FILES | FOLDERS and not any(f.startswith(name + ".") for f in FILES):
            wrong.append(f"{place}: {name}")
    assert not wrong, "\n".join(wrong)


def help_of(*command):
    p = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=tap.LIMIT)
    assert p.returncode == 0, (command, p)
    return p.stdout


@tap.case
def the_options_exist():
    table = help_of(INGOT)
    texts = [table, *(help_of(INGOT, c) for c in re.findall(r"^  ([a-z-]+)  ", table, re.M) if c != "help"),
             help_of(INGOT, "replay", "recompute"), help_of(INGOT, "models", "list"),
             *(help_of(BIN / f"ingot-{p}") for p in ("coordinator", "gateway", "worker", "text"))]
    texts += [(ROOT / f).read_text(errors="replace") for f in FILES if f.endswith(SOURCES)]
    known = {o.removeprefix("no-") for t in texts for o in re.findall(r"--(?:\[no-\])?([a-z][\w-]+)", t)}
    known |= {o for t in texts for o in re.findall(r'"([a-z][\w-]+)"', t)}  # rows of a table of options
    wrong = [f"{place}: --{name}" for place, _, name in found(r"(?<![\w-])--([a-z][\w-]+)")
             if name.removeprefix("no-") not in known and name not in OTHER_OPTIONS]
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    tap.main()
