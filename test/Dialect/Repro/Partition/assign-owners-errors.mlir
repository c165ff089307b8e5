// RUN: not %repro-opt %s --repro-assign-owners="ranks=0" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not %repro-opt %s --repro-assign-owners="ranks=2 rank=2" 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not %repro-opt %s --repro-assign-owners="ranks=2 arguments=3" 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: not %repro-opt %s --repro-assign-owners="ranks=2 arguments=1" 2>&1 | FileCheck %s --check-prefix=KEPT

// RANKS: error: (T3) expected 1 to 65536 ranks, got 0
// RANK: error: (T3) expected a rank from 0 to 1, got 2
// ARGUMENT: error: (T3) there is no argument 3
// KEPT: error: (T3) argument 1 is a state that does not change
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {repro.num_state = 2 : i64} {
  return %b, %b : tensor<4xf32>, tensor<4xf32>
}
