"""Writes tests/golden/embeddings: tiny random models as the sentence-transformers library stores them, and the embeddings
that it computes.

    python3 make_embeddings.py          # needs torch, transformers, sentence-transformers, tokenizers

base/NAME has a model's files; variants/NAME the modules that are laid over one of them; expected.json for each variant
the base, texts with the token ids that the library gives to the model, prompts, and the vectors (float32).
Each variant's vectors must differ from those of every other variant of its base by more than 1e-2 of the greatest
component, so that an option that is not obeyed is seen.
"""

import json
import pathlib
import shutil
import tempfile

import numpy as np
import sentence_transformers
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import MistralConfig, MistralModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

OUT = pathlib.Path(__file__).parent / "embeddings"
END = "<|endoftext|>"
TEXTS = ["What is Ingot?", "A fox ran over the hill and into the wood, where it slept until the morning came.", "x",
         "One, two, three; four, five, six; seven, eight, nine. " * 3]
PROMPTS = {"query": "Instruct: find what answers the question.\nQuery: ", "document": ""}
MODULES = "sentence_transformers.models."


def tokenizer():
    """Bytes and a few merges; the end of each text is marked, as Qwen3-Embedding's post-processor does."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {c: i for i, c in enumerate(alphabet)}
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("o", "w"), ("e", "n")]
    for a, b in merges:
        vocab[a + b] = len(vocab)
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([END])
    end = t.token_to_id(END)
    t.post_processor = processors.TemplateProcessing(single=f"$A {END}", pair=f"$A {END} $B {END}",
                                                     special_tokens=[(END, end)])
    return PreTrainedTokenizerFast(tokenizer_object=t, pad_token=END, eos_token=END), len(t.get_vocab())


def randomize(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        scale = 1.0 if "norm" in name else 0.15
        p.data = torch.randn(p.shape, generator=g) * scale * 0.5 + (1.0 if "norm" in name else 0.0)


def save_base(name, model, tok):
    path = OUT / "base" / name
    model.save_pretrained(path)
    tok.save_pretrained(path)
    (path / "generation_config.json").unlink(missing_ok=True)


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def flags(*modes, dim=32):
    names = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "sqrt": "mean_sqrt_len_tokens",
             "weighted": "weightedmean_tokens", "last": "lasttoken"}
    return {"word_embedding_dimension": dim} | {f"pooling_mode_{v}": k in modes for k, v in names.items()} | {
        "include_prompt": True}


def dense(path, n_in, n_out, act, bias, seed, dtype):
    from safetensors.torch import save_file
    g = torch.Generator().manual_seed(seed)
    tensors = {"linear.weight": (torch.randn(n_out, n_in, generator=g) * 0.4).to(dtype)}
    if bias:
        tensors["linear.bias"] = torch.randn(n_out, generator=g).to(dtype)
    write(path / "config.json", {"in_features": n_in, "out_features": n_out, "bias": bias,
                                 "activation_function": "torch.nn.modules." + act})
    save_file(tensors, path / "model.safetensors")


def variant(name, base, pooling, then=(), prompts=None, default=None, more=None):
    path = OUT / "variants" / name
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")] + [
        (m[0] if isinstance(m, tuple) else m, f"{i + 2}_{m[0] if isinstance(m, tuple) else m}") for i, m in enumerate(then)]
    write(path / "modules.json", [{"idx": i, "name": str(i), "path": p, "type": MODULES + t}
                                  for i, (t, p) in enumerate(modules)])
    write(path / "1_Pooling" / "config.json", pooling)
    for i, m in enumerate(then):
        if isinstance(m, tuple):
            dense(path / f"{i + 2}_Dense", *m[1:])
    write(path / "config_sentence_transformers.json", {
        "__version__": {"sentence_transformers": sentence_transformers.__version__}, "prompts": prompts or {},
        "default_prompt_name": default, "similarity_fn_name": "cosine"})
    if more:
        for file, value in more.items():
            write(path / file, value)
    return name, base


def expected(name, base):
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        shutil.copytree(OUT / "base" / base, d / "m")
        shutil.copytree(OUT / "variants" / name, d / "m", dirs_exist_ok=True)
        m = SentenceTransformer(str(d / "m"), device="cpu")
        rows = []
        for prompt in [None] + sorted(m.prompts if name == "last" else {}):
            for text in TEXTS:
                full = text if prompt is None and not m.default_prompt_name else m.prompts[
                    prompt or m.default_prompt_name] + text
                row = {"text": text, "tokens": m.tokenizer(full)["input_ids"],
                       "embedding": [float(np.float32(x)) for x in m.encode(text, prompt_name=prompt)]}
                rows.append(row | ({"prompt_name": prompt} if prompt else {}))
        return {"base": base, "rows": rows}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    tok, vocab = tokenizer()
    sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4,
                 head_dim=8, vocab_size=vocab, max_position_embeddings=1024, eos_token_id=vocab - 1, bos_token_id=None)
    qwen = Qwen3ForCausalLM(Qwen3Config(tie_word_embeddings=True, matryoshka_dimensions=[8, 16], **sizes))
    randomize(qwen, 1)
    save_base("qwen3", qwen, tok)
    # saved as its base class: names without "model.", no head
    bare = MistralModel(MistralConfig(tie_word_embeddings=False, sliding_window=24, **sizes))
    randomize(bare, 2)
    save_base("mistral-bare", bare, tok)
    rows = [
        variant("last", "qwen3", flags("last"), ["Normalize"], PROMPTS),
        variant("mean", "qwen3", flags("mean"), [], PROMPTS, "query",
                {"sentence_bert_config.json": {"max_seq_length": 250, "do_lower_case": False}}),
        variant("cls-max", "qwen3", flags("cls", "max"), ["Normalize"]),
        variant("names", "qwen3", {"embedding_dimension": 32, "pooling_mode": ["weightedmean", "mean_sqrt_len_tokens"],
                                   "include_prompt": True}),
        variant("dense", "qwen3", flags("mean"), [("Dense", 32, 12, "activation.Tanh", True, 3, torch.float32),
                                                  ("Dense", 12, 20, "linear.Identity", False, 4, torch.float16), "Normalize"]),
        variant("bare", "mistral-bare", flags("last"), ["Normalize"]),
    ]
    all_rows = {name: expected(name, base) for name, base in rows}
    for a in all_rows:
        for b in all_rows:
            if a < b and all_rows[a]["base"] == all_rows[b]["base"]:
                x, y = (np.array(all_rows[k]["rows"][1]["embedding"]) for k in (a, b))
                assert x.shape != y.shape or abs(x - y).max() > 1e-2 * abs(y).max(), (a, b)
    (OUT / "expected.json").write_text(json.dumps(all_rows) + "\n")


main()
