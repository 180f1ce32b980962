// SPDX-License-Identifier: Apache-2.0
// Usage: conformance-test.js FILE OP...: the ops that a JavaScript module registers keep the promises of ops.

import Gio from 'gi://Gio';
import System from 'system';
import WeftCheck from 'gi://WeftCheck?version=1.0';

const [file, ...names] = System.programArgs;
await import(Gio.File.new_for_commandline_arg(file).get_uri());
System.exit(WeftCheck.run(names));
