// An operation without a conversion is one error, even if constants around it fold.
// RUN: not %repro-opt --allow-unregistered-dialect --pass-pipeline='builtin.module(import-linalg,canonical)' %s 2>&1 | FileCheck %s

// CHECK: foreign-operations.mlir:[[#@LINE+3]]:{{.*}} error: 'foo.bar' op is not an operation of a canonical program
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {repro.num_state = 0 : i64} {
  %c = arith.constant 1.0 : f32
  %0 = "foo.bar"(%c) : (f32) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
