// SPDX-License-Identifier: Apache-2.0
// What the tests in JavaScript share: comparisons, and a loop over named functions.

import Weft from 'gi://Weft?version=1.0';

export function equal(found, expected, what) {
    if (`${found}` !== `${expected}`)
        throw new Error(`${what}: found ${found}, expected ${expected}`);
}

// The action must fail with that code of Weft, or in any other way if it is undefined, and with that text.
export function refuses(action, code, text) {
    try {
        action();
    } catch (error) {
        if (code !== undefined && !error.matches?.(Weft.error_quark(), code))
            throw new Error(`expected code ${code}, found ${error.code}: ${error.message}`);
        if (!error.message.includes(text))
            throw new Error(`expected '${text}' in: ${error.message}`);
        return;
    }
    throw new Error(`expected an error with '${text}', found none`);
}

// Runs all; the exit status.
export function run(tests) {
    let failed = 0;

    for (const [name, test] of Object.entries(tests)) {
        try {
            test();
            print(`ok ${name}`);
        } catch (error) {
            failed++;
            print(`not ok ${name}: ${error}\n${error.stack}`);
        }
    }
    return failed > 0 ? 1 : 0;
}
