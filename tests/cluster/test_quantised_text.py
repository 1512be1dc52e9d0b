"""Multi-modal folders with quantised weights: quantization_config stands beside text_config, and the text part is served as the
same weights in a folder of their own are."""
import json
import pathlib
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, Parts  # noqa: E402
from experts_model import read_safetensors, write_model  # noqa: E402
from fixture_model import with_tokenizer  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "models"
REQUESTS = [{"tokens": {"id": [(7 * i + k) % 100 + 3 for i in range(9 + k)]}, "max_tokens": 12,
             "sampling": {"temperature": 0.0, "ignore_eos": True, "logprobs": True}} for k in range(3)]


def folders(fixture):
    """The fixture as a Mistral, and as the text part of a Mistral 3 with a matrix of its vision part."""
    plain, wrapped = (with_tokenizer(GOLDEN / fixture, temp_dir.make()) for _ in range(2))
    text = json.loads((plain / "config.json").read_text())
    text |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": None}
    (plain / "config.json").write_text(json.dumps(text))
    tensors = {f"language_model.{name}": t for name, t in read_safetensors(plain / "model.safetensors").items()}
    tensors["vision_tower.patch_conv.weight"] = ("F32", [2, 2], bytes(16))
    outer = {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "torch_dtype": "float32",
             "vision_config": {"model_type": "pixtral"}, "quantization_config": text.pop("quantization_config")}
    text.pop("architectures")
    write_model(plain, wrapped, outer | {"text_config": text}, tensors)
    return plain, wrapped


def answers(folder):
    with Parts(folder) as c:
        return [a.key() for a in c.clients[0].answers(REQUESTS)]


@tap.case
def the_same_answers():
    for fixture in "llama-fp8-block", "llama-gptq", "llama-awq":
        plain, wrapped = folders(fixture)
        assert answers(plain) == answers(wrapped), fixture


@tap.case
def inputs_rounded_as_the_checkpoint_says():
    """--activations checkpoint: other answers than with floats, the same bytes on any number of ranks and any path."""
    for fixture in "llama-fp8-block", "llama-int8", "qwen3moe-fp8-block":
        folder, at = with_tokenizer(GOLDEN / fixture, temp_dir.make()), ["--activations", "checkpoint"]

        def keys(**how):
            with Parts(folder, **how) as c:
                numerics = c.clients[0].call("Stats")[1].group[0].numerics
                return numerics, [a.key() for a in c.clients[0].answers(REQUESTS)]
        numerics, want = keys(worker=at)
        assert "/strict/ac/" in numerics, numerics
        for how in ({"tp": 2, "worker": at}, {"tp": 4, "worker": at}, {"worker": [*at, "--isa", "plain"]},
                    {"worker": [*at, "--max-step-tokens", "4"], "threads": 2}):
            assert keys(**how) == (numerics, want), f"{fixture} {how}"
        other, plain = keys()
        assert "/strict/ac/" not in other and plain != want, "as if inputs were floats"


@tap.case
def columns_in_any_order():
    """Sorted: the same bytes on any number of ranks and any path; as floats, with a numerics id of its own, on demand."""
    for fixture in "llama-gptq-order", "qwen3moe-gptq-order":
        folder = with_tokenizer(GOLDEN / fixture, temp_dir.make())

        def keys(**how):
            with Parts(folder, **how) as c:
                numerics = c.clients[0].call("Stats")[1].group[0].numerics
                return numerics, [a.key() for a in c.clients[0].answers(REQUESTS)]
        numerics, want = keys()
        assert "-order/" in numerics, numerics
        for how in ({"tp": 2}, {"tp": 4}, {"worker": ["--max-step-tokens", "4"], "threads": 2}):
            assert keys(**how) == (numerics, want), f"{fixture} {how}"
        other, plain = keys(worker=["--activations", "f32"])
        assert "-order/" not in other and plain != want, "as if columns were not sorted"


@tap.case
def what_a_checkpoint_asks_and_is_not_supported_is_named():
    def refused(model, *args):
        p = subprocess.run([BIN / "ingot", "inspect", model, "--activations", "checkpoint", *args], capture_output=True,
                           text=True)
        assert p.returncode == 3, p
        return p.stderr
    assert "quantization_config.quant_algo = \"NVFP4\"" in refused(GOLDEN / "llama-nvfp4-modelopt")
    gguf = next((GOLDEN.parent / "gguf").glob("*.gguf"))
    assert "a GGUF file says nothing of inputs" in refused(gguf)


@tap.case
def an_unknown_method_is_named():
    _, wrapped = folders("llama-awq")
    config = json.loads((wrapped / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "hqq"}
    (wrapped / "config.json").write_text(json.dumps(config))
    p = subprocess.run([BIN / "ingot", "inspect", wrapped], capture_output=True, text=True)
    assert p.returncode == 3 and "\"hqq\" are not supported" in p.stderr, p


tap.main()
