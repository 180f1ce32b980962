# SPDX-License-Identifier: Apache-2.0
"""The page "Lint a mapping" lists what `weft lint --all` finds, each finding with its reason.

With --update the lists are written anew (run it with WEFT and DOCS set as meson sets them): reasons that stand there are
kept, and a new finding gets the reason of its class, to be read and mended by whoever runs this.
"""

import json
import os
import re
import subprocess
import sys
import unittest

PAGE = os.path.join(os.environ["DOCS"], "lint.md")
SECTION = re.compile(r"(### `([\w-]+)`: \d+\n\n)(.*?)(?=\n### |\Z)", re.S)
ROW = re.compile(r"^\| (\w+) \| (\d+) \| (\d+|-) \| `([^`]*)` \| (.*?) \| (.+) \|$", re.M)
HEAD = "| mapping | rule | with | example | what happens | reason |\n|---|---|---|---|---|---|\n"
REASONS = {
    "the earlier one takes what the later one would take as well": "the special case stands before the general one",
    "the earlier one makes what the later one looks for": "the name gets to its place in two steps",
    "both change it": "each changes its own part of the name, the later one what the earlier one leaves",
}


def find():
    result = subprocess.run([os.environ["WEFT"], "lint", "--all", "--json", "--quiet"], capture_output=True, text=True,
                            timeout=120, check=False)
    assert result.returncode == 3, result.stderr
    return json.loads(result.stdout)


def cell(text):
    return text.replace("|", "\\|")


def subject(finding):
    other = "-" if finding["other"] < 0 else str(finding["other"])
    return finding["kind"], finding["mapping"], str(finding["rule"]), other, cell(finding["key"]), cell(finding["detail"])


def read():
    """What stands in the page: reason by (kind, mapping, rule, other, example, what happens)."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    return {(kind, *row[:5]): row[5] for _, kind, rows in SECTION.findall(text) for row in ROW.findall(rows)}


def reason(finding, known):
    opening = finding["detail"].split(":")[0]
    return known.get(subject(finding), REASONS.get(opening, finding["reason"]))


def update():
    known, findings = read(), find()
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    text = text[:text.index("\n### `")] if "\n### `" in text else text.rstrip() + "\n"
    for kind in sorted({finding["kind"] for finding in findings}, key=lambda kind: sum(f["kind"] == kind for f in findings)):
        of_kind = [finding for finding in findings if finding["kind"] == kind]
        text += f"\n### `{kind}`: {len(of_kind)}\n\n{HEAD}"
        for finding in of_kind:
            _, mapping, rule, other, key, detail = subject(finding)
            text += f"| {mapping} | {rule} | {other} | `{key}` | {detail} | {reason(finding, known)} |\n"
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)


class LintPageTest(unittest.TestCase):
    def test_every_finding_is_listed_with_its_reason(self):
        listed, found = read(), {subject(finding) for finding in find()}
        self.assertGreater(len(found), 100)
        self.assertEqual(sorted(found - set(listed)), [], "not in the page; see --update")
        self.assertEqual(sorted(set(listed) - found), [], "in the page, and not found")
        self.assertTrue(all(listed.values()))

    def test_counts(self):
        with open(PAGE, encoding="utf-8") as file:
            counts = {kind: int(n) for kind, n in re.findall(r"### `([\w-]+)`: (\d+)", file.read())}
        found = [finding["kind"] for finding in find()]
        self.assertEqual(counts, {kind: found.count(kind) for kind in set(found)})


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        unittest.main()
