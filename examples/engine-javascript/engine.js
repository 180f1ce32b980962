// SPDX-License-Identifier: Apache-2.0
// Usage: engine.js CHECKPOINT [RANK WORLD_SIZE [SHARED]]
//
// The engine of ../engine in JavaScript: loads into one arena and prints, for each tensor, its SHA-256, bytes, dtype, shape and
// name.

import GLib from 'gi://GLib';
import Weft from 'gi://Weft?version=1.0';

function main([path, rank = 0, worldSize = 1, shared = null]) {
    const options = Weft.LoadOptions.new();

    options.set_parallel(Number(worldSize), 1, Number(rank));
    const loader = Weft.Loader.new(path, options);
    const layout = loader.prepare(null);
    const outputs = layout.get_outputs();
    const nBytes = layout.get_n_bytes();
    const arena = shared === null ? Weft.Arena.new(nBytes) : Weft.Arena.new_shared(shared, nBytes);
    let nLoaded = 0;
    const arrays = loader.loadArrays({arena, loaded: () => nLoaded++});

    Object.entries(arrays).forEach(([name, array], position) => {
        const tensor = outputs.get_tensor(position);
        const content = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
        const checksum = GLib.compute_checksum_for_data(GLib.ChecksumType.SHA256, content);

        print([checksum, array.byteLength, Weft.dtype_get_name(tensor.get_dtype()), tensor.get_shape().to_string(), name].join('\t'));
    });
    printerr(`${nLoaded} tensors, ${nBytes} bytes in memory, ${loader.get_n_bytes_read()} bytes read`);
}

main(ARGV);
