"""Makes the fixtures of tests/golden/models of Gemma 4. README.md beside this file says what the files are.

    python3 make_gemma4.py [NAME ...]

transformers is the oracle, as in make_families.py, whose functions this file uses: float32, eager attention, a control
for each option. A control is a changed configuration, or the name of a function of PATCHES, which takes one part of the
model away that no key of config.json stands for.
"""

import json
import shutil

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

import make_families as mf

ROPE = {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}
TEXT = {"model_type": "gemma4_text", "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 24,
        "num_global_key_value_heads": 1, "attention_k_eq_v": True, "attention_bias": False, "attention_dropout": 0.0,
        "vocab_size": 104, "vocab_size_per_layer_input": 104, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0,
        "enable_moe_block": False, "expert_intermediate_size": None, "moe_intermediate_size": None, "num_experts": None,
        "top_k_experts": None, "use_double_wide_mlp": False, "use_bidirectional_attention": "vision",
        "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
        "initializer_range": 0.02, "use_cache": True, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        "sliding_window": 12, "layer_types": ["sliding_attention", "full_attention"] * 2, "final_logit_softcapping": 3.0,
        "rope_parameters": ROPE, "tie_word_embeddings": True, "dtype": "float32"}
LATER = {k: v for k, v in TEXT.items() if k != "expert_intermediate_size"}  # which only the first files have
CAUSAL = {"architectures": ["Gemma4ForCausalLM"]}
TOWER = {"model_type": "gemma4_vision", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
         "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4, "patch_size": 2, "position_embedding_size": 8}


def saved(text):
    """As transformers 5 saves it."""
    layer = {"head_dim": text["global_head_dim"], "num_key_value_heads": text["num_global_key_value_heads"]}
    return {k: v for k, v in text.items() if k not in ("global_head_dim", "num_global_key_value_heads",
                                                       "expert_intermediate_size")} | {
        "per_layer_config": {f"{i:02}": layer for i, t in enumerate(text["layer_types"]) if t == "full_attention"}}


def without_value_norm(model):
    for layer in text_model(model).layers:
        if not layer.self_attn.is_kv_shared_layer:
            layer.self_attn.v_norm.forward = lambda x: x


def without_layer_scalar(model):
    for layer in text_model(model).layers:
        layer.layer_scalar.fill_(1.0)


def normed_keys_as_values(model):
    """Values are the keys behind their norm instead of before it."""
    for layer in text_model(model).layers:
        if layer.self_attn.v_proj is None:
            layer.self_attn.v_norm.forward = layer.self_attn.k_norm.forward


def scaled_scores(model):
    for layer in text_model(model).layers:
        layer.self_attn.scaling = layer.self_attn.head_dim ** -0.5


def without_inputs(model):
    for layer in text_model(model).layers:
        layer.post_per_layer_input_norm.weight.fill_(0.0)


def inputs_without_table(model):
    text_model(model).embed_tokens_per_layer.weight.fill_(0.0)


def inputs_without_embedding(model):
    text_model(model).per_layer_projection_norm.weight.fill_(0.0)


def keys_of_the_first_layers(model):
    """Layers that share keys and values read those of the first layer of their kind, not of the last one."""
    seen = set()
    for layer in text_model(model).layers:
        a = layer.self_attn
        a.store_full_length_kv = not a.is_kv_shared_layer and a.layer_type not in seen
        seen.add(a.layer_type)


def without_experts(model):
    for layer in text_model(model).layers:
        layer.post_feedforward_layernorm_2.weight.fill_(0.0)


def without_dense_part(model):
    for layer in text_model(model).layers:
        layer.post_feedforward_layernorm_1.weight.fill_(0.0)


def without_router_scale(model):
    for layer in text_model(model).layers:
        layer.router.scale.fill_(1.0)


def unscaled_router(model):
    for layer in text_model(model).layers:
        layer.router.scalar_root_size = 1.0


def without_expert_scale(model):
    for layer in text_model(model).layers:
        layer.router.per_expert_scale.fill_(1.0)


PATCHES = {f.__name__: f for f in (
    without_value_norm, without_layer_scalar, normed_keys_as_values, scaled_scores, without_inputs, inputs_without_table,
    inputs_without_embedding, keys_of_the_first_layers, without_experts, without_dense_part, without_router_scale,
    unscaled_router, without_expert_scale)}
PARTS = ["without_value_norm", "without_layer_scalar", "scaled_scores"]


def row(name, config, controls, dtype="float32"):
    return {"name": name, "config": config, "controls": controls, "dtype": dtype, "n_prompt": 20}


INPUTS = ["without_inputs", "inputs_without_table", "inputs_without_embedding", "keys_of_the_first_layers"]
EXPERTS = ["without_experts", "without_dense_part", "without_router_scale", "unscaled_router", "without_expert_scale",
           {"top_k_experts": 1}]
ROWS = [
    row("gemma4", CAUSAL | TEXT, PARTS + [
        "normed_keys_as_values", {"sliding_window": 200}, {"final_logit_softcapping": None}, {"hidden_activation": "silu"},
        {"rope_parameters.full_attention.partial_rotary_factor": 1.0},
        {"rope_parameters.full_attention.rope_theta": 100.0}, {"rope_parameters.sliding_attention.rope_theta": 10000.0}]),
    # global heads are smaller than the others, values have their matrix, and the number of their key/value heads says
    # nothing; 6 heads: 4 ranks have 1 or 2 each, and share key/value heads
    row("gemma4-values-bf16", CAUSAL | TEXT | {
        "attention_k_eq_v": False, "num_hidden_layers": 7, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 20,
        "num_global_key_value_heads": None,
        "global_head_dim": 16, "layer_types": None, "final_logit_softcapping": None, "tie_word_embeddings": False,
        "rope_parameters": ROPE | {"full_attention": ROPE["full_attention"] | {"partial_rotary_factor": 0.5, "rope_theta": 100.0}},
        "dtype": "bfloat16"},
        PARTS + [{"sliding_window": 200}, {"rope_parameters.full_attention.partial_rotary_factor": 1.0}], dtype="bfloat16"),
    row("gemma4-bias", CAUSAL | saved(TEXT) | {
        "attention_bias": True, "use_bidirectional_attention": None,
        "rope_parameters": ROPE | {"full_attention": ROPE["full_attention"] | {"factor": 4.0, "rope_theta": 100.0}}},
        ["normed_keys_as_values", {"rope_parameters.full_attention.factor": 1.0}]),
    row("gemma4-vision", {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "text_config": TEXT,
                          "vision_config": TOWER, "audio_config": None, "dtype": "float32", "audio_token_id": 103,
                          "boa_token_id": 102, "boi_token_id": 101, "eoa_token_id": 100, "eoa_token_index": 100,
                          "eoi_token_id": 99, "image_token_id": 98, "video_token_id": 97, "eos_token_id": [2, 3],
                          "initializer_range": 0.02, "tie_word_embeddings": True, "vision_soft_tokens_per_image": 280},
        [{"text_config.final_logit_softcapping": None}, {"text_config.sliding_window": 200}]),
    # as E2B: inputs of each layer, three layers that share keys and values and are twice as wide
    row("gemma4-inputs", CAUSAL | LATER | {
        "hidden_size_per_layer_input": 12, "num_hidden_layers": 6, "num_kv_shared_layers": 3, "use_double_wide_mlp": True,
        "attention_k_eq_v": False, "num_global_key_value_heads": None, "intermediate_size": 40,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention",
                        "full_attention"]}, PARTS + INPUTS + [{"sliding_window": 200}]),
    # as E4B, whose files have keys and values of the layers that share them; 6 heads on 3
    row("gemma4-inputs-bf16", {
        "architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "vision_config": TOWER,
        "audio_config": None, "dtype": "bfloat16", "audio_token_id": 103, "boa_token_id": 102, "boi_token_id": 101,
        "eoa_token_id": 100, "eoa_token_index": 100, "eoi_token_id": 99, "image_token_id": 98, "video_token_id": 97,
        "eos_token_id": [2, 3], "initializer_range": 0.02, "tie_word_embeddings": True, "vision_soft_tokens_per_image": 280,
        "text_config": LATER | {
            "hidden_size_per_layer_input": 8, "num_hidden_layers": 5, "num_kv_shared_layers": 2, "num_attention_heads": 6,
            "num_key_value_heads": 3, "num_global_key_value_heads": 2, "dtype": "bfloat16", "intermediate_size": 48,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"] + ["sliding_attention", "full_attention"]}},
        INPUTS[:3], dtype="bfloat16"),
    # as 26B-A4B: experts beside the dense feed-forward
    row("gemma4-moe", CAUSAL | LATER | {
        "enable_moe_block": True, "num_experts": 5, "top_k_experts": 2, "moe_intermediate_size": 24, "intermediate_size": 32},
        PARTS + EXPERTS),
    row("gemma4-moe-bf16", CAUSAL | LATER | {
        "enable_moe_block": True, "num_experts": 8, "top_k_experts": 3, "moe_intermediate_size": 16, "intermediate_size": 24,
        "attention_k_eq_v": False, "num_hidden_layers": 3, "layer_types": None, "num_global_key_value_heads": None,
        "dtype": "bfloat16"}, EXPERTS, dtype="bfloat16"),
]


def text_model(model):
    return model.model.language_model if hasattr(model.model, "language_model") else model.model


def write(directory, r, rng):
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(r["config"], indent=2) + "\n")
    config = AutoConfig.from_pretrained(directory)
    wrapped = hasattr(config, "text_config")
    with torch.device("meta"):
        model = (AutoModelForImageTextToText if wrapped else AutoModelForCausalLM).from_config(config)
    tensors = {}
    for name, p in model.state_dict().items():
        if name == "lm_head.weight" and config.get_text_config().tie_word_embeddings:
            continue
        value = mf.draw(name, tuple(p.shape), True, rng)
        if "per_layer" in name and "embed" in name:
            value *= 4  # the model multiplies it by less
        tensors[name] = torch.from_numpy(value).to(mf.DTYPES[r["dtype"]]).contiguous()
    if wrapped:  # published files have what no layer reads
        text = config.get_text_config()
        for i in range(text.num_hidden_layers - text.num_kv_shared_layers, text.num_hidden_layers):
            for part in ("k_proj", "v_proj"):
                tensors[f"model.language_model.layers.{i}.self_attn.{part}.weight"] = torch.zeros(2, 2)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "model.safetensors").chmod(0o644)


def effect(directory, r, change, ids, logits):
    if not isinstance(change, str):
        return mf.effect(directory, r["config"], change, ids, logits)
    model = mf.open_model(directory)
    with torch.no_grad():
        PATCHES[change](model)
    return float(np.abs(mf.forward(model, ids) - logits).max() / np.abs(logits).max())


def make(r, seed):
    directory = mf.OUT / r["name"]
    for attempt in range(40):
        shutil.rmtree(directory, ignore_errors=True)
        rng = np.random.default_rng([seed, attempt])
        write(directory, r, rng)
        model = mf.open_model(directory)
        ids = [int(i) for i in rng.integers(3, 96, mf.T)]
        logits = mf.forward(model, ids)
        new, gap = mf.greedy(model, ids[:r["n_prompt"]])
        places = {r["config"].get(f"{k}_token_id") for k in ("image", "video", "audio")}  # not of text
        if gap > mf.GAP and len(set(new)) > 3 and not places & set(new):
            break
    assert gap > mf.GAP, f"{r['name']}: no seed keeps its greedy ids apart"
    for change in r["controls"]:
        e = effect(directory, r, change, ids, logits)
        assert e > mf.MATTERS, f"{r['name']}: with {change} the logits differ by only {e:.2e}"
        print(f"    {str(change)[:90]:90} {e:.2f}")
    mf.record(directory, r, ids, logits, new, gap, attempt)


if __name__ == "__main__":
    mf.run(ROWS, make, 1400)
