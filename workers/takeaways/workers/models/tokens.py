"""Counting tokens without asking anybody, so that a step never goes over its share of the window.

The estimate is a price for each character class, one for each run of a class, and a floor. The prices were
fitted so that the densest of the tokenizers of current Claude models counts at most 90 % of the estimate on
English, chat, source code, JSON, logs, paths, hexadecimal, UUIDs, base64, minified code and emoji, and at
most 87 % on everyday text in some twenty other languages (Chinese, Japanese, Korean, Arabic, Persian,
Hebrew, Hindi, Bengali, Tamil, Thai, Burmese, Amharic, Georgian, Russian, Greek, Vietnamese, ... and
European ones). The floor is half a token for an ASCII character and a whole one for any other; it puts
plain English at about 1.5 times the truth.

Text of *random* rare characters (ideographs from no sentence, dead scripts) can cost more than the
estimate, as can long random runs of lower-case letters. The provider then says "too long", and the step is
halved.
"""

from __future__ import annotations

from typing import Final

# One byte for each class of byte in UTF-8. A character of several bytes is priced by its first.
_LOWER, _UPPER, _DIGIT, _SPACE, _BREAK, _MARK = b"aA0 \n."
_LATIN, _TWO, _INDIC, _OTHER, _SYMBOL, _KANA, _HAN, _HANGUL, _WIDE, _FOUR = b"LTIOSKHGWF"
_FOLLOWING = ord("_")

# In hundredths of a token.
_EACH: Final = {
    _LOWER: 39,
    _UPPER: 107,
    _DIGIT: 40,
    _SPACE: 10,
    _BREAK: 30,
    _MARK: 100,
}
_EACH_BEYOND_ASCII: Final = {
    _LATIN: 250,  # accented Latin, IPA, combining marks, Greek capitals
    _TWO: 95,  # Greek, Cyrillic, Hebrew, Arabic
    _INDIC: 115,  # the scripts of India, Thai
    _OTHER: 180,  # Burmese, Georgian, Ethiopic, Khmer, Vietnamese vowels
    _SYMBOL: 300,  # typographic punctuation, joiners, arrows, boxes
    _KANA: 110,
    _HAN: 135,
    _HANGUL: 150,
    _WIDE: 150,  # full-width forms, variation selectors
    _FOUR: 420,  # emoji
}
# A word that follows a space is cheaper than one that begins in the middle of something (`getX`, base64).
_WORD, _WORD_AFTER_SPACE, _WORD_AFTER_CAPITAL = 80, 10, 75
_CAPITALS, _DIGITS, _SPACES, _BREAKS = 55, 90, 60, 130


def _class_of(byte: int) -> int:
    if byte < 0x80:
        character = chr(byte)
        if character.islower():
            return _LOWER
        if character.isupper():
            return _UPPER
        if character.isdigit():
            return _DIGIT
        return {" ": _SPACE, "\n": _BREAK, "\r": _BREAK, "\t": _BREAK}.get(character, _MARK)
    above = (
        (0xC0, _FOLLOWING),
        (0xD0, _LATIN),
        (0xE0, _TWO),
        (0xE1, _INDIC),
        (0xE2, _OTHER),
        (0xE3, _SYMBOL),
        (0xE4, _KANA),
        (0xEA, _HAN),
        (0xEE, _HANGUL),
        (0xF0, _WIDE),
    )
    return next((kind for end, kind in above if byte < end), _FOUR)


_CLASSES: Final = bytes(_class_of(byte) for byte in range(256))


def _only(kind: int) -> bytes:
    """A table that turns classes into "of this kind" (`x`) or not (`-`), so that `-x` is where a run
    begins.
    """
    return bytes(ord("x") if byte == kind else ord("-") for byte in range(256))


_ONLY: Final = {kind: _only(kind) for kind in (_LOWER, _UPPER, _DIGIT, _SPACE, _BREAK)}


def _runs(classes: bytes, kind: int) -> int:
    marked = classes.translate(_ONLY[kind])
    return marked.count(b"-x") + marked.startswith(b"x")


def estimate(text: str) -> int:
    """Return how many tokens `text` takes, erring on the high side. Tens of megabytes a second.

    `estimate(a + b) <= estimate(a) + estimate(b)`: a run costs most at the start of a text, and joining two
    texts can only make two runs one. So a sum of parts is a safe bound for the whole, and appending never
    lowers it.
    """
    if not text:
        return 0
    classes = text.encode("utf-8", "surrogatepass").translate(_CLASSES)
    price = sum(hundredths * classes.count(kind) for kind, hundredths in _EACH.items())
    if beyond := len(text) - sum(map(classes.count, _EACH)):
        price += sum(hundredths * classes.count(kind) for kind, hundredths in _EACH_BEYOND_ASCII.items())
    after_space = classes.count(b" a") + classes.count(b"\na")
    after_capital = classes.count(b"Aa")
    price += _WORD_AFTER_SPACE * after_space + _WORD_AFTER_CAPITAL * after_capital
    price += _WORD * (_runs(classes, _LOWER) - after_space - after_capital)
    after_space = classes.count(b" A") + classes.count(b"\nA")
    price += _CAPITALS * (_runs(classes, _UPPER) - after_space)
    price += (
        _DIGITS * _runs(classes, _DIGIT) + _SPACES * _runs(classes, _SPACE) + _BREAKS * _runs(classes, _BREAK)
    )
    floor = 50 * (len(text) - beyond) + 100 * beyond
    return -(-max(price, floor) // 100)
