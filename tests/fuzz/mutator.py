"""Makes new inputs from the corpus. It depends on Python's Random alone, so a seed repeats a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

NUMBERS = (
    b"0", b"-1", b"-0", b"1e999", b"-1e999", b"1E+5", b"0.1", b"9007199254740993", b"9223372036854775808", b"-9223372036854775809",
    b"18446744073709551616", b"1" * 400, b"1.0", b"01", b"+1", b".5", b"1.", b"NaN", b"Infinity", b"1e-400", b"0x10",
)  # fmt: skip
TOKENS = (
    b"\0", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b"\\ud800", b"\\udc00\\ud800", b"\\u0000", b"\r", b"\n",
    b"\r\n", b"\t", b"\\", b'"', b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b'""', b"{}", b"[]", b"\xe2\x80\xa8", b"\x7f", b"\x1b[2J",
    b'"id":"x",', b'"id":null', b'"kind":"reply"', b'"kind":"event"', b'"timeout":1', b'"type":"Syscall.Describe"', b"__proto__", b"$(id)", b"%s%n",
    b'"way":"raise"', b'"way":"lie"', b"/*", b"//",
)  # fmt: skip
NUMBER = re.compile(rb"-?\d+(\.\d+)?")
MOST = 60_000
"""The longest input, in bytes."""


class Mutator:
    """Makes new inputs out of old ones."""

    def __init__(self, random: Random, corpus: Sequence[bytes]) -> None:
        self._random = random
        self._corpus = corpus
        self._ways: tuple[Callable[[bytes], bytes], ...] = (
            self._flip, self._flip, self._insert, self._insert, self._replace_number, self._replace_number, self._cut, self._cut, self._repeat,
            self._splice, self._splice, self._shuffle_lines, self._truncate, self._nest, self._double_line, self._swap_word, self._pad,
        )  # fmt: skip

    def make(self) -> bytes:
        """Return a new input."""
        random = self._random
        text = random.choice(self._corpus)
        for _ in range(random.choice((0, 1, 1, 1, 2, 2, 4, 8))):
            text = random.choice(self._ways)(text)[:MOST]
        return text

    def _place(self, text: bytes) -> int:
        return self._random.randint(0, len(text))

    def _span(self, text: bytes, most: int = 40) -> tuple[int, int]:
        begin = self._place(text)
        return begin, min(len(text), begin + self._random.randint(1, most))

    def _flip(self, text: bytes) -> bytes:
        if not text:
            return text
        at = self._random.randrange(len(text))
        changed = text[at] ^ (1 << self._random.randrange(8))
        return text[:at] + bytes((changed,)) + text[at + 1 :]

    def _insert(self, text: bytes) -> bytes:
        at = self._place(text)
        return text[:at] + self._random.choice(TOKENS) + text[at:]

    def _replace_number(self, text: bytes) -> bytes:
        found = list(NUMBER.finditer(text))
        if not found:
            return text
        one = self._random.choice(found)
        return text[: one.start()] + self._random.choice(NUMBERS) + text[one.end() :]

    def _cut(self, text: bytes) -> bytes:
        begin, end = self._span(text)
        return text[:begin] + text[end:]

    def _repeat(self, text: bytes) -> bytes:
        begin, end = self._span(text)
        return text[:begin] + text[begin:end] * self._random.choice((2, 3, 50, 1000)) + text[end:]

    def _splice(self, text: bytes) -> bytes:
        other = self._random.choice(self._corpus)
        return text[: self._place(text)] + other[self._place(other) :]

    def _shuffle_lines(self, text: bytes) -> bytes:
        lines = text.split(b"\n")
        self._random.shuffle(lines)
        return b"\n".join(lines)

    def _truncate(self, text: bytes) -> bytes:
        return text[: self._place(text)]

    def _nest(self, text: bytes) -> bytes:
        """Nest a value in arrays or objects."""
        found = list(NUMBER.finditer(text))
        if not found:
            return text
        one = self._random.choice(found)
        depth = self._random.choice((1, 5, 120, 128, 130, 3000))
        opening, closing = (b"[", b"]") if self._random.random() < 0.5 else (b'{"a":', b"}")
        number = text[one.start() : one.end()]
        return text[: one.start()] + opening * depth + number + closing * depth + text[one.end() :]

    def _double_line(self, text: bytes) -> bytes:
        """Repeat a request with the same id."""
        lines = text.split(b"\n")
        at = self._random.randrange(len(lines))
        return b"\n".join(lines[: at + 1] + [lines[at]] * self._random.choice((1, 2, 30)) + lines[at + 1 :])

    def _swap_word(self, text: bytes) -> bytes:
        """Replace a word by another one of the corpus."""
        words = list(WORD.finditer(text))
        others: list[bytes] = WORD.findall(self._random.choice(self._corpus))
        if not words or not others:
            return text
        one = self._random.choice(words)
        return text[: one.start()] + self._random.choice(others) + text[one.end() :]

    def _pad(self, text: bytes) -> bytes:
        """Insert blanks, so that a line is about as long as the limit."""
        at = self._place(text)
        return text[:at] + b" " * self._random.choice((10, 1000, 8000, 8192, 9000)) + text[at:]


WORD = re.compile(rb'"[^"\n]{0,60}"')
