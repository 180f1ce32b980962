// SPDX-License-Identifier: Apache-2.0
// Weft in JavaScript: groups of tensors as something to map over, tensors as typed arrays, ops by name.

const Json = imports.gi.Json;

// Dtypes that JavaScript has a typed array for; others come as their codes (BF16 and F16: Uint16Array) or bytes.
const ARRAYS = {
    U8: Uint8Array, I8: Int8Array, U16: Uint16Array, I16: Int16Array, U32: Uint32Array, I32: Int32Array,
    U64: BigUint64Array, I64: BigInt64Array, F32: Float32Array, F64: Float64Array, F16: Uint16Array, BF16: Uint16Array,
};

function makeArray(dtype, bytes) {
    const codes = bytes.toArray();
    const ArrayType = ARRAYS[dtype] ?? Uint8Array;

    return new ArrayType(codes.buffer, codes.byteOffset, codes.byteLength / ArrayType.BYTES_PER_ELEMENT);
}

function _init() {
    const Weft = this;

    // A registered op: `Weft.op('Transpose', {dim0: 1, dim1: 2})`. Parameters are written as in JSON.
    Weft.op = function (name, parameters = {}) {
        return Weft.op_new(name, Json.from_string(JSON.stringify(parameters)).get_object(), null);
    };

    // Groups of names and tensors, or arrays of tensors.
    Weft.TensorGroups.from = function (groups) {
        const result = Weft.TensorGroups.new();

        for (const [name, value] of Object.entries(groups)) {
            if (!Array.isArray(value)) {
                result.set(name, value);
                continue;
            }
            result.append_list(name);
            value.forEach(tensor => result.append(name, tensor, null));
        }
        return result;
    };

    // The same groups, with `transform(tensor)` in place of each tensor.
    Weft.TensorGroups.prototype.map = function (transform) {
        const result = Weft.TensorGroups.new();

        for (let group = 0; group < this.get_n_groups(); group++) {
            const name = this.get_name(group);

            if (this.is_list(group))
                result.append_list(name);
            for (let position = 0; position < this.get_n_tensors(group); position++) {
                const tensor = transform(this.get_tensor(group, position));

                if (this.is_list(group))
                    result.append(name, tensor, this.get_origin(group, position));
                else
                    result.set(name, tensor);
            }
        }
        return result;
    };

    // The tensors of a group as an array, also where it is one tensor.
    Weft.TensorGroups.prototype.tensors = function (name) {
        const [found, group] = this.find(name);

        if (!found)
            throw new Error(`there is no group '${name}'`);
        return Array.from({length: this.get_n_tensors(group)}, (_, position) => this.get_tensor(group, position));
    };

    // The tensor, or the array of tensors, of a group; undefined if there is no such group.
    Weft.TensorGroups.prototype.lookup = function (name) {
        const [found, group] = this.find(name);

        return found && !this.is_list(group) ? this.get_tensor(group, 0) : found ? this.tensors(name) : undefined;
    };

    // The elements as a flat typed array.
    Weft.Tensor.prototype.toArray = function () {
        return makeArray(Weft.dtype_get_name(this.get_dtype()), this.read(null));
    };

    // Tensors by name as flat typed arrays over one arena, without a copy; `arena` is optional. `loaded(name)` is called when
    // all of a tensor is there, in no certain order; what it throws stops the load.
    Weft.Loader.prototype.loadArrays = function ({arena = null, loaded = null, cancellable = null} = {}) {
        const layout = this.prepare(cancellable);
        const outputs = layout.get_outputs();
        const memory = arena ?? Weft.Arena.new(layout.get_n_bytes());
        const arrays = {};

        this.set_loaded_func(loaded === null ? null : (_loader, name) => {
            loaded(name);
            return true;
        });
        this.load_into(memory, cancellable);
        for (let position = 0; position < outputs.get_n_tensors(); position++) {
            const tensor = outputs.get_tensor(position);

            arrays[outputs.get_name(position)] = makeArray(Weft.dtype_get_name(tensor.get_dtype()),
                memory.get_bytes(layout.get_offset(position), tensor.get_n_bytes()));
        }
        return arrays;
    };
}
