// RUN: %repro-opt --repro-split-microbatches="keep=finish microbatches=2 cut=1" %s -split-input-file -verify-diagnostics
// RUN: not %repro-opt --repro-split-microbatches="keep=half" %s -split-input-file 2>&1 | FileCheck %s --check-prefix=KEEP
// RUN: not %repro-opt --repro-split-microbatches="keep=part microbatches=0" %s -split-input-file 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not %repro-opt --repro-split-microbatches="keep=part cut=0" %s -split-input-file 2>&1 | FileCheck %s --check-prefix=STATE
// RUN: not %repro-opt --repro-split-microbatches="keep=part cut=1 step=0" %s -split-input-file 2>&1 | FileCheck %s --check-prefix=STEP
// RUN: not %repro-opt --repro-split-microbatches="keep=part cut=1" %s -split-input-file 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not %repro-opt --repro-split-microbatches="keep=part own=1" %s -split-input-file 2>&1 | FileCheck %s --check-prefix=OWN
// RUN: not %repro-opt --repro-split-microbatches="keep=finish own=0" %s -split-input-file 2>&1 | FileCheck %s --check-prefix=READ
// RUN: not %repro-opt --repro-split-microbatches="keep=part cut=1 own=0" %s -split-input-file 2>&1 | FileCheck %s --check-prefix=AFTER

// KEEP: (B1) expected keep as part, add or finish, got 'half'
// NONE: (B1) expected 1 to 2^24 microbatches, got 0
// STATE: (B1) there is no input at position 0
// STEP: (B1) the step is a 'tensor<4xf32>', expected tensor<i64>
// OWN: (B5) no state at position 1 can belong to a microbatch
// READ: (B5) the end of the step reads state 0 of a microbatch
// AFTER: (B5) the new state of a microbatch depends on a result of repro.reduce_microbatches
// TWICE: (B3) what is reduced depends on a result of repro.reduce_microbatches

// expected-error @+1 {{(B3) the new state 0 depends on a microbatch, expected repro.reduce_microbatches on the way to it}}
func.func @main(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> attributes {repro.num_state = 1 : i64} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{(B1) expected the attribute 'repro.num_state'}}
func.func @main(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// The check of a microbatch depends on a sum.
// expected-error @+1 {{(B3) a check or an output of the step reads input 1 of a microbatch}}
func.func @main(%w: tensor<i1>, %x: tensor<i1>) -> tensor<i1> attributes {repro.num_state = 1 : i64} {
  %0 = repro.reduce_microbatches %x : tensor<i1>
  %1 = tensor.extract %0[] : tensor<i1>
  %2 = tensor.extract %x[] : tensor<i1>
  %3 = arith.andi %1, %2 : i1
  cf.assert %3, "expected equal choices"
  return %w : tensor<i1>
}

// -----

func.func @main(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> attributes {repro.num_state = 1 : i64} {
  %0 = repro.reduce_microbatches %x : tensor<4xf32>
  %1 = repro.reduce_microbatches %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// This program is an error only if each microbatch has a state of its own (own=0).
func.func @main(%w: tensor<i1>, %x: tensor<i1>) -> tensor<i1> attributes {repro.num_state = 1 : i64} {
  %0 = repro.reduce_microbatches %w : tensor<i1>
  %1 = tensor.extract %0[] : tensor<i1>
  %2 = tensor.extract %w[] : tensor<i1>
  %3 = arith.andi %1, %2 : i1
  cf.assert %3, "expected equal choices"
  return %w : tensor<i1>
}

// -----

func.func @main(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> attributes {repro.num_state = 1 : i64} {
  %0 = repro.reduce_microbatches %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{(B1) expected a function @main of one block, which returns}}
module {
  func.func @main(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> attributes {repro.num_state = 1 : i64} {
    ub.unreachable
  }
}
