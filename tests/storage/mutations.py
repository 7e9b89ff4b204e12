"""Damage to a file, as Hypothesis draws it."""

from hypothesis import strategies as st

DIGITS = b"0123456789"
_PLACE = st.floats(0.0, 1.0, exclude_max=True)


def mutations():
    """Functions from the bytes of a file to other bytes, or to None where the file is to be removed."""
    bits, text, number = st.integers(1, 255), st.binary(min_size=1, max_size=12), st.sampled_from(DIGITS)
    return st.one_of(
        st.builds(_flipped, st.lists(st.tuples(_PLACE, bits), min_size=1, max_size=3)),
        st.builds(_renumbered, _PLACE, number),
        st.builds(_renumbered, _PLACE, number),
        st.builds(lambda a: _Named("cut", a, change=lambda raw: raw[: _at(raw, a)]), _PLACE),
        st.builds(lambda a, b: _Named("deleted", a, b, change=lambda raw: _without(raw, a, b)), _PLACE, _PLACE),
        st.builds(lambda a, t: _Named("inserted", a, t, change=lambda raw: _with(raw, a, t)), _PLACE, text),
        st.builds(lambda t: _Named("extended", t, change=lambda raw: raw + t), text),
        st.builds(lambda a: _Named("repeated", a, change=lambda raw: raw + raw[_at(raw, a) :]), _PLACE),
        st.builds(lambda a, b: _Named("swapped", a, b, change=lambda raw: _swapped(raw, a, b)), _PLACE, _PLACE),
        st.just(_Named("empty", change=lambda raw: b"")),
        st.just(_Named("removed", change=lambda raw: None)),
    )


class _Named:
    """A change that can be read in the report of a failure."""

    def __init__(self, *name, change):
        self._name, self._change = name, change

    def __call__(self, raw):
        return self._change(raw)

    def __repr__(self):
        return repr(self._name)


def _at(raw, place):
    return int(place * len(raw))


def _flipped(changes):
    def change(raw):
        found = bytearray(raw)
        for place, bits in changes if raw else ():
            found[_at(raw, place)] ^= bits
        return bytes(found)

    return _Named("flipped", *changes, change=change)


def _renumbered(place, digit):
    """Another digit in place of the next one: damage that a parser cannot see."""

    def change(raw):
        places = [i for i, byte in enumerate(raw) if byte in DIGITS]
        if not places:
            return raw
        i = places[_at(places, place)]
        return raw[:i] + bytes([digit]) + raw[i + 1 :]

    return _Named("renumbered", place, digit, change=change)


def _without(raw, a, b):
    first, last = sorted((_at(raw, a), _at(raw, b)))
    return raw[:first] + raw[last:]


def _with(raw, a, text):
    return raw[: _at(raw, a)] + text + raw[_at(raw, a) :]


def _swapped(raw, a, b):
    """Three parts in the order 1, 3, 2."""
    first, last = sorted((_at(raw, a), _at(raw, b)))
    return raw[:first] + raw[last:] + raw[first:last]
