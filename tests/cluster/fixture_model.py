"""A fixture of tests/golden/models as a model that a server takes."""
import json
import pathlib
import shutil


def with_tokenizer(fixture, folder):
    """The fixture, whose vocabulary has 104 tokens, in a folder with a tokenizer of one character a token."""
    out = pathlib.Path(folder) / fixture.name
    out.mkdir()
    for name in "config.json", "model.safetensors":
        shutil.copy(fixture / name, out / name)
    vocab = {chr(256 + i): i for i in range(9)} | {chr(33 + i): 9 + i for i in range(94)} | {chr(0x120): 103}
    (out / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}, "post_processor": None,
        "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": vocab, "merges": []}}))
    return out
