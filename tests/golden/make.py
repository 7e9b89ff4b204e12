"""Make results of all cases, or compare them bit for bit with those of another version on the same machine.

python -m tests.golden.make --out tests/golden/results.json.xz       what test_golden.py compares with
python -m tests.golden.make --bits                                   a line "digest  case" for each, to compare:

git worktree add /tmp/before REVISION && cp src/trajens/kernels/*.so /tmp/before/src/trajens/kernels/
PYTHONPATH=/tmp/before/src python -m tests.golden.make --bits > before.txt
python -m tests.golden.make --bits | diff before.txt -
"""

import argparse
import json
import lzma
from pathlib import Path

import jax

jax.config.update("jax_num_cpu_devices", 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--bits", action="store_true")
    parser.add_argument("--only", nargs="*")
    given = parser.parse_args()
    from tests.golden import cases

    found = {}
    for name in given.only or filter(cases.is_runnable, cases.CASES):
        found[name] = cases.result(name)
        if given.bits:
            print(found[name]["sha256"][:24], name, flush=True)
    if given.out:
        given.out.write_bytes(lzma.compress(json.dumps(found, separators=(",", ":")).encode()))


if __name__ == "__main__":
    main()
