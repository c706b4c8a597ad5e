"""Documents to search: made-up words, of which few are frequent and most are rare, as in any language."""

import random
from itertools import accumulate, product

_WORDS = ["".join(syllables) for syllables in product(("ba", "ke", "lo", "mi", "nu", "ta", "re", "so"), repeat=4)]
_WEIGHTS = list(accumulate(1 / (rank + 1) for rank in range(len(_WORDS))))
_LENGTH, _SENTENCE = 250, 12

QUERIES = (
    _WORDS[20],
    _WORDS[200],
    _WORDS[2000],
    f"{_WORDS[30]} {_WORDS[150]}",
    f"{_WORDS[50]} or {_WORDS[500]}",
    f"{_WORDS[40]} -{_WORDS[10]}",
)
"""What is looked for: frequent, less frequent and rare words, two together, one of two, one without another."""


def book(number: int) -> str:
    """The text of a document: two thousand characters, always the same for its number."""
    words = random.Random(number).choices(_WORDS, cum_weights=_WEIGHTS, k=_LENGTH)
    sentences = [" ".join(words[start : start + _SENTENCE]) + "." for start in range(0, _LENGTH, _SENTENCE)]
    return " ".join(sentences)
