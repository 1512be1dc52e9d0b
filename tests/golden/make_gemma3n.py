"""Makes the fixtures of tests/golden/models of Gemma 3n. README.md beside this file says what the files are.

    python3 make_gemma3n.py [NAME ...]

transformers is the oracle, as in make_gemma4.py: float32, eager attention, a control for each option. A control is a
changed configuration, or the name of a function of PATCHES, which takes one part of the model away.
"""

import json
import shutil

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

import make_families as mf

PLAIN_ROPE = {"full_attention": {"rope_type": "default", "rope_theta": 1000.0},
              "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}
# as published: the keys before transformers 5, and some that no class reads
TEXT = {"model_type": "gemma3n_text", "hidden_size": 32, "intermediate_size": [40] * 5, "num_hidden_layers": 5,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 104,
        "vocab_size_per_layer_input": 96, "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 2,
        "altup_active_idx": 0, "altup_coef_clip": 120.0, "altup_correct_scale": True, "altup_lr_multiplier": 1.0,
        "altup_num_inputs": 4, "laurel_rank": 6, "activation_sparsity_pattern": [0.8, 0.6, 0.0, 0.0, 0.0],
        "attention_bias": False, "attention_dropout": 0.0, "final_logit_softcapping": 3.0,
        "hidden_activation": "gelu_pytorch_tanh", "initializer_range": 0.02, "max_position_embeddings": 256,
        "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-6, "rope_local_base_freq": 100.0, "rope_scaling": None,
        "rope_theta": 1000.0, "sliding_window": 12, "torch_dtype": "float32", "use_cache": True, "pad_token_id": 0,
        "eos_token_id": 1, "bos_token_id": 2,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"]}
CAUSAL = {"architectures": ["Gemma3nForCausalLM"]}
TOWER = {"model_type": "gemma3n_vision", "architecture": "mobilenetv5_300m_enc", "do_pooling": False, "hidden_size": 8,
         "vocab_size": 4, "vocab_offset": 96, "rms_norm_eps": 1e-6, "initializer_range": 0.02, "num_classes": 2}
SOUND = {"model_type": "gemma3n_audio", "vocab_size": 4, "vocab_offset": 100, "hidden_size": 8, "conf_num_attention_heads": 2,
         "conf_num_hidden_layers": 1}


def new(text):
    """With the keys of transformers 5."""
    gone = ("rope_local_base_freq", "rope_scaling", "rope_theta", "torch_dtype", "altup_lr_multiplier", "query_pre_attn_scalar")
    return {k: v for k, v in text.items() if k not in gone} | {"rope_parameters": PLAIN_ROPE, "dtype": "float32",
                                                               "tie_word_embeddings": True}


def layers(model):
    return model.model.layers


def without_laurel(model):
    for layer in layers(model):
        layer.laurel.post_laurel_norm.weight.fill_(0.0)


def without_prediction(model):
    for layer in layers(model):
        layer.altup.prediction_coefs.weight.fill_(0.0)


def without_correction_coefs(model):
    for layer in layers(model):
        layer.altup.correction_coefs.weight.fill_(0.0)


def without_router_norm(model):
    for layer in layers(model):
        layer.altup.router_norm.weight.fill_(1.0)


def unscaled_router(model):
    for layer in layers(model):
        layer.altup.router_input_scale.fill_(1.0)


def transposed_prediction(model):
    """Coefficients of stream j from stream p, for those of p from j."""
    for layer in layers(model):
        w = layer.altup.prediction_coefs.weight
        n = model.config.altup_num_inputs
        w.copy_(w.reshape(n, n, n).transpose(0, 1).reshape(n * n, n))


def without_output_scale(model):
    for layer in layers(model):
        layer.altup.correct_output_scale.fill_(1.0)


def without_streams_in(model):
    """All streams begin as the first one."""
    for p in model.model.altup_projections:
        p.weight.copy_(torch.eye(p.weight.shape[0]))


def without_streams_out(model):
    for p in model.model.altup_unembed_projections:
        p.weight.copy_(torch.eye(p.weight.shape[0]))


def louder_streams_out(model):
    """Changes nothing where the magnitude is that of the first stream."""
    for p in model.model.altup_unembed_projections:
        p.weight.mul_(3.0)


def without_value_norm(model):
    for layer in layers(model):
        if not layer.self_attn.is_kv_shared_layer:
            layer.self_attn.v_norm.forward = lambda x: x


def scaled_scores(model):
    for layer in layers(model):
        layer.self_attn.scaling = layer.self_attn.head_dim ** -0.5


def without_inputs(model):
    for layer in layers(model):
        layer.post_per_layer_input_norm.weight.fill_(0.0)


def inputs_without_table(model):
    model.model.embed_tokens_per_layer.weight.fill_(0.0)


def inputs_without_embedding(model):
    model.model.per_layer_projection_norm.weight.fill_(0.0)


def keys_of_the_first_layers(model):
    """Layers that share keys and values read those of the first layer of their kind, not of the last one."""
    seen = set()
    for layer in layers(model):
        a = layer.self_attn
        a.store_full_length_kv = not a.is_kv_shared_layer and a.layer_type not in seen
        seen.add(a.layer_type)


def nothing_behind_the_table(model):
    """Tokens without a row of their own have none, instead of the first one."""
    inner, rows = model.model.get_per_layer_inputs, model.config.vocab_size_per_layer_input
    model.model.get_per_layer_inputs = lambda ids: torch.where((ids < rows)[..., None, None], inner(ids), 0.0)


STREAMS = ["without_laurel", "without_prediction", "without_correction_coefs", "without_router_norm", "unscaled_router",
           "transposed_prediction", "without_output_scale", "without_streams_in", "without_streams_out"]
INPUTS = ["without_inputs", "inputs_without_table", "inputs_without_embedding"]
ATTENTION = ["without_value_norm", "scaled_scores"]
PATCHES = {name: globals()[name] for name in [*STREAMS, *INPUTS, *ATTENTION, "keys_of_the_first_layers",
                                           "nothing_behind_the_table"]}


def row(name, config, controls, dtype="float32", beyond=False):
    return {"name": name, "config": config, "controls": controls, "dtype": dtype, "n_prompt": 20, "beyond": beyond}


ROWS = [
    row("gemma3n", CAUSAL | TEXT, STREAMS + INPUTS + ATTENTION + [
        "keys_of_the_first_layers", {"altup_active_idx": 1}, {"altup_correct_scale": False}, {"sliding_window": 200},
        {"activation_sparsity_pattern": [0.0] * 5}, {"activation_sparsity_pattern": [0.8, 0.0, 0.0, 0.0, 0.0]},
        {"final_logit_softcapping": 30.0}, {"hidden_activation": "silu"}, {"rope_theta": 100.0},
        {"rope_local_base_freq": 10000.0}]),
    # another active stream of three, without its factors, tokens behind the table of inputs; 6 heads: 4 ranks have 1 or 2
    # each, and share key/value heads; gates cut below their mean too; 3 ranks' columns are no multiple of 8
    row("gemma3n-active-bf16", CAUSAL | new(TEXT) | {
        "altup_active_idx": 2, "altup_num_inputs": 3, "altup_correct_scale": False, "num_attention_heads": 6,
        "num_key_value_heads": 3, "head_dim": 20, "hidden_size": 36, "intermediate_size": 44, "num_kv_shared_layers": 0,
        "attention_bias": True, "activation_sparsity_pattern": [0.95, 0.3, 0.5, 0.0, 0.9], "layer_types": None,
        "dtype": "bfloat16"},
        STREAMS[:6] + STREAMS[7:] + INPUTS + ATTENTION + [
            {"altup_active_idx": 0}, {"altup_correct_scale": True}, {"sliding_window": 200},
            {"activation_sparsity_pattern": [0.95, 0.0, 0.5, 0.0, 0.9]}, "nothing_behind_the_table"],
        dtype="bfloat16", beyond=True),
    row("gemma3n-vision-bf16", {
        "architectures": ["Gemma3nForConditionalGeneration"], "model_type": "gemma3n", "text_config": TEXT | {
            "num_hidden_layers": 3, "intermediate_size": 32, "num_kv_shared_layers": 1, "torch_dtype": "bfloat16",
            "activation_sparsity_pattern": [0.7, 0.0, 0.0], "layer_types": TEXT["layer_types"][:3]},
        "vision_config": TOWER, "audio_config": SOUND, "torch_dtype": "bfloat16", "audio_soft_tokens_per_image": 4,
        "audio_token_id": 101, "boa_token_id": 95, "boi_token_id": 94, "eoa_token_id": 100, "eoi_token_id": 96,
        "image_token_id": 97, "eos_token_id": [1, 3], "initializer_range": 0.02, "vision_soft_tokens_per_image": 4},
        [{"text_config.final_logit_softcapping": 30.0}, {"text_config.sliding_window": 200}], dtype="bfloat16"),
    # a slice between E2B and E4B: feed-forwards of three widths, one of which is no multiple of 8 for each of 4 ranks, in
    # layers of both kinds and in those that share keys and values; the widest is neither first nor last
    row("gemma3n-widths", CAUSAL | new(TEXT) | {"intermediate_size": [40, 72, 56, 40, 56], "final_logit_softcapping": 5.0},
        STREAMS[:3] + INPUTS[:1] + [{"activation_sparsity_pattern": [0.0] * 5}, {"sliding_window": 200}]),
]


def draw(name, shape, rng):
    """Coefficients from the router's numbers, which are small: the model divides its inputs by the hidden size."""
    if name.endswith("modality_router.weight"):
        return rng.normal(0, 4.0, shape)
    if name.endswith("_coefs.weight"):
        return rng.normal(0, 0.2, shape)
    value = mf.draw(name, shape, True, rng)
    return value * 4 if "embed_tokens_per_layer" in name else value  # the model multiplies it by less


def write(directory, text, dtype, rng):
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(text, indent=2) + "\n")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory))
    tensors = {name: torch.from_numpy(draw(name, tuple(p.shape), rng)).to(mf.DTYPES[dtype]).contiguous()
               for name, p in model.state_dict().items() if name != "lm_head.weight"}
    save(tensors, directory)
    return tensors


def save(tensors, directory):
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "model.safetensors").chmod(0o644)


def wrap(directory, config, tensors):
    """The folder of the multi-modal model, whose text part transformers has computed as a model of its own: its towers
    are not small. Published files have keys and values of the layers that share those of others."""
    text = config["text_config"]
    shapes = {"k_proj": (2, 2), "v_proj": (2, 2), "k_norm": (2,)}
    named = {name.replace("model.", "model.language_model.", 1): t for name, t in tensors.items()}
    for i in range(text["num_hidden_layers"] - text["num_kv_shared_layers"], text["num_hidden_layers"]):
        for part, shape in shapes.items():
            named[f"model.language_model.layers.{i}.self_attn.{part}.weight"] = torch.zeros(shape)
    for name in ("vision_tower.timm_model.conv_stem.conv", "audio_tower.conformer.0.norm", "embed_vision.embedding",
                 "embed_audio.embedding"):
        named[f"model.{name}.weight"] = torch.zeros(2, 2)
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save(named, directory)


def effect(directory, text, change, ids, logits):
    if not isinstance(change, str):
        return mf.effect(directory, text, {k.removeprefix("text_config."): v for k, v in change.items()}, ids, logits)
    model = mf.open_model(directory)
    with torch.no_grad():
        PATCHES[change](model)
    return float(np.abs(mf.forward(model, ids) - logits).max() / np.abs(logits).max())


def make(r, seed):
    directory = mf.OUT / r["name"]
    wrapped = "text_config" in r["config"]
    text = CAUSAL | r["config"]["text_config"] if wrapped else r["config"]
    for attempt in range(60):
        shutil.rmtree(directory, ignore_errors=True)
        rng = np.random.default_rng([seed, attempt])
        tensors = write(directory, text, r["dtype"], rng)
        model = mf.open_model(directory)
        ids = [int(i) for i in rng.integers(3, 104 if r["beyond"] else 94, mf.T)]
        logits = mf.forward(model, ids)
        new_ids, gap = mf.greedy(model, ids[:r["n_prompt"]])
        if gap > mf.GAP and len(set(new_ids)) > 3 and (r["beyond"] or max(new_ids) < 94):
            break
    assert gap > mf.GAP, f"{r['name']}: no seed keeps its greedy ids apart"
    for change in r["controls"]:
        e = effect(directory, text, change, ids, logits)
        assert e > mf.MATTERS, f"{r['name']}: with {change} the logits differ by only {e:.2e}"
        print(f"    {str(change)[:90]:90} {e:.2f}")
    same = mf.open_model(directory)
    with torch.no_grad():
        louder_streams_out(same)
    assert np.abs(mf.forward(same, ids) - logits).max() < 1e-4 * np.abs(logits).max()
    if wrapped:
        wrap(directory, r["config"], tensors)
    mf.record(directory, r, ids, logits, new_ids, gap, attempt)


if __name__ == "__main__":
    mf.run(ROWS, make, 1500)
