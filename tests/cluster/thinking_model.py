"""The demo model with marks of thinking: two tokens of its own ("special"), or text of several ("spelled").  Its template
begins an answer inside thinking with the variable opens, and closes it with enable_thinking false."""
import json
import pathlib
import shutil

from cluster import DEMO

MARKS = {"special": ("<think>", "</think>"), "spelled": ("[THINK]", "[/THINK]")}
OPEN_ID, CLOSE_ID = 2046, 2047  # of "special"


def make(kind, folder):
    """The model in a folder; (path, opening mark, closing mark)."""
    out = pathlib.Path(folder) / kind
    mark, end = MARKS[kind]
    shutil.copytree(DEMO, out)
    config = json.loads((out / "tokenizer_config.json").read_text())
    config["chat_template"] += (
        f"{{% if opens %}}{{{{ '{mark}\\n' }}}}{{% endif %}}"
        f"{{% if enable_thinking is defined and not enable_thinking %}}{{{{ '{mark}\\n\\n{end}\\n\\n' }}}}{{% endif %}}")
    (out / "tokenizer_config.json").write_text(json.dumps(config))
    if kind == "special":
        tokenizer = json.loads((out / "tokenizer.json").read_text())
        model = tokenizer["model"]
        names = {i: name for name, i in model["vocab"].items()}
        lost = {names[OPEN_ID], names[CLOSE_ID]}
        for i, name in (OPEN_ID, mark), (CLOSE_ID, end):
            del model["vocab"][names[i]]
            model["vocab"][name] = i
            tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": i, "content": name})
        model["merges"] = [m for m in model["merges"]
                           if "".join(m if isinstance(m, list) else m.split(" ")) not in lost]
        (out / "tokenizer.json").write_text(json.dumps(tokenizer))
    return out, mark, end
