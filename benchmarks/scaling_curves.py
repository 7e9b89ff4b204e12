"""The sizes that `scaling.py` measures at."""

from __future__ import annotations

from dataclasses import replace

from scaling_points import ALL_DATA, PLANNED, Point, along

_POWERS = tuple(2**k for k in range(21))


def curves(is_gpu: bool, is_quick: bool = False) -> dict[str, list[Point]]:
    """Points by the name of what varies along them."""
    base = Point(chains=16 if is_gpu else 4)
    digits = Point("cnn", 0, 60_000, 32 if is_gpu else 16, base.chains)
    if is_quick:
        return {"parameters": along(base, hidden=(1, 16)), "tau, cnn": along(digits, tau=(2,))}
    hidden = _POWERS[0 : 13 if is_gpu else 11 : 2]
    return {
        "parameters": along(base, hidden=hidden),
        "examples": along(base, examples=_POWERS[10:21:2]),
        "examples, planned": along(replace(base, batches=PLANNED, s=200.0), examples=_POWERS[10:21:2]),
        "examples, all data": along(replace(base, batches=ALL_DATA), examples=_POWERS[10 : 17 if is_gpu else 15 : 2]),
        "tau": along(base, tau=(1, *_POWERS[1 : 10 if is_gpu else 8 : 2])),
        "chains": along(base, chains=_POWERS[0 : 11 if is_gpu else 7 : 2]),
        "tau, cnn": along(digits, tau=_POWERS[1:8:2]),
        "chains, cnn": along(digits, chains=_POWERS[0 : 7 if is_gpu else 5 : 2]),
    }


def memory_points(is_gpu: bool, is_quick: bool = False) -> list[Point]:
    """Sizes whose memory is known by the formula, ruled by losses, data and paths in turn."""
    base = Point(chunk=60, examples=4096)
    if is_quick:
        return [replace(base, hidden=256)]
    times = 16 if is_gpu else 1
    return [
        replace(base, hidden=1024 * times),
        replace(base, examples=times * 2**20),
        replace(base, tau=256 * times, hidden=256, chunk=240),
        replace(base, chains=64 * times, hidden=256, chunk=240),
        Point("cnn", 0, times * 60_000, 64, 256 * times),
        replace(base, chains=16 * times, hidden=64, chunk=1920),
    ]
