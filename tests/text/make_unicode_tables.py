#!/usr/bin/env python3
"""Makes coordinator/tokenizer/unicode_tables.c: character classes as the HuggingFace tokenizers library has them.

The library takes some classes from tables of an older Unicode version than others; asking it about every character is
the only way to agree with it.  usage: make_unicode_tables.py > unicode_tables.c"""
from tokenizers import normalizers as N, pre_tokenizers as P

LAST = 0x10FFFF
bert = P.BertPreTokenizer()
accents = N.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
clean = N.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
strip, nfd, nfkd = N.StripAccents(), N.NFD(), N.NFKD()


def moves(c):
    """Has a combining class other than 0: then it changes places with a mark of a lower or a higher class."""
    return (nfd.normalize_str("a\u0345" + c) != "a\u0345" + nfd.normalize_str(c)
            or nfd.normalize_str("a" + c + "\u0334") != "a" + nfd.normalize_str(c) + "\u0334")


TABLES = (
    ("punctuation", "BertPreTokenizer and Punctuation", lambda c: len(bert.pre_tokenize_str("a" + c + "a")) == 3),
    ("nonspacing", "what BertNormalizer strips as an accent", lambda c: accents.normalize_str(c) == ""),
    ("marks", "what StripAccents strips", lambda c: strip.normalize_str(c) == ""),
    ("other", "what BertNormalizer takes for a control", lambda c: clean.normalize_str("a" + c + "a") == "aa"),
    ("ordered", "combining class other than 0", moves),
    ("decomposable", "decomposes in NFKD", lambda c: nfkd.normalize_str(c) != c),
)


def ranges(test):
    found, start = [], None
    for cp in range(0x80, LAST + 2):
        yes = cp <= LAST and not 0xD800 <= cp < 0xE000 and test(chr(cp))
        if yes and start is None:
            start = cp
        if not yes and start is not None:
            found.append((start, cp - 1))
            start = None
    return found


def main():
    print("/* Made by tests/text/make_unicode_tables.py.  Characters from U+0080 on, by first and last. */")
    print('#include "coordinator/tokenizer/unicode_tables.h"\n\n/* clang-format off */')
    for name, what, test in TABLES:
        found = ranges(test)
        print(f"/* {what} */\nstatic const struct uc_range {name}_ranges[] = {{")
        line = "   "
        for a, b in found:
            item = f" {{0x{a:X}, 0x{b:X}}},"
            if len(line) + len(item) > 116:
                print(line)
                line = "   "
            line += item
        print(line)
        print(f"}};\nconst struct uc_table uc_{name} = {{{name}_ranges, sizeof {name}_ranges / sizeof {name}_ranges[0]}};\n")


main()
