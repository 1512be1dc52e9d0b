#!/usr/bin/env python3
"""Makes tests/data/text/*.json: small tokenizers with every kind of part, and what HuggingFace tokenizers makes of
texts with them.  usage: make_vectors.py [FOLDER]"""
import json
import os
import random
import sys

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import agree

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = [
    "The little fox ran over the hill and saw the other foxes playing in the snow.",
    "It's a tensor; we don't sum it twice, we've summed it once. They'll see: 12345 + 67890 = 80235.",
    "def main(argc, argv):\n    return argc + 1\n\n\nprint(main(2, None))\n",
    "Привет, мир! Это простой текст. Καλημέρα κόσμε. naïve café über straße",
    "日本語のテキスト、中文文本。한국어 텍스트 😀😀 🦙",
    "the the the of of and and to to in in is is it it was was for for on on with with as as",
    "un- re- pre- ing- ness- tion- running walked talking unhappiness restart preview",
] * 4
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"\p{N}| ?", r"\p{N}{1,3}| ?")
BYTES = [f"<0x{i:02X}>" for i in range(256)]


def bpe(vocab_size, specials=(), alphabet=(), limit=200, **model):
    extra = {k: model[k] for k in ("continuing_subword_prefix", "end_of_word_suffix") if k in model}
    return Tokenizer(models.BPE(**model)), trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=list(specials), initial_alphabet=list(alphabet), limit_alphabet=max(limit, len(alphabet)),
        show_progress=False, **extra)


def trained(tok, trainer):
    tok.train_from_iterator(CORPUS, trainer)
    return tok


def byte_level_qwen():
    tok, tr = bpe(400, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], sorted(pre_tokenizers.ByteLevel.alphabet()))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    trained(tok, tr)
    tok.add_tokens([AddedToken("<think>", normalized=False), AddedToken("word", single_word=True),
                    AddedToken("<l>", lstrip=True), AddedToken("<r>", rstrip=True)])
    return tok


def byte_level_llama3():
    tok, tr = bpe(380, ["<|begin|>", "<|end|>"], sorted(pre_tokenizers.ByteLevel.alphabet()), ignore_merges=True)
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
        single="<|begin|> $A <|end|>", pair="$A $B", special_tokens=[("<|begin|>", 0), ("<|end|>", 1)])])
    return trained(tok, tr)


def byte_level_gpt2():
    tok, tr = bpe(360, ["<|endoftext|>"], sorted(pre_tokenizers.ByteLevel.alphabet()))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tok.decoder = decoders.ByteLevel()
    return trained(tok, tr)


def byte_level_falcon():
    tok, tr = bpe(360, [">>A<<"], sorted(pre_tokenizers.ByteLevel.alphabet()))
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    tok.decoder = decoders.ByteLevel()
    return trained(tok, tr)


def deepseek_coder():
    tok, tr = bpe(360, ["<｜begin｜>"], sorted(pre_tokenizers.ByteLevel.alphabet()))
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r), "isolated") for r in
         ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "\\s+$", "[一-龥ࠀ-一가-퟿]+")]
        + [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    return trained(tok, tr)


def clip_like():
    tok, tr = bpe(400, ["<|start|>", "<|end|>"], sorted(pre_tokenizers.ByteLevel.alphabet()), unk_token="<|end|>",
                  end_of_word_suffix="</w>")
    tok.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
                                           normalizers.Lowercase()])
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tok.decoder = decoders.BPEDecoder("</w>")
    tok.post_processor = processors.RobertaProcessing(("<|end|>", 1), ("<|start|>", 0))
    return trained(tok, tr)


def sentencepiece(normalizer=True):
    tok, tr = bpe(560, ["<unk>", "<s>", "</s>"] + BYTES, limit=90, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    if normalizer:
        tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    else:
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    trained(tok, tr)
    if normalizer:
        tok.pre_tokenizer = None
    else:
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    data = json.loads(tok.to_str())  # byte tokens are part of the vocabulary, not added
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    data["pre_tokenizer"] = data["pre_tokenizer"] if not normalizer else None
    tok = Tokenizer.from_str(json.dumps(data))
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="$A $B", special_tokens=[("<s>", 1)])
    return tok


def sentencepiece_unk():
    tok, tr = bpe(200, ["<unk>"], limit=60, unk_token="<unk>", fuse_unk=False)
    tok.normalizer = normalizers.NFKC()
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    tok.decoder = decoders.Metaspace()
    return trained(tok, tr)


def bert(**options):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(**options)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    trained(tok, trainers.WordPieceTrainer(vocab_size=300, show_progress=False,
                                           special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    tok.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tok


def unigram(byte_fallback):
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip(False, True),
                                           normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    tok.decoder = decoders.Metaspace()
    trained(tok, trainers.UnigramTrainer(vocab_size=260, show_progress=False, unk_token="<unk>",
                                         special_tokens=["<pad>", "</s>", "<unk>"]))
    data = json.loads(tok.to_str())
    if byte_fallback:
        data["model"]["byte_fallback"] = True
        data["model"]["vocab"] += [[b, -30.0] for b in BYTES]
        data["decoder"] = {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return Tokenizer.from_str(json.dumps(data))


def word_level(pre, normalizer=None):
    tok = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tok.normalizer = normalizer
    tok.pre_tokenizer = pre
    return trained(tok, trainers.WordLevelTrainer(vocab_size=150, special_tokens=["[UNK]"], show_progress=False))


def all_kinds():
    split = pre_tokenizers.Split
    kinds = {
        "byte-level-qwen": byte_level_qwen(), "byte-level-llama3": byte_level_llama3(),
        "byte-level-gpt2": byte_level_gpt2(), "byte-level-falcon": byte_level_falcon(),
        "deepseek-coder": deepseek_coder(), "clip": clip_like(), "sentencepiece": sentencepiece(),
        "metaspace-first": sentencepiece(False), "sentencepiece-unk": sentencepiece_unk(),
        "bert": bert(lowercase=True), "bert-cased": bert(lowercase=False, handle_chinese_chars=False, clean_text=False),
        "unigram": unigram(False), "unigram-bytes": unigram(True),
        "words": word_level(pre_tokenizers.Whitespace(), normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])),
        "words-space": word_level(pre_tokenizers.WhitespaceSplit(), normalizers.NFKD()),
        "words-delimiter": word_level(pre_tokenizers.CharDelimiterSplit("o")),
        "words-length": word_level(pre_tokenizers.FixedLength(3)),
    }
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        kinds[f"split-{behavior}"] = word_level(pre_tokenizers.Sequence(
            [split(Regex("[aeiou]|[0-9]+"), behavior), pre_tokenizers.Punctuation(behavior)]))
        kinds[f"split-{behavior}-inverted"] = word_level(split(" ", behavior, invert=True))
    return kinds


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "data", "text")
    os.makedirs(folder, exist_ok=True)
    for name, tok in all_kinds().items():
        rng = random.Random(name)
        specials = [t.content for t in tok.get_added_tokens_decoder().values()]
        texts = ["", " ", CORPUS[0], CORPUS[1], CORPUS[4]] + [agree.text(rng, specials, False) for _ in range(25)]
        cases = [{"text": t, "ids": a[0], "ids_add_special": a[1], "decoded": a[2], "decoded_skip_special": a[3]}
                 for t, a in zip(texts, agree.oracle(tok, texts))]
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as f:
            json.dump({"tokenizer": json.loads(tok.to_str()), "cases": cases}, f, ensure_ascii=False,
                      separators=(",", ":"))
            f.write("\n")


if __name__ == "__main__":
    main()
