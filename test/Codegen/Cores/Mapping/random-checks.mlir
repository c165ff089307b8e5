// Random numbers count by the index in the whole tensor: a tile reads its begin. Each core checks the error words
// before it changes the state.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(cores-map{machine=tiny-2x2})' | FileCheck %s
// The verifications accept the plan after it was printed and parsed.
// RUN: %repro-opt %s --pass-pipeline='builtin.module(cores-map{machine=tiny-2x2 verify=false})' | %repro-opt --pass-pipeline='builtin.module(repro-verify-cores,repro-verify-core-mapping)' | FileCheck %s
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// CHECK: func.func private @tile_1(%{{.*}}: memref<i64> {{.*}}, %{{.*}}: memref<i64> {{.*}}, %{{.*}}: memref<2x6xf32> {{.*}}, %[[BEGIN:[a-z0-9]+]]: memref<1xi64> {launch.access
// CHECK: %[[I:.*]] = linalg.index 0 : index
// CHECK: %[[B:.*]] = memref.load %[[BEGIN]][%{{.*}}]
// CHECK-NEXT: %[[O:.*]] = arith.index_cast %[[B]] : i64 to index
// CHECK-NEXT: arith.addi %[[I]], %[[O]] : index

// CHECK: cores.plan @main {{.*}} states(%[[S:.*]]: memref<8x6xf32> {repro.name = "s"}) {{.*}} arena(%[[A:.*]]: memref<72xi8>)
// CHECK: %[[WORDS:.*]] = launch.view %[[A]][64] : memref<72xi8> to memref<1xi64>
// CHECK: %[[SECOND:.*]] = launch.constant dense<2> : tensor<1xi64>

// CHECK: cores.program at [0, 0]
// CHECK: cores.run @tile_0(
// CHECK: %[[ERROR:.*]] = launch.view %{{.*}}[65472]
// CHECK-NEXT: %[[E:.*]] = cores.copy %[[ERROR]] to %[[WORDS]]
// CHECK-NEXT: cores.wait %[[E]]
// CHECK-NEXT: cores.release 2 to {{\[}}[1, 0], [1, 1], [0, 1]]
// CHECK: cores.copy %[[WORDS]] to %[[LOCAL:.*]] :
// CHECK: cores.check %[[LOCAL]]
// CHECK: cores.run @tile_1(read %{{.*}}, read %{{.*}}, write %{{.*}}, read
// CHECK: cores.program at [1, 0]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: cores.acquire 2 count 1
// CHECK: cores.check
// CHECK: cores.copy %[[SECOND]] to
// CHECK: cores.run @tile_1(
func.func @main(%s: tensor<8x6xf32> {repro.name = "s"}, %seed: tensor<i64>, %step: tensor<i64>) -> tensor<8x6xf32> attributes {repro.num_state = 1 : i64} {
  %a = tensor.extract %seed[] : tensor<i64>
  %b = tensor.extract %step[] : tensor<i64>
  %e = tensor.empty() : tensor<8x6xf32>
  %y = repro.random uniform site = 3 ins(%a, %b : i64, i64) outs(%e : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}
