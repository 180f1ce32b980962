# SPDX-License-Identifier: Apache-2.0
"""What a plan costs for each name, in instructions: unlike a time, their number is the same on a busy machine. Two
checkpoints of different sizes are planned, and only what the greater one has more of counts, so that starting up does not."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

WEFT = os.environ["WEFT"]
MAKE_CHECKPOINT = os.environ["MAKE_CHECKPOINT"]
# Half as many again as were measured (24,300, of which the proof of the way back takes a quarter).
MAX_INSTRUCTIONS_PER_NAME = 36500
LAYERS = (3, 9)
SKIPPED = 77


class InstructionsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="weft-instructions-")
        self.addCleanup(shutil.rmtree, self.folder)

    def plan(self, layers):
        """How many names there are, and how many instructions their plan takes."""
        source = os.path.join(self.folder, str(layers))
        made = subprocess.run([sys.executable, MAKE_CHECKPOINT, "names", source, "--layers", str(layers)], check=True, capture_output=True, text=True)
        result = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", WEFT, "plan", "--quiet", source],
                                check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return int(made.stdout.split()[0]), int(re.search(r"refs:\s+([\d,]+)", result.stderr)[1].replace(",", ""))

    def test_plan(self):
        (few, few_instructions), (many, many_instructions) = map(self.plan, LAYERS)
        per_name = (many_instructions - few_instructions) / (many - few)
        self.assertLess(per_name, MAX_INSTRUCTIONS_PER_NAME)


if __name__ == "__main__":
    if shutil.which("valgrind") is None:
        sys.exit(SKIPPED)
    unittest.main()
