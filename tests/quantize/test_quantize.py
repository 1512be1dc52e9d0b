"""ingot quantize: what it writes is what its summary says, other readers read it, Ingot serves it with the ids of the
source; split files; and what goes wrong leaves nothing behind."""
import json
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "cli"), str(HERE.parent / "cluster")]
import gguf_parts  # noqa: E402
import random_model  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cli_tools import INGOT, ingot, ok  # noqa: E402
from cluster import DATA, DEMO, model  # noqa: E402

DIR = pathlib.Path(temp_dir.make())
TEXT = HERE.parents[1] / "README.md"
PROMPT = "Once upon a time"
# KL divergence at most, share of equal first choices at least; the worst measured, on stories260K (260,000 weights,
# a text far from its own), was 0.297 and 0.61 for q4_0, 0.0024 and 0.967 for q8_0; activations are in 8 bits
BOUNDS = {"q8_0": (0.005, 0.95), "q4_0": (0.35, 0.55), "q4_k": (0.1, 0.75)}
_wide = []


def wide():
    """A model with rows of 256."""
    if not _wide:
        _wide.append(random_model.make(DIR / "wide"))
    return _wide[0]


def wide_llama4(folder, rng, sparse=1, **more):
    """Writes a Llama 4 with rows of 256 and the usual options: of two layers one is dense, in the other one (sparse) tokens
    go to all 4 experts."""
    import numpy as np
    d, ffn, experts, text = 256, 512, 4, json.loads((wide() / "config.json").read_text())
    text |= {"architectures": ["Llama4ForCausalLM"], "model_type": "llama4_text", "num_local_experts": experts,
             "num_experts_per_tok": experts, "interleave_moe_layer_step": 2, "intermediate_size": 256,
             "intermediate_size_mlp": ffn, "tie_word_embeddings": False, **more}
    tensors = {"model.embed_tokens.weight": (2048, d), "lm_head.weight": (2048, d), "model.norm.weight": (d,)}
    for i in (0, 1):
        at = f"model.layers.{i}."
        tensors |= {at + f"self_attn.{n}_proj.weight": s for n, s in
                    (("q", (256, d)), ("k", (128, d)), ("v", (128, d)), ("o", (d, 256)))}
        tensors |= {at + n + ".weight": (d,) for n in ("input_layernorm", "post_attention_layernorm")}
        feed, width = (at + "feed_forward.shared_expert.", 256) if i == sparse else (at + "feed_forward.", ffn)
        tensors |= {feed + f"{n}_proj.weight": s for n, s in
                    (("gate", (width, d)), ("up", (width, d)), ("down", (d, width)))}
    at = f"model.layers.{sparse}.feed_forward."
    tensors |= {at + "router.weight": (experts, d), at + "experts.gate_up_proj": (experts, d, 512),
                at + "experts.down_proj": (experts, 256, d)}
    folder.mkdir()
    values = {}
    for name, shape in tensors.items():
        fan = 1 if len(shape) == 1 else shape[1]  # of experts [E, in, out] the same
        x = rng.standard_normal(shape) * (0.1 if len(shape) == 1 else 0.15 if "embed" in name else fan ** -0.5)
        values[name] = (x + (len(shape) == 1)).astype(np.float32)
    random_model.save(folder, text, values)


def quantize(source, name, kind, *more):
    out = DIR / name
    summary = json.loads(ok("quantize", source, out, "--type", kind, "--json", "--overwrite", *more))
    assert summary["bytes"] == out.stat().st_size and summary["file"] == str(out)
    types = gguf_parts.Reader(out).types()
    assert {t["name"]: t["type"] for t in summary["tensors"]} == types
    assert sum(t["tensors"] for t in summary["types"]) == len(types)
    return out, summary


def ids(m):
    return ok("tokenize", m, "--text-file", TEXT)


def answer(m):
    return ok("run", m, "--prompt", PROMPT, "--temperature", "0", "--max-tokens", "24")


def prompt(m, *messages):
    """What the chat template makes of them."""
    return ok("template", m, "--messages", "-", stdin=json.dumps([{"role": "user", "content": c} for c in messages]))


def sources():
    return [s for s in (DEMO, model("stories260K")) if s]


@tap.case
def same_ids_and_a_served_answer():
    for source in sources():
        want = ids(source)
        for kind in ("q8_0", "q4_0", "q4_k"):
            out, summary = quantize(source, f"{source.name}-{kind}.gguf", kind, "--text", TEXT, "--text-tokens", "600")
            assert ids(out) == want, f"{source.name} as {kind}: other token ids"
            q = summary["quality"]
            assert q["tokens"] == min(600, len(want.split()))
            kl, same = BOUNDS[kind]
            assert 0 < q["kl_mean"] < kl and q["kl_mean"] < q["kl_99"], (source.name, kind, q)
            assert q["same_top"] > same, (source.name, kind, q)
            assert len(answer(out).split()) > 3


@tap.case
def f32_is_the_same_model():
    """Renamed, reordered for RoPE over neighbours, and nothing lost: so is a copy of the copy."""
    for source in (*sources(), wide()):
        out, summary = quantize(source, "plain.gguf", "f32", "--text", TEXT, "--text-tokens", "300")
        q = summary["quality"]
        assert abs(q["kl_mean"]) < 1e-9 and q["same_top"] == 1, (source.name, q)
        assert all(t["rms_error"] == 0 for t in summary["types"])
        again, _ = quantize(out, "again.gguf", "f32")
        a, b = gguf_parts.Reader(out), gguf_parts.Reader(again)
        assert sorted(a.keys) == sorted(b.keys) and sorted(a.tensors) == sorted(b.tensors)


def with_rope(name, **scaling):
    """The wide model under another rope_scaling."""
    folder = DIR / name
    shutil.copytree(wide(), folder)
    c = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(c | {"rope_scaling": scaling}))
    return folder


@tap.case
def stretched_rope():
    """A factor of YaRN below 1 leaves the attention as it is; GGUF has no key for truncate false."""
    for factor in (4.0, 0.5):
        m = with_rope(f"yarn-{factor}", rope_type="yarn", factor=factor, original_max_position_embeddings=64)
        _, summary = quantize(m, "yarn.gguf", "f32", "--text", TEXT, "--text-tokens", "300")
        q = summary["quality"]
        assert abs(q["kl_mean"]) < 1e-9 and q["same_top"] == 1, (factor, q)
    m = with_rope("yarn-real", rope_type="yarn", factor=4.0, original_max_position_embeddings=64, truncate=False)
    out = DIR / "yarn-real.gguf"
    p = ingot("quantize", m, out, "--type", "f32")
    assert p.returncode == 3 and "truncate" in p.stderr and not out.exists(), (p.returncode, p.stderr)


@tap.case
def as_the_public_converter_writes_it():
    """stories260K's model.gguf comes from llama.cpp's converter."""
    source = model("stories260K")
    if not source:
        raise tap.Skip("no shared data: models/stories260K")
    out, _ = quantize(source, "stories.gguf", "f32")
    ours, theirs = gguf_parts.Reader(out), gguf_parts.Reader(source / "model.gguf")
    assert sorted(ours.tensors) == sorted(theirs.tensors), "tensors differ"
    for key in ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.bos_token_id",
                "tokenizer.ggml.model", "llama.rope.freq_base", "llama.attention.head_count_kv"):
        assert ours.value(key) == theirs.value(key), key


@tap.case
def tensors_as_llama_cpp_writes_them():
    """tests/golden/gguf was made by llama.cpp's converter from tests/golden/models: the same tensors to the byte, and
    each key of the architecture that it writes; ours beside them are those of `more`."""
    import gguf
    close = {"rope_freqs.weight"}  # theirs are computed in f32, ours in f64
    ulps = 2.4e-7  # relative: in -e^A_log the exponential is torch's, ours that of the loader
    # the fixtures' layers are 3 apart; their converter writes transformers' default, which those layers do not follow
    differ = {f"{a}.full_attention_interval" for a in ("qwen35", "qwen35moe")} | {
        # theirs is always 2 ** 20
        "granitehybrid.context_length", "nemotron_h.context_length", "nemotron_h_moe.context_length",
        # there is no RoPE
        "nemotron_h.rope.dimension_count", "nemotron_h_moe.rope.dimension_count"}
    # Granite 4 without Mamba-2: theirs has keys of the layers that it lacks, and the width of a feed-forward that no layer has
    micro = ("granite.attention.head_count_kv", "granite.expert_", "granite.feed_forward_length",
             "granite.rope.scaling.finetuned", "granite.ssm.")
    # Falcon-H1's products of two factors: theirs is rounded twice
    rounded = ("attn_k.weight", "ssm_in.weight")
    other = {"mistral3-vision": "llama"}  # a Mistral: theirs has the keys of mistral3, ours of llama
    also = {"llama-rope-yarn-factor": "llama.rope.scaling.yarn_attn_factor"}  # ours: rope.scaling.attn_factor
    more = {"vocab_size", "attention.head_count_kv", "attention.key_length", "attention.value_length",
            "rope.dimension_count", "rope.freq_base",  # theirs are defaults
            "expert_weights_norm", "expert_gating_func",  # false, and the usual one
            "rope.scaling.attn_factor", "rope.scaling.original_context_length"}  # theirs of LongRoPE are the tensors alone
    golden = HERE.parent / "golden"
    for file in sorted((golden / "gguf").glob("*.gguf")):
        kind = "bf16" if file.stem.endswith("bf16") else "f32"
        out, _ = quantize(golden / "models" / file.stem, "theirs.gguf", kind)
        ours, theirs = gguf.GGUFReader(out), gguf.GGUFReader(file)
        ours_t, theirs_t = ({t.name: t for t in r.tensors} for r in (ours, theirs))
        # what is never read: keys and values of layers that share others'
        never = {"gemma4-inputs-bf16": [f"blk.{i}.attn_{part}.weight" for i in (3, 4) for part in "kv"],
                 "gemma3n-vision-bf16": [f"blk.2.attn_{part}.weight" for part in ("k", "v", "k_norm")]}
        for name in never.get(file.stem, []):
            del theirs_t[name]
        assert ours_t.keys() == theirs_t.keys(), (file.stem, ours_t.keys() ^ theirs_t.keys())
        for name, t in theirs_t.items():
            o = ours_t[name]
            rows = 96 if file.stem.startswith("gemma3n") and name == "per_layer_token_embd.weight" else len(o.data)
            # tokens behind the table of the layers' inputs have the first row, as in transformers; theirs are zeros
            assert all(r.tobytes() == o.data[0].tobytes() for r in o.data[rows:]), (file.stem, name)
            assert list(o.shape) == list(t.shape) and o.tensor_type == t.tensor_type, (file.stem, name)
            same = abs(o.data - t.data).max() < 1e-6 if name in close else \
                (abs(o.data / t.data - 1) < ulps).all() if name.endswith("ssm_a") or \
                file.stem.startswith("falcon-h1") and name.endswith(rounded) else \
                o.data[:rows].tobytes() == t.data[:rows].tobytes()
            assert same, (file.stem, name)
        for key, f in theirs.fields.items():
            if key.startswith(("general.", "GGUF.")) or key == also.get(file.stem) or key in differ or \
                    file.stem == "granite-hybrid-dense" and key.startswith(micro):
                continue
            key = key.replace("mistral3.", "llama.") if file.stem in other else key
            a, b = ours.fields[key].contents(), f.contents()
            pairs = zip(a, b, strict=True) if isinstance(a, list) else [(a, b)]
            assert all(x == y or isinstance(x, float) and abs(x - y) <= 1e-6 * abs(y) for x, y in pairs), (
                file.stem, key, a, b)
        if file.stem not in other:
            beside = {k.split(".", 1)[1] for k in ours.fields.keys() - theirs.fields.keys()
                      if not k.startswith(("general.", "GGUF."))}
            assert beside <= more, (file.stem, beside - more)


# a fixture of each family, and parts of the names of its matrices that stay in f32; others are of the type, or of the
# next one that fits its rows
FAMILIES = {"deepseek3": ("ffn_gate_inp",), "minicpm3": (), "qwen3next": ("ffn_gate_inp", "ssm_conv1d"),
            "qwen35-uneven-bf16": ("ssm_conv1d",), "granite-hybrid": ("ffn_gate_inp", "ssm_conv1d"),
            "falcon-h1-gate": ("ssm_conv1d",), "nemotron-h-moe": ("ffn_gate_inp", "ssm_conv1d"),
            "gpt-oss-bf16": ("ffn_gate_inp",), "bamba": ("ssm_conv1d",), "llama4-plain-bf16": ("ffn_gate_inp",)}


@tap.case
def types_of_the_families():
    """Which tensors are quantised, and that these are the values of the folder; `ingot inspect` reads the files."""
    import gguf
    import numpy as np
    limit = {"F32": 0, "F16": 5e-4, "Q8_0": 0.01, "Q4_0": 0.12, "Q5_0": 0.06}  # rms of the error, relative
    for name, floats in FAMILIES.items():
        folder = HERE.parent / "golden" / "models" / name
        source = {t.name: t for t in gguf.GGUFReader(quantize(folder, "f32.gguf", "f32")[0]).tensors}
        for kind in ("q8_0", "q4_0", "q4_k_m"):
            out, _ = quantize(folder, "family.gguf", kind)
            for t in gguf.GGUFReader(out).tensors:
                matrix = t.name.endswith(".weight") and len(t.shape) > 1 and "norm" not in t.name
                stays = not matrix or any(f in t.name for f in floats)
                whole = int(t.shape[0]) % 32 == 0
                assert (t.tensor_type.name == "F32") == stays, (name, kind, t.name, t.tensor_type)
                assert stays or (t.tensor_type.name != "F16") == whole, (name, kind, t.name, t.tensor_type)
                x = np.asarray(source[t.name].data, np.float64)
                y = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64).reshape(x.shape)
                error = ((x - y) ** 2).sum() / (x ** 2).sum()
                assert error ** 0.5 <= limit[t.tensor_type.name], (name, kind, t.name, error ** 0.5)
            plan = json.loads(ok("inspect", out, "--json"))
            assert plan["digest"], (name, kind)


@tap.case
def experts_in_mxfp4_stay():
    """gpt-oss: whatever the type, and the other matrices have it; a limit of gate and up that GGUF cannot say is refused."""
    source, folder = HERE.parent / "golden" / "models" / "gpt-oss-mxfp4", DIR / "mxfp4"
    p = ingot("quantize", source, DIR / "limit.gguf", "--type", "q8_0")
    assert p.returncode == 3 and "swiglu_limit 1.5 cannot be said" in p.stderr, p.stderr
    shutil.copytree(source, folder)
    c = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(c | {"swiglu_limit": 7.0}))
    for kind in ("q8_0", "q4_0"):
        out, _ = quantize(folder, "mxfp4.gguf", kind)
        types = gguf_parts.Reader(out).types()
        assert {t for n, t in types.items() if "exps.weight" in n} == {"mxfp4"}, types
        assert types["blk.0.attn_q.weight"] == kind and types["blk.0.attn_sinks.weight"] == "f32"
        assert types["blk.0.ffn_gate_exps.bias"] == types["blk.0.ffn_gate_inp.weight"] == "f32"
        assert json.loads(ok("inspect", out, "--json"))["digest"]


@tap.case
def what_gemma3n_cannot_say():
    """An option without a key is refused; of other residual streams than the published ones there is a note. Matrices of
    the streams and of LAuReL are not quantised, their coefficients are in f32."""
    source = HERE.parent / "golden" / "models" / "gemma3n"
    folder = DIR / "gemma3n"
    shutil.copytree(source, folder)
    config = json.loads((source / "config.json").read_text())
    for key, value in (("altup_correct_scale", False), ("final_logit_softcapping", None)):
        (folder / "config.json").write_text(json.dumps(config | {key: value}))
        p = ingot("quantize", folder, DIR / "not.gguf", "--type", "f32")
        assert p.returncode == 3 and f"{key} {'false' if value is False else 'null'} cannot be said" in p.stderr, p.stderr
        assert not (DIR / "not.gguf").exists()
    p = ok("quantize", source, DIR / "gemma3n.gguf", "--type", "q8_0")
    assert "other programs may not read that" in p, p
    types = gguf_parts.Reader(DIR / "gemma3n.gguf").types()
    for name, kind in (("altup_proj", "f16"), ("blk.0.laurel_l", "f16"), ("blk.0.altup_router", "f16"),
                       ("blk.0.altup_predict_coef", "f32"), ("blk.0.altup_correct_coef", "f32"),
                       ("blk.0.attn_q", "q8_0"), ("token_embd", "q8_0")):
        assert types[f"{name}.weight"] == kind, (name, types[f"{name}.weight"])


@tap.case
def what_llama4_cannot_say():
    """Layers with experts that are not each n-th one."""
    import numpy as np
    folder = DIR / "first-layer"
    wide_llama4(folder, np.random.default_rng(1), sparse=0, moe_layers=[0])
    p = ingot("quantize", folder, DIR / "not.gguf", "--type", "q8_0")
    assert p.returncode == 3 and "experts in other layers than each n-th cannot be said" in p.stderr, p.stderr
    assert not (DIR / "not.gguf").exists()


@tap.case
def types_of_the_mixtures():
    m = random_model.make(DIR / "deep", layers=8, ffn=256)
    out, summary = quantize(m, "deep.gguf", "q4_k_m")
    types = gguf_parts.Reader(out).types()
    heavy = {i for i in range(8) if types[f"blk.{i}.ffn_down.weight"] == "q6_k"}
    assert heavy == {0, 3, 6, 7}, heavy  # the first and last eighth, and every third between
    for i in range(8):
        assert types[f"blk.{i}.attn_v.weight"] == types[f"blk.{i}.ffn_down.weight"]
        for name in ("attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_up"):
            assert types[f"blk.{i}.{name}.weight"] == "q4_k"
        assert types[f"blk.{i}.attn_norm.weight"] == "f32"
    assert types["token_embd.weight"] == "q6_k"  # it is the head
    out, _ = quantize(m, "deep.gguf", "q5_k", "--embed-type", "q8_0")
    types = gguf_parts.Reader(out).types()
    assert types["token_embd.weight"] == "q8_0" and types["blk.0.ffn_down.weight"] == "q5_k"


@tap.case
def rows_that_are_no_whole_blocks():
    p = ok("quantize", DEMO, DIR / "narrow.gguf", "--type", "q4_k")
    assert "q5_0, not q4_k: rows of 192" in p and "q8_0, not q6_k: rows of 192 (token_embd.weight)" in p, p
    types = gguf_parts.Reader(DIR / "narrow.gguf").types()
    assert types["blk.0.attn_q.weight"] == "q5_0" and types["blk.0.ffn_down.weight"] == "q5_0" or \
        types["blk.0.ffn_down.weight"] == "q4_k"


@tap.case
def quantised_weights_give_the_logits_of_their_values():
    """A quantised model against its own values in f32, which differ by the rounding of activations to 8 bits alone
    (measured: 0.0009 for every type)."""
    import numpy as np
    llama4 = DIR / "wide-llama4"
    wide_llama4(llama4, np.random.default_rng(8))
    kinds = ("q8_0", "q4_k", "q5_k", "q6_k", "q4_1", "q5_1")
    for source, kind in [(wide(), k) for k in kinds] + [(llama4, k) for k in ("q8_0", "q4_k", "q4_0")]:
        out, loss = quantize(source, f"wide-{kind}.gguf", kind, "--text", TEXT, "--text-tokens", "256")
        types = gguf_parts.Reader(out).types()
        assert source != llama4 or all(types[f"blk.1.ffn_{n}_{e}.weight"] == kind
                                       for n in ("gate", "up", "down") for e in ("exps", "shexp")), types
        _, same = quantize(out, "values.gguf", "f32", "--text", TEXT, "--text-tokens", "256")
        assert all(t["rms_error"] == 0 for t in same["types"]), same["types"]
        assert abs(same["quality"]["kl_mean"]) < 2e-3, (kind, same["quality"])
        assert same["quality"]["kl_mean"] < loss["quality"]["kl_mean"], (kind, loss["quality"])


@tap.case
def a_quantised_source():
    first, _ = quantize(wide(), "q8.gguf", "q8_0")
    _, direct = quantize(wide(), "q4-direct.gguf", "q4_k")
    out, summary = quantize(first, "q4.gguf", "q4_k")
    assert gguf_parts.Reader(out).types()["blk.0.ffn_up.weight"] == "q4_k"
    error = {t["type"]: t["rms_error"] for t in summary["types"]}
    assert 0 < error["q4_k"] < 1.02 * {t["type"]: t["rms_error"] for t in direct["types"]}["q4_k"]


@tap.case
def files_in_parts():
    """Inspected, run and quantised from any part; tokenizer and template are the first part's."""
    whole, _ = quantize(wide(), "whole.gguf", "q8_0")
    parts = gguf_parts.cut(whole, "cut", 3)
    want = answer(whole)
    for p in (parts[0], parts[2]):
        assert ids(p) == ids(whole)
        plan = json.loads(ok("inspect", p, "--json"))
        assert plan["digest"] == json.loads(ok("inspect", whole, "--json"))["digest"]
        assert answer(p) == want
    copy, _ = quantize(parts[1], "copy.gguf", "q8_0")
    a, b = gguf_parts.Reader(whole), gguf_parts.Reader(copy)
    assert sorted(a.keys) == sorted(b.keys) and sorted(a.tensors) == sorted(b.tensors)
    assert prompt(parts[1], "Hello") == prompt(wide(), "Hello")
    parts[1].unlink()
    for command in (["inspect", parts[0]], ["quantize", parts[0], DIR / "x.gguf", "--type", "q4_0"],
                    ["run", parts[0], "--prompt", "x"]):
        p = ingot(*command)
        assert p.returncode != 0 and "part 2 of 3 is missing" in p.stderr + p.stdout, (command, p.stderr)


@tap.case
def tokenizers_of_other_models():
    """Byte-level BPE and SentencePiece, from tokenizer.json to GGUF and back to the same ids."""
    folder = DATA / "tokenizers" / "hf"
    if not folder.exists():
        raise tap.Skip("no shared data: tokenizers/hf")
    texts = (TEXT.read_text(), " ".join(map(chr, range(0x20, 0x500))),
             "It's 12345 na\u00efve caf\u00e9s \u2014 \u4f60\u597d \U0001f642\n\n\ttabs   blanks "
             "<|im_start|> </s> <s>x")
    for name in ("llama-3.1-8b-instruct", "qwen2", "qwen3", "tinyllama", "mistral-7b"):
        source = random_model.tiny(DIR / name, folder / name)
        out, _ = quantize(source, f"{name}.gguf", "q8_0")
        for text in texts:
            want = ok("tokenize", source, "--text-file", "-", stdin=text)
            assert ok("tokenize", out, "--text-file", "-", stdin=text) == want, name
    odd = random_model.tiny(DIR / "falcon", folder / "falcon")
    p = ingot("quantize", odd, DIR / "falcon.gguf", "--type", "q8_0")
    assert p.returncode == 3 and "no pre-tokenizer that ingot-quantize has a GGUF name for" in p.stderr, p.stderr


@tap.case
def the_chat_template_goes_along():
    out, _ = quantize(DEMO, "chat.gguf", "q8_0")
    for messages in (["Hello"], ["two\nlines", "more"]):
        assert prompt(out, *messages) == prompt(DEMO, *messages)


@tap.case
def the_package_gguf_reads_it():
    import gguf
    import numpy as np
    source = {t.name: t for t in gguf.GGUFReader(quantize(wide(), "p32.gguf", "f32")[0]).tensors}
    for kind in ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k", "f16", "bf16"):
        out, summary = quantize(wide(), "p.gguf", kind)
        error = value = 0.0
        for t in gguf.GGUFReader(out).tensors:
            if t.tensor_type.name.lower() != kind:
                continue
            x = np.asarray(source[t.name].data, np.float64)
            y = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64).reshape(x.shape)
            error += ((x - y) ** 2).sum()
            value += (x ** 2).sum()
        said = next(t["relative_error"] for t in summary["types"] if t["type"] == kind)
        assert abs((error / value) ** 0.5 - said) <= 1e-6 * said, (kind, (error / value) ** 0.5, said)


def nothing_left(folder):
    assert not list(folder.iterdir()), list(folder.iterdir())


@tap.case
def a_full_disk_leaves_nothing():
    folder = DIR / "full"
    folder.mkdir()
    p = subprocess.run([INGOT, "quantize", wide(), folder / "x.gguf", "--type", "q8_0"], capture_output=True, text=True,
                       timeout=tap.LIMIT, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500000, 500000)))
    assert p.returncode == 1 and "cannot write" in p.stderr and "too large" in p.stderr, (p.returncode, p.stderr)
    nothing_left(folder)


@tap.case
def an_interrupt_leaves_nothing():
    folder = DIR / "interrupted"
    folder.mkdir()

    def interrupted():
        p = subprocess.Popen([INGOT, "quantize", wide(), folder / "x.gguf", "--type", "q4_k", "--threads", "1"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while p.poll() is None and not list(folder.iterdir()):
            time.sleep(0.001)
        if p.poll() is None:
            p.send_signal(signal.SIGINT)
        err = p.communicate(timeout=tap.LIMIT)[1]
        if p.returncode == 0:
            (folder / "x.gguf").unlink()  # it was done before the signal came
            return False
        assert p.returncode == 130 and "interrupted" in err
        nothing_left(folder)
        return True
    tap.race(interrupted)


@tap.case
def what_it_refuses():
    out = DIR / "refused.gguf"
    there, _ = quantize(DEMO, "there.gguf", "q8_0")
    spoilt = random_model.make(DIR / "spoilt", layers=1, spoil="model.layers.0.mlp.up_proj.weight")
    odd = DIR / "odd"
    shutil.copytree(DEMO, odd)
    t = json.loads((odd / "tokenizer.json").read_text())
    t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\w+"
    (odd / "tokenizer.json").write_text(json.dumps(t))
    for args, code, says in (
            ([DEMO, DIR / "x.bin", "--type", "q8_0"], 2, "must end in .gguf"),
            ([DEMO, there, "--type", "q8_0"], 2, "is there already"),
            ([there, there, "--type", "q8_0", "--overwrite"], 2, "is the source"),
            ([DEMO, out], 2, "type"),
            ([DEMO, out, "--type", "q3_k"], 2, "q3_k"),
            ([DEMO, "--type", "q8_0"], 2, "argument"),
            ([DIR / "none", out, "--type", "q8_0"], 3, "there is no model"),
            ([odd, out, "--type", "q8_0"], 3, "no pre-tokenizer"),
            ([spoilt, out, "--type", "q4_k"], 1, "blk.0.ffn_up.weight has values that are not finite"),
            ([DEMO, DIR / "no" / "x.gguf", "--type", "q8_0"], 1, "cannot create"),
            ([DEMO, there, "--type", "q8_0", "--overwrite", "--text", DIR / "none.txt"], 1, "ingot-text"),
    ):
        p = ingot("quantize", *args)
        assert p.returncode == code and says in p.stderr, (args, p.returncode, p.stderr)
        assert not out.exists()
    assert not list(DIR.glob("*.tmp*"))


@tap.case
def help_teaches():
    for p in (ok("quantize", "--help"), ok("help", "quantize")):
        for word in ("SOURCE OUT.gguf --type", "Which type?", "q4_k_m", "Examples:", "Exit codes:", "--text FILE"):
            assert word in p, word
    assert "quantize" in ok("help")


try:
    tap.main()
finally:
    shutil.rmtree(DIR, ignore_errors=True)
