// RUN: not %repro-opt %s --repro-partition="ranks=0" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not %repro-opt %s --repro-partition="ranks=2 rank=2" 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not %repro-opt %s --repro-partition="ranks=2 arguments=0" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not %repro-opt %s --repro-partition="ranks=2 arguments=3 dimensions=0" 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: not %repro-opt %s --repro-partition="ranks=2 arguments=2 dimensions=1" 2>&1 | FileCheck %s --check-prefix=DIMENSION
// RUN: not %repro-opt %s --repro-partition="ranks=5 arguments=2 dimensions=0" 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not %repro-opt %s --repro-partition="ranks=2 arguments=0 dimensions=0" 2>&1 | FileCheck %s --check-prefix=CHANGES
// RUN: not %repro-opt %s --repro-partition="ranks=2 arguments=2,2 dimensions=0,0" 2>&1 | FileCheck %s --check-prefix=TWICE

// RANKS: error: (T1) expected 1 to 65536 ranks, got 0
// RANK: error: (T1) expected a rank from 0 to 1, got 2
// COUNT: error: (T1) expected a dimension for each argument that is cut, got 0 for 1
// ARGUMENT: error: (T1) there is no argument 3
// DIMENSION: error: (T1) argument 2 is a 'tensor<4xf32>', which has no dimension 1
// FEW: error: (T1) dimension 0 of argument 2 is 4, expected an element for each of 5 ranks
// CHANGES: error: (T1) argument 0 is a state that changes, expected one that does not
// TWICE: error: (T1) argument 2 is named more than once
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {repro.num_state = 2 : i64} {
  return %b, %b : tensor<4xf32>, tensor<4xf32>
}
