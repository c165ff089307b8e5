// A machine file (docs/contributors/machines.md) replaces a level, or is rejected with one error that names the file.
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// DEFINE: %{read} = %repro-opt %s --repro-expand-kernels=level=%t.json
// DEFINE: %{refuse} = not %{read} 2>&1 | FileCheck %s --implicit-check-not=error: --check-prefix

// RUN: rm -rf %t.json

// A file with all sizes, and a file without sizes.
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"line_bytes": {"value": 64, "source": "lscpu"}, "l1_bytes": {"value": 32768, "source": "lscpu"}, "l1_ways": {"value": 8, "source": "lscpu"}, "l2_bytes": {"value": 16777216, "source": "lscpu"}}}' > %t.json && %{read}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {}}' > %t.json && %{read}

// Entries for predictions only.
// RUN: echo '{"extends": "x86-64-v3", "sizes": {}, "performance": {"cores": {"value": 2, "source": "lscpu"}}}' > %t.json && %{read}

// Errors in the structure of the file.
// RUN: echo '' > %t.json && %{refuse}=EMPTY
// EMPTY: error: {{.*}}.json: expected JSON: {{.+$}}
// RUN: echo '[]' > %t.json && %{refuse}=ARRAY
// ARRAY: error: {{.*}}.json: expected an object{{$}}
// RUN: %python -c "print('[' * 60000)" > %t.json && %{refuse}=DEEP
// DEEP: error: {{.*}}.json: expected at most 8 nested objects{{$}}
// RUN: %python -c "print(' ' * 65537)" > %t.json && %{refuse}=LONG
// LONG: error: {{.*}}.json: expected at most 65536 bytes{{$}}
// RUN: echo '{"extends": "x86-64-v3", "extends": "x86-64-v4", "sizes": {}}' > %t.json && %{refuse}=TWICE
// TWICE: error: {{.*}}.json: expected each key of an object once{{$}}
// RUN: echo '{"sizes": {}}' > %t.json && %{refuse}=NO-EXTENDS
// NO-EXTENDS: error: {{.*}}.json: expected the key 'extends'{{$}}
// RUN: echo '{"extends": "x86-64-v3"}' > %t.json && %{refuse}=NO-SIZES
// NO-SIZES: error: {{.*}}.json: expected the key 'sizes'{{$}}

// Errors in `extends`.
// RUN: echo '{"extends": "x86-64-v9", "sizes": {"l2_bytes": {"value": 1048576, "source": "lscpu"}}}' > %t.json && %{refuse}=UNKNOWN
// UNKNOWN: error: {{.*}}.json: extends: expected one of x86-64-v2, x86-64-v3, x86-64-v4, x86-64-v4-vnni, aarch64, aarch64-dotprod, got 'x86-64-v9'{{$}}
// RUN: echo '{"extends": "sm_75", "sizes": {"l2_bytes": {"value": 1048576, "source": "lscpu"}}}' > %t.json && %{refuse}=OTHER-KIND
// OTHER-KIND: error: {{.*}}.json: extends: expected one of x86-64-v2, x86-64-v3, x86-64-v4, x86-64-v4-vnni, aarch64, aarch64-dotprod, got 'sm_75'{{$}}
// RUN: echo '{"extends": 3, "sizes": {"l2_bytes": {"value": 1048576, "source": "lscpu"}}}' > %t.json && %{refuse}=NO-NAME
// NO-NAME: error: {{.*}}.json: extends: expected one of x86-64-v2, x86-64-v3, x86-64-v4, x86-64-v4-vnni, aarch64, aarch64-dotprod, got ''{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"l2_bytes": {"value": 1048576, "source": "lscpu"}}, "instructions": {}}' > %t.json && %{refuse}=INSTRUCTIONS
// INSTRUCTIONS: error: {{.*}}.json: unknown key 'instructions', expected one of extends, sizes, performance{{$}}

// Errors in sizes: unknown keys, wrong types, no source, numbers out of bounds.
// RUN: echo '{"extends": "x86-64-v3", "sizes": 3}' > %t.json && %{refuse}=NUMBER
// NUMBER: error: {{.*}}.json: sizes: expected an object{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"vector_bits": {"value": 64, "source": "lscpu"}}}' > %t.json && %{refuse}=FIXED
// FIXED: error: {{.*}}.json: sizes: unknown key 'vector_bits', expected one of line_bytes, l1_bytes, l1_ways, l2_bytes{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"line_bytes": {"value": 64, "source": " "}}}' > %t.json && %{refuse}=BLANK
// BLANK: error: {{.*}}.json: sizes.line_bytes: expected a source that says where the value is from{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"line_bytes": {"value": 64}}}' > %t.json && %{refuse}=NO-SOURCE
// NO-SOURCE: error: {{.*}}.json: sizes.line_bytes: expected the key 'source'{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"line_bytes": 64}}' > %t.json && %{refuse}=BARE
// BARE: error: {{.*}}.json: sizes.line_bytes: expected an object with 'value' and 'source'{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"line_bytes": {"value": 64, "source": "lscpu", "unit": "bytes"}}}' > %t.json && %{refuse}=UNIT
// UNIT: error: {{.*}}.json: sizes.line_bytes: unknown key 'unit', expected one of value, source{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"line_bytes": {"value": 96, "source": "lscpu"}}}' > %t.json && %{refuse}=POWER
// POWER: error: {{.*}}.json: sizes.line_bytes: expected a power of two from 32 to 256, got 96{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"line_bytes": {"value": "64", "source": "lscpu"}}}' > %t.json && %{refuse}=TEXT
// TEXT: error: {{.*}}.json: sizes.line_bytes: expected a power of two from 32 to 256, got no integer{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"l1_ways": {"value": 0.5, "source": "lscpu"}}}' > %t.json && %{refuse}=FRACTION
// FRACTION: error: {{.*}}.json: sizes.l1_ways: expected a value from 1 to 64, got no integer{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"l1_ways": {"value": 0, "source": "lscpu"}}}' > %t.json && %{refuse}=ZERO
// ZERO: error: {{.*}}.json: sizes.l1_ways: expected a value from 1 to 64, got 0{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"l2_bytes": {"value": 4611686018427387904, "source": "lscpu"}}}' > %t.json && %{refuse}=LARGE
// LARGE: error: {{.*}}.json: sizes.l2_bytes: expected a value from 65536 to 16777216, got 4611686018427387904{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"l2_bytes": {"value": 1000000000000000000000000000000, "source": "lscpu"}}}' > %t.json && %{refuse}=HUGE
// HUGE: error: {{.*}}.json: sizes.l2_bytes: expected a value from 65536 to 16777216, got no integer{{$}}
// RUN: echo '{"extends": "x86-64-v3", "sizes": {"l1_bytes": {"value": 50000, "source": "lscpu"}}}' > %t.json && %{refuse}=WAYS
// WAYS: error: {{.*}}.json: sizes.l1_bytes: expected a multiple of l1_ways * line_bytes = 768, got 50000{{$}}

// The path is not a regular file.
// RUN: rm -rf %t.json && %{refuse}=MISSING
// MISSING: error: {{.*}}.json: expected a file that describes a machine{{$}}
// RUN: mkdir %t.json && %{refuse}=FOLDER
// FOLDER: error: {{.*}}.json: expected a file that describes a machine{{$}}
