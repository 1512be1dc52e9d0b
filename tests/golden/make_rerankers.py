"""Writes tests/golden/rerankers: tiny random decoders that score pairs of texts, and the scores that
sentence-transformers' CrossEncoder and transformers compute from them.

    python3 make_rerankers.py         # needs torch, transformers, sentence-transformers, tokenizers

NAME has a whole folder.  scores.json has for each case the folder, files that are laid over it (null: the file is not
there), the options that Ingot needs, and rows: query, document, perhaps prompt_name, the ids that the library gives to
the model, and the score.  Cases of one folder differ in one option each, and their scores must differ by 1e-3.
"""

import json
import pathlib
import shutil
import tempfile

import sentence_transformers
import torch
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (Gemma2Config, Gemma2ForSequenceClassification, LlamaConfig, LlamaForSequenceClassification,
                          PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification)

OUT = pathlib.Path(__file__).parent / "rerankers"
PAIRS = [("What is Ingot?", "a fox ran over the hill"), ("one two", "three four five"), ("x", "y"), ("the yes", "no wood\n")]
SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=8, max_position_embeddings=512)
ROLES = """{%- set asked = messages | selectattr("role", "eq", "system") | map(attribute="content") | list -%}
<|im_start|>system
Judge.<|im_end|>
<|im_start|>user
<Instruct>: {{ asked[0] if asked else "Find what answers." }}
<Query>: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}
<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}<|im_end|>
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
PARTS = """{% for m in messages %}{{ m.role }}: {% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}
{% endfor %}"""
CHATML = """{% for m in messages %}{% if m.role in ['system', 'user', 'assistant'] %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}{% endfor %}"""
# the prompt of Qwen3-Reranker's model card
BEFORE = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. '
          'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def tokenizer(end=None):
    """Bytes and a few merges; end: of each text, as Llama's classifiers have it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {c: i for i, c in enumerate(alphabet)}
    for a, b in (merges := [("y", "e"), ("ye", "s"), ("n", "o"), ("t", "h"), ("th", "e")]):
        vocab[a + b] = len(vocab)
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    if end:
        t.post_processor = processors.TemplateProcessing(single=f"$A {end}", pair=f"$A {end} $B {end}",
                                                         special_tokens=[(end, t.token_to_id(end))])
    return PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                                   model_max_length=512), len(t.get_vocab())


def randomize(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        scale = 0.3 if "norm" in name else 0.35
        p.data = torch.randn(p.shape, generator=g) * scale + (1.0 if "norm" in name else 0.0)
    return model.eval()


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1) + "\n")


def save(name, model, tok, template=None):
    path = OUT / name
    tok.chat_template = template
    model.save_pretrained(path)
    tok.save_pretrained(path)
    (path / "generation_config.json").unlink(missing_ok=True)
    return path


def library(case):
    """The rows of a case, of the library."""
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d) / "m"
        lay(case, d)
        m = CrossEncoder(str(d), device="cpu")
        rows = []
        for name in [None, *m.prompts]:
            for query, document in PAIRS:
                prompt = m.prompts[name or m.default_prompt_name] if name or m.default_prompt_name else None
                ids = m.preprocess([(query, document)], prompt=prompt)["input_ids"][0].tolist()
                rows.append({"query": query, "document": document, "tokens": ids,
                             "score": float(m.predict([(query, document)], prompt_name=name)[0])}
                            | ({"prompt_name": name} if name else {}))
        return rows


def lay(case, path):
    shutil.copytree(OUT / case["base"], path)
    for name, value in case.get("files", {}).items():
        (path / name).unlink(missing_ok=True) if value is None else write(path / name, value)


def card(name):
    """By the model card: ids of the three parts side by side, the softmax over "no" and "yes"."""
    tok = PreTrainedTokenizerFast.from_pretrained(OUT / name)
    model = Qwen3ForCausalLM.from_pretrained(OUT / name, dtype=torch.float32).eval()
    yes, no = tok.convert_tokens_to_ids("yes"), tok.convert_tokens_to_ids("no")
    rows = []
    for query, document in PAIRS:
        parts = (BEFORE, f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}", AFTER)
        ids = [i for part in parts for i in tok.encode(part, add_special_tokens=False)]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1]
        score = torch.log_softmax(torch.stack([logits[no], logits[yes]]), 0)[1].exp()
        rows.append({"query": query, "document": document, "tokens": ids, "score": float(score)})
    return rows


def differ(a, b, what):
    d = max(abs(x["score"] - y["score"]) for x, y in zip(a, b))
    assert d > 1e-3, (what, d)


def logits():
    """A causal model as the library saves it, and variants of its files."""
    tok, vocab = tokenizer()
    model = randomize(Qwen3ForCausalLM(Qwen3Config(vocab_size=vocab, tie_word_embeddings=True, **SIZES)), 1)
    path = save("qwen3", model, tok, ROLES)
    with tempfile.TemporaryDirectory() as d:
        CrossEncoder(str(path), device="cpu", prompts={"short": "Say yes."}).save_pretrained(d)
        d = pathlib.Path(d)
        for f in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json", "1_LogitScore/config.json"):
            write(path / f, json.loads((d / f).read_text()))
    bert = json.loads((path / "sentence_bert_config.json").read_text())
    told = json.loads((path / "config_sentence_transformers.json").read_text())
    score = json.loads((path / "1_LogitScore" / "config.json").read_text())
    bare = {f: None for f in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json")}
    structured = json.loads(json.dumps(bert))
    structured["modality_config"]["message"]["format"] = "structured"
    cases = {
        "logits": {"base": "qwen3"},
        "true alone": {"base": "qwen3", "files": {"1_LogitScore/config.json": score | {"false_token_id": None}}},
        "identity": {"base": "qwen3", "files": {"config_sentence_transformers.json": told | {
            "activation_fn": "torch.nn.modules.linear.Identity"}}},
        "default prompt": {"base": "qwen3", "files": {"config_sentence_transformers.json": told | {
            "default_prompt_name": "short"}}},
        "generation prompt": {"base": "qwen3", "files": {"sentence_bert_config.json": bert | {
            "processing_kwargs": {"chat_template": {"add_generation_prompt": True}}}}},
        "structured": {"base": "qwen3", "files": {"sentence_bert_config.json": structured,
                                                  "chat_template.jinja": PARTS}},
    }
    for name, case in cases.items():
        case["rows"] = library(case)
        if name != "logits":
            differ(case["rows"], cases["logits"]["rows"], name)
    plain = {"base": "qwen3", "files": bare | {"chat_template.jinja": CHATML}, "args": ["--rerank", "qwen3"], "rows": card("qwen3")}
    differ(plain["rows"], cases["logits"]["rows"], "card")
    return cases | {"model card": plain}


def classifiers():
    tok, vocab = tokenizer()
    save("qwen3-score", randomize(Qwen3ForSequenceClassification(Qwen3Config(
        vocab_size=vocab, num_labels=1, pad_token_id=tok.pad_token_id, **SIZES)), 2).to(torch.bfloat16), tok, ROLES)
    # no template; the token behind the document is the padding token, which does not count
    tok, vocab = tokenizer("<|endoftext|>")
    save("llama-score", randomize(LlamaForSequenceClassification(LlamaConfig(
        vocab_size=vocab, num_labels=1, pad_token_id=tok.pad_token_id, **SIZES)), 3).to(torch.bfloat16), tok)
    tok, vocab = tokenizer()
    path = save("gemma2-score", randomize(Gemma2ForSequenceClassification(Gemma2Config(
        vocab_size=vocab, num_labels=1, pad_token_id=tok.pad_token_id, query_pre_attn_scalar=8, sliding_window=16,
        **SIZES)), 4).to(torch.bfloat16), tok, PARTS)
    with tempfile.TemporaryDirectory() as d:
        CrossEncoder(str(path), device="cpu").save_pretrained(d)
        for f in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"):
            write(path / f, json.loads((pathlib.Path(d) / f).read_text()))
    told = json.loads((path / "config_sentence_transformers.json").read_text())
    config = json.loads((OUT / "llama-score" / "config.json").read_text())
    cases = {"score": {"base": "qwen3-score"}, "joined": {"base": "llama-score"},
             "joined, no padding token": {"base": "llama-score", "files": {"config.json": config | {"pad_token_id": None}}},
             "saved": {"base": "gemma2-score"},
             "saved, identity": {"base": "gemma2-score", "files": {"config_sentence_transformers.json": told | {
                 "activation_fn": "torch.nn.modules.linear.Identity"}}}}
    for case in cases.values():
        case["rows"] = f32(case)
    differ(cases["joined"]["rows"], cases["joined, no padding token"]["rows"], "padding token")
    differ(cases["saved"]["rows"], cases["saved, identity"]["rows"], "activation")
    return cases


def f32(case):
    """The library computes in the type of the file unless it is told otherwise."""
    files = case.get("files", {})
    config = files.get("config.json") or json.loads((OUT / case["base"] / "config.json").read_text())
    return library(case | {"files": files | {"config.json": config | {"dtype": "float32"}}})


def main():
    print("sentence-transformers", sentence_transformers.__version__)
    shutil.rmtree(OUT, ignore_errors=True)
    cases = logits() | classifiers()
    for name, case in cases.items():
        scores = [r["score"] for r in case["rows"]]
        assert max(scores) - min(scores) > 1e-3, (name, "all pairs are alike", scores)
    (OUT / "scores.json").write_text(json.dumps(cases) + "\n")


main()
