"""The public names, options and commands are those of the list: nothing that users rely on changes by accident.

After a change on purpose, ``python -m tests.api_list`` renews the list, and its difference belongs into the changelog.
"""

import re

import trajens as tj
from tests.api_list import FILE, lines

RENEW = "if this is meant, renew the list with: python -m tests.api_list, and tell users in CHANGELOG.md"


def test_public_names_options_and_commands_are_those_of_the_list():
    listed, found = FILE.read_text(encoding="utf-8").splitlines(), lines()
    gone, new = sorted(set(listed) - set(found)), sorted(set(found) - set(listed))
    said = "\n".join([*(f"- {line}" for line in gone), *(f"+ {line}" for line in new)])
    assert not said, f"{said}\n{RENEW}"


def test_dir_has_what_is_for_users_and_nothing_else():
    shown = set(dir(tj))
    assert shown >= {"sample", "thermo", "rl", "estimators", "plots", "sweep", "report", "external", "from_torch"}
    assert not shown & {"Any", "TYPE_CHECKING", "api", "files", "import_module"}
    assert all(hasattr(tj, name) for name in shown)


def test_the_citation_is_of_this_version():
    citation = (FILE.parent.parent / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", citation, re.M) == [tj.__version__]
