"""Writes tests/golden/encoders: tiny random encoders as repositories store them, and the embeddings that
sentence-transformers computes from them.

    python3 make_encoders.py [NAME ...]     # needs torch, transformers, sentence-transformers, tokenizers; NAMEs alone

NAME has a whole folder; expected.json for each NAME the rows: text or tokens with token_types, the ids that the
library gives to the model, and the vector (float32).  For each option of a row of MODELS a control runs transformers
without it, and its vectors must differ by more than 1e-2 of the greatest component.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import sentence_transformers
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, SentenceTransformer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import (BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel, ModernBertConfig,
                          ModernBertForMaskedLM, MPNetConfig, MPNetForMaskedLM, MPNetForSequenceClassification, MPNetModel,
                          ModernBertForSequenceClassification, ModernBertModel, PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM,
                          RobertaModel, XLMRobertaConfig, XLMRobertaForSequenceClassification, XLMRobertaModel)

OUT = pathlib.Path(__file__).parent / "encoders"
TEXTS = ["What is Ingot?", "A fox ran over the hill and into the wood, where it slept.", "x", "Café Zürich, 東京!",
         "one two three four five six seven"]
WORDS = ["what", "is", "a", "fox", "ran", "over", "the", "hill", "and", "one", "two", "in", "##got", "##to", "##ood"]
SHARP = ("query", "key", "attn.q", "attn.k", "Wqkv")  # so that a token attends to few others
SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)


def special(t, cls, sep):
    i = {k: t.token_to_id(k) for k in (cls, sep)}
    return processors.TemplateProcessing(single=f"{cls} $A {sep}", pair=f"{cls} $A {sep} $B:1 {sep}:1",
                                         special_tokens=list(i.items()))


def wordpiece():
    """Words, letters and continued letters; BERT's normalizer, which lowercases and strips accents."""
    letters = "abcdefghijklmnopqrstuvwxyz.,?!;:"
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + WORDS + list(letters) + [f"##{c}" for c in letters] + ["東"]
    vocab = {w: i for i, w in enumerate(dict.fromkeys(names))}
    t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.post_processor = special(t, "[CLS]", "[SEP]")
    return PreTrainedTokenizerFast(tokenizer_object=t, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
                                   sep_token="[SEP]", mask_token="[MASK]", model_max_length=512,
                                   model_input_names=["input_ids", "token_type_ids", "attention_mask"]), len(vocab)


def mpnet_pieces():
    """MPNet's: BERT's words between RoBERTa's special tokens."""
    t = json.loads(wordpiece()[0].backend_tokenizer.to_str())
    words = [w for w in t["model"]["vocab"] if not w.startswith("[")]
    names = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", *words, "<mask>"]
    t = Tokenizer(models.WordPiece({w: i for i, w in enumerate(names)}, unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    return PreTrainedTokenizerFast(tokenizer_object=t, unk_token="[UNK]", pad_token="<pad>", cls_token="<s>", sep_token="</s>",
                                   bos_token="<s>", eos_token="</s>", mask_token="<mask>", model_max_length=512,
                                   model_input_names=["input_ids", "attention_mask"]), len(names)


def bytelevel():
    """RoBERTa's: bytes and a few merges, <s> and </s> around a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {w: i for i, w in enumerate(["<s>", "<pad>", "</s>", "<unk>", *alphabet])}
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("o", "w"), ("e", "n")]
    for a, b in merges:
        vocab[a + b] = len(vocab)
    vocab["<mask>"] = len(vocab)
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    return fast(t, "<s>", "</s>"), len(vocab)


def unigram():
    """XLM-RoBERTa's: SentencePiece's Unigram model behind NFKC."""
    letters = "abcdefghijklmnopqrstuvwxyz.,?!;:éüABCDEFGHIJKLMNOPQRSTUVWXYZ東京"
    words = ["▁", "▁the", "▁fox", "▁ran", "▁over", "▁and", "▁wood", "▁slept", "▁one", "▁two", "ing", "in", "er", "t▁"]
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + [
        (w, -2.0 - 0.37 * i) for i, w in enumerate(words)] + [(c, -9.0 - 0.01 * i) for i, c in enumerate(letters)]
    t = Tokenizer(models.Unigram(pieces + [("<mask>", 0.0)], unk_id=3))
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
                                                     special_tokens=[("<s>", 0), ("</s>", 2)])
    return fast(t, "<s>", "</s>"), len(pieces) + 1


def fast(t, cls, sep):
    return PreTrainedTokenizerFast(tokenizer_object=t, unk_token="<unk>", pad_token="<pad>", cls_token=cls, sep_token=sep,
                                   bos_token=cls, eos_token=sep, mask_token="<mask>", model_max_length=512)


def randomize(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        norm = "LayerNorm" in name or "norm" in name
        scale = 0.3 if norm or name.endswith("bias") else 0.9 if any(k in name for k in SHARP) else 0.25
        p.data = torch.randn(p.shape, generator=g) * scale + (1.0 if norm and name.endswith("weight") else 0.0)
        if "Wqkv" in name:  # less sharp, or the library's f32 is 2e-5 off its f64; values are as other matrices
            p.data *= 0.6
            p.data[-p.shape[0] // 3:] *= 0.5
    return model.eval()


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def modules(path, pooling, then=(), more=None):
    """sentence-transformers' modules."""
    kinds = ["Transformer", "Pooling", *then]
    write(path / "modules.json", [{"idx": i, "name": str(i), "path": "" if i == 0 else f"{i}_{k}",
                                   "type": "sentence_transformers.models." + k} for i, k in enumerate(kinds)])
    names = ["cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens"]
    write(path / "1_Pooling" / "config.json", {"word_embedding_dimension": SIZES["hidden_size"]} | {
        f"pooling_mode_{n}": n == pooling for n in names})
    for name, value in (more or {}).items():
        write(path / name, value)


def states(model, ids, types=None):
    with torch.no_grad():
        more = {} if types is None else {"token_type_ids": torch.tensor([types])}
        return model(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), **more)[0][0].numpy()


def pooled(x, pooling, unit):
    v = x[0] if pooling == "cls_token" else x.max(0) if pooling == "max_tokens" else x.mean(0)
    return v / np.linalg.norm(v) if unit else v


def off(a, b):
    return float(np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(b).max())


def rows_of(name, base, pooling, unit, positions, n_types):
    """Of the library; of types other than its own, of transformers."""
    m = SentenceTransformer(str(OUT / name), device="cpu", model_kwargs={"dtype": torch.float32})
    rows = [{"text": t, "tokens": m.tokenizer(t)["input_ids"],
             "embedding": [float(np.float32(x)) for x in m.encode(t)]} for t in TEXTS]
    longest = (rows[1]["tokens"] * positions)[:positions]
    cases = [(longest, None)]
    if n_types > 1:
        some = rows[1]["tokens"]
        cases.append((some, [min(i * n_types // len(some), n_types - 1) for i in range(len(some))]))
        cases.append((some, [i % n_types for i in range(len(some))]))
    for ids, types in cases:
        v = pooled(states(base, ids, types), pooling, unit)
        rows.append({"tokens": ids, "embedding": [float(x) for x in v]} | ({"token_types": types} if types else {}))
    again = pooled(states(base, rows[1]["tokens"]), pooling, unit)
    assert off(again, rows[1]["embedding"]) < 1e-5, "the library computes what transformers does"
    if n_types > 1:
        assert off(rows[-1]["embedding"], rows[1]["embedding"]) > 1e-2, "token types"
    return rows


def control(name, what, base, ids, pooling, unit, want):
    d = off(pooled(states(base, ids), pooling, unit), want)
    assert d > 1e-2, (name, what, d)


def zeroed(model, part):
    """A copy whose table of that name has no effect."""
    import copy
    m = copy.deepcopy(model)
    for n, p in m.named_parameters():
        if part in n:
            p.data.zero_()
    return m


def changed(cls, base, **options):
    """A model of the same weights with other options."""
    m = cls(type(base.config)(**(base.config.to_dict() | options)))
    m.load_state_dict(base.state_dict(), strict=False)
    return m.eval()


def bert(name, pooling, unit, headed=False, seed=1, dtype=None, **options):
    tok, vocab = wordpiece()
    path = OUT / name
    cfg = BertConfig(vocab_size=vocab, max_position_embeddings=48, **(SIZES | options))
    whole = randomize(BertForMaskedLM(cfg) if headed else BertModel(cfg), seed)
    if dtype:
        whole = whole.to(dtype)
    whole.save_pretrained(path)
    tok.save_pretrained(path)
    modules(path, pooling, ["Normalize"] if unit else [])
    base = (whole.bert if headed else whole).float()
    rows = rows_of(name, base, pooling, unit, 48, cfg.type_vocab_size)
    ids, want = rows[1]["tokens"], rows[1]["embedding"]
    control(name, "positions", zeroed(base, "position_embeddings"), ids, pooling, unit, want)
    control(name, "types", zeroed(base, "token_type_embeddings"), ids, pooling, unit, want)
    control(name, "epsilon", changed(BertModel, base, layer_norm_eps=0.5), ids, pooling, unit, want)
    if cfg.hidden_act != "gelu":
        d = off(pooled(states(changed(BertModel, base, hidden_act="gelu"), ids), pooling, unit), want)
        assert d > 2e-4, (name, d)  # the two forms of GELU are close; the tests' tolerance is 1e-5
    # a first token that does not see those behind it
    shorter = pooled(states(base, ids[: len(ids) // 2]), "cls_token", unit)
    assert off(shorter, pooled(states(base, ids), "cls_token", unit)) > 1e-2, (name, "not causal")
    return rows


def roberta(name, tokenizer, config, cls, pooling, unit, headed=None, seed=1, pad=1, **options):
    tok, vocab = tokenizer()
    path = OUT / name
    cfg = config(vocab_size=vocab, max_position_embeddings=65 + pad, type_vocab_size=1, pad_token_id=pad, bos_token_id=0,
                 eos_token_id=2, **(SIZES | options))
    whole = randomize(headed(cfg) if headed else cls(cfg), seed)
    whole.save_pretrained(path)
    tok.save_pretrained(path)
    modules(path, pooling, ["Normalize"] if unit else [])
    base = whole.roberta if headed else whole
    rows = rows_of(name, base, pooling, unit, 64, 1)
    ids, want = rows[1]["tokens"], rows[1]["embedding"]
    control(name, "positions", zeroed(base, "position_embeddings"), ids, pooling, unit, want)
    import copy
    other = copy.deepcopy(base)  # positions that begin with row 0
    table = other.embeddings.position_embeddings.weight
    table.data = table.data.roll(pad + 1, 0)
    control(name, "first position", other, ids, pooling, unit, want)
    return rows


def mpnet(name, pooling, unit, headed=False, seed=1, **options):
    """Biases of distances beside positions; texts go beyond the greatest distance.  With heads of 4 elements the library's f32 is
    1.3e-5 off its f64, which is more than the tests allow."""
    tok, vocab = mpnet_pieces()
    path = OUT / name
    cfg = MPNetConfig(vocab_size=vocab, max_position_embeddings=182, bos_token_id=0, eos_token_id=2, **(SIZES | options))
    whole = randomize(MPNetForMaskedLM(cfg) if headed else MPNetModel(cfg), seed)
    whole.save_pretrained(path)
    tok.save_pretrained(path)
    modules(path, pooling, ["Normalize"] if unit else [])
    base = whole.mpnet if headed else whole
    rows = rows_of(name, base, pooling, unit, 180, 1)
    ids, want = rows[1]["tokens"], rows[1]["embedding"]
    control(name, "positions", zeroed(base, "position_embeddings"), ids, pooling, unit, want)
    control(name, "distances", zeroed(base, "relative_attention_bias"), ids, pooling, unit, want)
    import copy
    for what, order in (("sides", list(range(16, 32)) + list(range(16))), ("greatest", [*range(15), 14, *range(16, 31), 30])):
        other = copy.deepcopy(base)
        table = other.encoder.relative_attention_bias.weight
        table.data = table.data[order]
        longest = rows[-1]["tokens"]
        control(name, what, other, longest, pooling, unit, rows[-1]["embedding"])
    return rows


def modernbert(name, pooling, unit, headed=False, seed=1, then=None, **options):
    """Layers with a window between global ones, a RoPE for each kind; then: keys of config.json as older files have them."""
    tok, vocab = wordpiece()
    path = OUT / name
    cfg = ModernBertConfig(**(MODERN | dict(vocab_size=vocab) | options))
    whole = randomize(ModernBertForMaskedLM(cfg) if headed else ModernBertModel(cfg), seed)
    whole.save_pretrained(path)
    tok.save_pretrained(path)
    if then:
        saved = json.loads((path / "config.json").read_text())
        write(path / "config.json", {k: v for k, v in (saved | then).items() if v is not None})
    modules(path, pooling, ["Normalize"] if unit else [])
    base = whole.model if headed else whole
    rows = rows_of(name, base, pooling, unit, 64, 1)
    ids, want = rows[1]["tokens"], rows[1]["embedding"]

    def other(**changes):
        m = ModernBertModel(ModernBertConfig(**(MODERN | dict(vocab_size=vocab) | options | changes)))
        m.load_state_dict(base.state_dict(), strict=False)
        control(name, changes, m.eval(), ids, pooling, unit, want)

    other(local_attention=12)
    other(layer_types=["full_attention"] * 4)
    other(layer_types=["sliding_attention", "full_attention", "full_attention", "sliding_attention"])
    other(rope_parameters=ROPES | {"full_attention": ROPES["sliding_attention"]})
    other(rope_parameters=ROPES | {"sliding_attention": ROPES["full_attention"]})
    other(norm_eps=0.5)
    other(hidden_activation="relu")
    return rows


ROPES = {"full_attention": {"rope_type": "default", "rope_theta": 100.0},
         "sliding_attention": {"rope_type": "default", "rope_theta": 2.0}}
MODERN = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=64,
              local_attention=8, rope_parameters=ROPES, pad_token_id=0, cls_token_id=2, sep_token_id=3, bos_token_id=2,
              eos_token_id=3)
OLD_KEYS = {"rope_parameters": None, "layer_types": None, "global_rope_theta": 100.0, "local_rope_theta": 2.0,
            "global_attn_every_n_layers": 3}


PAIRS = [("What is Ingot?", "a fox ran over the hill"), ("one two", "three four five"), ("x", "y"), ("the wood", "the wood")]


def reranker(name, tokenizer, cls, config, seed, act, **options):
    """A CrossEncoder with one label."""
    tok, vocab = tokenizer()
    path = OUT / name
    cfg = config(vocab_size=vocab, num_labels=1, **((MODERN if config is ModernBertConfig else SIZES) | options))
    model = randomize(cls(cfg), seed)
    model.save_pretrained(path)
    tok.save_pretrained(path)
    if act:
        saved = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(saved | act, indent=1) + "\n")
    m = CrossEncoder(str(path), device="cpu")
    rows = []
    for pair in PAIRS:
        ids = m.tokenizer(*pair)
        rows.append({"query": pair[0], "document": pair[1], "tokens": ids["input_ids"], "score": float(m.predict([pair])[0])})
    scores = [r["score"] for r in rows]
    assert max(scores) - min(scores) > 1e-2, (name, "all pairs are alike", scores)
    plain = float(m.predict([PAIRS[0]], activation_fn=torch.nn.Identity())[0])
    assert abs(plain - scores[0]) > 1e-2 if not act else abs(1 / (1 + np.exp(-plain)) - scores[0]) > 1e-2, (name, "activation")
    swapped = float(m.predict([PAIRS[0][::-1]])[0])
    assert abs(swapped - scores[0]) > 1e-3, (name, "order", swapped)
    if getattr(cfg, "type_vocab_size", 1) > 1:
        ids = m.tokenizer(*PAIRS[0], return_tensors="pt")
        ids["token_type_ids"] *= 0
        with torch.no_grad():
            d = abs(float(model(**ids).logits[0, 0]) - plain)
        assert d > 1e-2, (name, "types", d)
    return rows


IDENTITY = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity", "version": "6.2.0"}}
RERANKERS = {
    "bert-reranker": lambda: reranker("bert-reranker", wordpiece, BertForSequenceClassification, BertConfig, 6, IDENTITY,
                                      max_position_embeddings=48),
    "xlm-roberta-reranker": lambda: reranker(
        "xlm-roberta-reranker", unigram, XLMRobertaForSequenceClassification, XLMRobertaConfig, 7, None,
        max_position_embeddings=66, type_vocab_size=1, pad_token_id=1),
    "mpnet-reranker": lambda: reranker("mpnet-reranker", mpnet_pieces, MPNetForSequenceClassification, MPNetConfig, 13, IDENTITY,
                                       max_position_embeddings=66),
    "modernbert-reranker": lambda: reranker("modernbert-reranker", wordpiece, ModernBertForSequenceClassification,
                                            ModernBertConfig, 8, IDENTITY, classifier_pooling="mean", classifier_bias=True),
}


MODELS = {
    "bert": lambda: bert("bert", "mean_tokens", True),
    "bert-cls": lambda: bert("bert-cls", "cls_token", False, headed=True, seed=2, hidden_act="gelu_new",
                             layer_norm_eps=1e-3, type_vocab_size=3),
    "roberta": lambda: roberta("roberta", bytelevel, RobertaConfig, RobertaModel, "mean_tokens", True,
                               headed=RobertaForMaskedLM, seed=4),
    "xlm-roberta": lambda: roberta("xlm-roberta", unigram, XLMRobertaConfig, XLMRobertaModel, "cls_token", True, seed=5,
                                   layer_norm_eps=1e-5),
    "modernbert": lambda: modernbert("modernbert", "mean_tokens", True, seed=9),
    "modernbert-old": lambda: modernbert("modernbert-old", "cls_token", False, headed=True, seed=10, then=OLD_KEYS,
                                         attention_bias=True, mlp_bias=True),
    "mpnet": lambda: mpnet("mpnet", "mean_tokens", True, seed=11, layer_norm_eps=1e-5),
    "mpnet-headed": lambda: mpnet("mpnet-headed", "cls_token", False, headed=True, seed=14, layer_norm_eps=1e-3),
    "bert-bf16": lambda: bert("bert-bf16", "max_tokens", False, seed=3, dtype=torch.bfloat16),
}


def main():
    print("sentence-transformers", sentence_transformers.__version__)
    names = sys.argv[1:] or [*MODELS, *RERANKERS]
    expected, scores = ({} if not sys.argv[1:] else json.loads((OUT / f).read_text()) for f in ("expected.json", "scores.json"))
    for name in names:
        shutil.rmtree(OUT / name, ignore_errors=True)
    for name, make in MODELS.items():
        if name not in names:
            continue
        expected[name] = make()
        for extra in ("generation_config.json", "README.md"):
            (OUT / name / extra).unlink(missing_ok=True)
    for name, make in RERANKERS.items():
        if name not in names:
            continue
        scores[name] = make()
        for extra in ("generation_config.json", "README.md"):
            (OUT / name / extra).unlink(missing_ok=True)
    (OUT / "scores.json").write_text(json.dumps(scores) + "\n")
    (OUT / "expected.json").write_text(json.dumps(expected) + "\n")


main()
