"""Numbers as people read them."""

from __future__ import annotations


def count(number: int) -> str:
    """12,345."""
    return f"{number:,}"


def moment(ns: int) -> str:
    """A time on the run's clock: 12.345 s."""
    return f"{ns / 1e9:.3f} s"


def length(ns: int) -> str:
    """A length of time, in the unit that suits it, to three figures: 850 µs, 12.3 ms, 4.56 s, 2 min 5 s."""
    sign, ns = ("-" if ns < 0 else ""), abs(ns)
    if ns >= 99_500_000_000:
        minutes, seconds = divmod(round(ns / 1e9), 60)
        return f"{sign}{minutes} min {seconds} s" if seconds else f"{sign}{minutes} min"
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if ns >= size:
            return f"{sign}{ns / size:.3g} {unit}"
    return f"{sign}{ns} ns"


def plural(number: int, one: str, many: str | None = None) -> str:
    """ "1 message", "3 messages"."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def printable(words: str) -> str:
    """Text as it may go to a terminal: control characters, with which a log line could do much there, are spelt out."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else f"\\x{ord(letter):02x}" for letter in words)


def brief(number: int) -> str:
    """A count in at most six letters: 12,345, then 123k, 12.3M."""
    if number < 100_000:
        return count(number)
    size, unit = next((size, unit) for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")) if number >= size)
    return f"{_three(number / size)}{unit}"


def share(of_one: float) -> str:
    """A share in percent: 97.5 %, and never 100 % of what is not all, nor 0 % of what is not none."""
    percent = f"{100 * of_one:.1f}".removesuffix(".0")
    if percent == "100" and of_one < 1:
        percent = "99.9"
    elif percent == "0" and of_one > 0:
        percent = "0.1"
    return f"{percent} %"


def _three(number: float) -> str:
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"
