"""Converts the fixtures of tests/golden/models with llama.cpp's own converter.

    python3 foreign_gguf.py LLAMA_CPP [NAME ...]

LLAMA_CPP is a checkout of ggml-org/llama.cpp with convert_hf_to_gguf.py, conversion/ and gguf-py/ (the source
distribution of the PyPI package llama-cpp-python has one as vendor/llama.cpp).  Needs torch, transformers and the
converter's requirements.  Writes gguf/NAME.gguf beside this file, for every fixture in NAMES or those named.

The converter runs unchanged but for its vocabulary: it knows tokenizers by the hash of what they encode, and the
fixtures have no tokenizer. It gets config.json of GPT-NeoX, Granite 4 and Nemotron-H as it is, because transformers 5 renames a key
or a value that the converter reads, and GPT-2's weights without the causal masks, of which this version knows no name.
"""

import json
import pathlib
import sys
import tempfile

from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
NAMES = ["llama-attention-bias", "llama-rope-llama3", "llama-rope-yarn-factor", "mixtral", "qwen2", "qwen3", "qwen3moe",
         "gemma-plain-bf16", "gemma2-bf16", "gemma3-plain-bf16", "ministral3", "mistral3-vision", "phi3-long",
         "phi3-partial-bf16", "smollm3-bias-bf16", "granite", "granitemoe-bf16", "glm4", "exaone4",
         "deepseek2-lite-bf16", "deepseek3", "moonlight-bf16", "minicpm3", "qwen3next", "qwen35", "qwen35-uneven-bf16",
         "qwen35moe-bf16", "neox", "neox-sequential-bf16", "gpt2", "gpt2-bare-bf16", "gemma4", "gemma4-values-bf16",
         "gemma4-vision", "gemma4-inputs", "gemma4-inputs-bf16", "gemma4-moe", "gemma4-moe-bf16", "gemma3n",
         "gemma3n-vision-bf16", "gemma3n-widths", "olmo2", "olmoe", "qwen2moe",
         "seed-oss", "ernie45", "cohere", "cohere2", "glm4moe", "dots1", "minimax-m2", "granite-hybrid",
         "granite-hybrid-dense", "falcon-h1", "falcon-h1-gate", "nemotron-h", "nemotron-h-moe", "llama4-plain-bf16",
         "bamba", "bamba-groups-bf16"]


def folder(name, into):
    """The fixture with as many tokens in a tokenizer.json as it has embeddings: Gemma's are counted there."""
    source = HERE / "models" / name
    for f in source.iterdir():
        if f.name == "model.safetensors" and name.startswith("gpt2"):
            kept = {k: v for k, v in load_file(f).items() if not k.endswith((".attn.bias", ".attn.masked_bias"))}
            save_file(kept, into / f.name, metadata={"format": "pt"})
        elif f.suffix in (".json", ".safetensors") and f.name != "expected.json":
            (into / f.name).symlink_to(f.resolve())
    config = json.loads((source / "config.json").read_text())
    n = (config.get("text_config") or config)["vocab_size"]
    (into / "tokenizer.json").write_text(json.dumps(
        {"model": {"type": "BPE", "vocab": {f"t{i}": i for i in range(n)}, "merges": []}, "added_tokens": []}))
    return into


def convert(name):
    import gguf
    import torch
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    from conversion.llama import LlamaModel
    with tempfile.TemporaryDirectory() as d, torch.inference_mode():
        source = folder(name, pathlib.Path(d))
        hparams = ModelBase.load_hparams(source, False)
        base = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
        for cls in (*base.__mro__, LlamaModel):  # Mistral 3 delegates to a LlamaModel
            if "set_vocab" in vars(cls):
                cls.set_vocab = lambda self: None
        if hasattr(base, "no_mtp"):  # the fixtures have no layers that predict further tokens
            base.no_mtp = True
        if hparams["model_type"] in ("gpt_neox", "granitemoehybrid", "nemotron_h"):
            hparams = json.loads((source / "config.json").read_text())
        out = HERE / "gguf" / f"{name}.gguf"
        out.parent.mkdir(exist_ok=True)
        kind = gguf.LlamaFileType.MOSTLY_BF16 if name.endswith("bf16") else gguf.LlamaFileType.ALL_F32
        base(source, kind, out, eager=True, model_name=name, hparams=hparams).write()
        print(f"{name:24} {out.stat().st_size:8} bytes", flush=True)


def main():
    peer = pathlib.Path(sys.argv[1])
    sys.path[:0] = [str(peer), str(peer / "gguf-py")]
    for name in sys.argv[2:] or NAMES:
        convert(name)


if __name__ == "__main__":
    main()
