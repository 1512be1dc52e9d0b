"""The corpus's small text engine: templates with alternatives and slots, and what is held out.

A template is English with `[this|that|]` alternatives (they nest) and `{slot}` places. `Draw` makes
every random choice of one sample and remembers the ones that matter as keys; a sample is held out
of the training set when any of its keys is, so held-out wordings and held-out slot combinations
never reach the model, in any sample.
"""

import re
import zlib

SYLLABLES = """ba be bo da de do fa fe ga go ha he ja jo ka ke ki ko la le li lo ma me mi mo na ne ni no pa pe ra re ri ro sa
se si so ta te ti to va ve vi vo wa wi ya yo za ze""".split()
ENDS = ["", "n", "r", "s", "l", "m", "th", "x", "nd", "rt"]

ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")


def is_held(key, one_in):
    """A fixed property of the text of the key: the same in every run and for every seed."""
    return zlib.crc32(key.encode()) % one_in == 0


class Draw:
    """The choices of one sample."""

    def __init__(self, rng):
        self.rng = rng
        self.held = set()

    def one(self, options):
        return options[self.rng.randrange(len(options))]

    def some(self, options, n):
        return self.rng.sample(options, n)

    def chance(self, p):
        return self.rng.random() < p

    def hold(self, kind, key, one_in):
        """Marks the sample as held out for `kind` if the key is one of the held-out ones."""
        if is_held(kind + ":" + key, one_in):
            self.held.add(kind)

    def fill(self, template, **slots):
        """Expands the alternatives innermost first, then puts the slots in."""
        while True:
            text, n = ALTERNATIVES.subn(lambda m: self.one(m.group(1).split("|")), template)
            if n == 0:
                return re.sub(r"\{(\w+)\}", lambda m: str(slots[m.group(1)]), text)
            template = text

    def ask(self, templates, **slots):
        """A prompt from one of the wordings; about one wording in fourteen is held out."""
        template = self.one(templates)
        self.hold("wording", template, 14)
        return self.fill(template, **slots)


def invented(draw, n_syllables):
    """A name that nobody has: with it the model learns to copy what it never saw."""
    return upper_first("".join(draw.one(SYLLABLES) for _ in range(n_syllables)) + draw.one(ENDS))


def a(noun):
    """The noun with its indefinite article."""
    return ("an " if noun[0] in "aeiou" or noun.startswith("hon") else "a ") + noun


def upper_first(text):
    return text[:1].upper() + text[1:]


def and_list(words):
    """one, two and three"""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def roughen(draw, prompt):
    """A prompt as people type it: now and then without capital or full stop, or with a greeting."""
    if draw.chance(0.12):
        prompt = draw.one(["Hi! ", "Hello. ", "Hey, ", "Please help: ", "Quick question: ", "OK. ",
                           "Hello! ", "Now: ", "Next: ", "Thanks. "]) + prompt
    if draw.chance(0.12):
        prompt = prompt[0].lower() + prompt[1:]
    if draw.chance(0.12) and prompt[-1] in ".?":
        prompt = prompt[:-1]
    if draw.chance(0.06):
        prompt += draw.one([" Thanks!", " Thank you.", " Please."])
    return prompt
