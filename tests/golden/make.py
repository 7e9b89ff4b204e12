"""Make results of all cases, or compare them bit for bit with those of another version on the same machine.

python -m tests.golden.make --out tests/golden/results.json.xz       what test_golden.py compares with
python -m tests.golden.make --bits                                   a line "digest  case" for each, to compare:

git worktree add /tmp/before REVISION && cp src/trajens/kernels/*.so /tmp/before/src/trajens/kernels/
python -m tests.golden.make --bits --source /tmp/before/src > before.txt
python -m tests.golden.make --bits | diff before.txt -
"""

import argparse
import json
import lzma
import sys
from pathlib import Path

import jax

jax.config.update("jax_num_cpu_devices", 2)


def import_from(source):
    """Import trajens from `source`: an editable install has a finder that goes before every path."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_editable_")]
    sys.path.insert(0, str(source.resolve()))
    import trajens

    assert Path(trajens.__file__).is_relative_to(source.resolve()), f"trajens comes from {trajens.__file__}."


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--bits", action="store_true")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--source", type=Path, help="folder of another version of trajens")
    given = parser.parse_args()
    if given.source:
        import_from(given.source)
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
