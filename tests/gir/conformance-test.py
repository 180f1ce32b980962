# SPDX-License-Identifier: Apache-2.0
"""Usage: conformance-test.py FILE OP...: the ops that a Python file registers keep the promises of ops."""

import runpy
import sys

import gi

gi.require_version("Weft", "1.0")
gi.require_version("WeftCheck", "1.0")
from gi.repository import WeftCheck  # noqa: E402

runpy.run_path(sys.argv[1])
sys.exit(WeftCheck.run(sys.argv[2:]))
