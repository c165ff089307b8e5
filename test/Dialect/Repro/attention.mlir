// (K5) Attention by blocks in custom syntax, generic syntax and bytecode.
// RUN: %repro-opt %s | %repro-opt | FileCheck %s
// RUN: %repro-opt --mlir-print-op-generic %s | %repro-opt | FileCheck %s
// RUN: %repro-opt --emit-bytecode %s | %repro-opt | FileCheck %s

// CHECK-LABEL: func @K5_causal
// CHECK: repro.attention causal block = 4 scale = 5.000000e-01
// CHECK-SAME: ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<3x7x5xf32>)
// CHECK-SAME: -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
// CHECK: repro.attention_gradient causal block = 4 scale = 5.000000e-01
// CHECK-SAME: ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<3x7x5xf32>)
// CHECK-SAME: gradient(%{{.*}} : tensor<6x10x5xf32>)
// CHECK-SAME: results(%{{.*}}, %{{.*}}, %{{.*}} : tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>)
// CHECK-SAME: -> tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<3x7x5xf32>
func.func @K5_causal(%q: tensor<6x10x4xf32>, %k: tensor<2x7x4xf32>, %v: tensor<3x7x5xf32>, %g: tensor<6x10x5xf32>)
    -> (tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<3x7x5xf32>) {
  %o, %m, %l = repro.attention causal block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<3x7x5xf32>)
      -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  %dq, %dk, %dv = repro.attention_gradient causal block = 4 scale = 0.5
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<3x7x5xf32>)
      gradient(%g : tensor<6x10x5xf32>)
      results(%o, %m, %l : tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>)
      -> tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<3x7x5xf32>
  return %dq, %dk, %dv : tensor<6x10x4xf32>, tensor<2x7x4xf32>, tensor<3x7x5xf32>
}

// CHECK-LABEL: func @K5_mask_and_dropout
// CHECK: repro.attention block = 64 scale = 1.000000e+00 mask(%{{.*}} : tensor<6x10x7xf32>)
// CHECK-SAME: dropout rate = 1.000000e-01 site = 3(%{{.*}}, %{{.*}} : i64, i64)
// CHECK: repro.attention_gradient block = 64 scale = 1.000000e+00 mask(%{{.*}} : tensor<6x10x7xf32>)
// CHECK-SAME: dropout rate = 1.000000e-01 site = 3(%{{.*}}, %{{.*}} : i64, i64)
// CHECK-SAME: -> tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>, tensor<6x10x7xf32>
func.func @K5_mask_and_dropout(%q: tensor<6x10x4xf32>, %k: tensor<6x7x4xf32>, %v: tensor<6x7x5xf32>,
                               %mask: tensor<6x10x7xf32>, %seed: i64, %step: i64, %g: tensor<6x10x5xf32>)
    -> tensor<6x10x7xf32> {
  %o, %m, %l = repro.attention block = 64 scale = 1.0 mask(%mask : tensor<6x10x7xf32>)
      dropout rate = 0.1 site = 3 (%seed, %step : i64, i64)
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>)
      -> tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>
  %dq, %dk, %dv, %dmask = repro.attention_gradient block = 64 scale = 1.0 mask(%mask : tensor<6x10x7xf32>)
      dropout rate = 0.1 site = 3 (%seed, %step : i64, i64)
      ins(%q, %k, %v : tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>)
      gradient(%g : tensor<6x10x5xf32>)
      results(%o, %m, %l : tensor<6x10x5xf32>, tensor<6x10xf32>, tensor<6x10xf32>)
      -> tensor<6x10x4xf32>, tensor<6x7x4xf32>, tensor<6x7x5xf32>, tensor<6x10x7xf32>
  return %dmask : tensor<6x10x7xf32>
}
