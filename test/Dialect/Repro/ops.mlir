// Every operation and attribute in custom syntax, generic syntax and bytecode, on tensors and on memrefs.
// RUN: %repro-opt %s | %repro-opt | FileCheck %s
// RUN: %repro-opt --mlir-print-op-generic %s | %repro-opt | FileCheck %s
// RUN: %repro-opt --emit-bytecode %s | %repro-opt | FileCheck %s

// CHECK-LABEL: func @F1_contraction
// CHECK: repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential> maps [#{{.*}}, #{{.*}}, #{{.*}}] iterators [parallel, parallel, reduction]
// CHECK-SAME: ins(%{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8x16xf32>) outs(%{{.*}} : tensor<4x16xf32>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32, %[[ACC:.*]]: f32):
// CHECK-NEXT: %[[S:.*]] = math.fma %[[X]], %[[Y]], %[[ACC]] : f32
// CHECK-NEXT: repro.yield %[[S]] : f32
// CHECK-NEXT: -> tensor<4x16xf32>
func.func @F1_contraction(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
            affine_map<(m, n, k) -> (m, n)>]
      iterators [parallel, parallel, reduction]
      ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%c : tensor<4x16xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %1 = math.fma %x, %y, %acc : f32
    repro.yield %1 : f32
  } -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// CHECK-LABEL: func @M4_accumulators
// CHECK: repro.fold #repro.fdpa<terms = 16, fraction = 25, round = rz_f32, floor = -133> maps
// CHECK: repro.fold #repro.fdpa<terms = 4, round = rne_f32, floor = 0, late = true, chunk = 16> maps
// CHECK: repro.fold #repro.fdpa<terms = 8, fraction = 24, round = rne_f16, floor = -20, start = init> maps
func.func @M4_accumulators(%a: tensor<8xbf16>, %b: tensor<8xf32>, %c: tensor<f16>) -> (tensor<f16>, tensor<f16>, tensor<f16>) {
  %0 = repro.fold #repro.fdpa<terms = 16, fraction = 25, round = rz_f32, floor = -133, late = false, chunk = 0, start = zero>
      maps [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>] iterators [reduction]
      ins(%a, %b : tensor<8xbf16>, tensor<8xf32>) outs(%c : tensor<f16>) {
  ^bb0(%x: bf16, %y: f32, %acc: f32):
    %1 = arith.extf %x : bf16 to f32
    %2 = math.fma %1, %y, %acc : f32
    repro.yield %2 : f32
  } -> tensor<f16>
  %3 = repro.fold #repro.fdpa<terms = 4, round = rne_f32, floor = 0, late = true, chunk = 16>
      maps [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>] iterators [reduction]
      ins(%a, %b : tensor<8xbf16>, tensor<8xf32>) outs(%c : tensor<f16>) {
  ^bb0(%x: bf16, %y: f32, %acc: f32):
    %1 = arith.extf %x : bf16 to f32
    %2 = math.fma %1, %y, %acc : f32
    repro.yield %2 : f32
  } -> tensor<f16>
  %4 = repro.fold #repro.fdpa<terms = 8, fraction = 24, round = rne_f16, floor = -20, start = init>
      maps [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>] iterators [reduction]
      ins(%a, %b : tensor<8xbf16>, tensor<8xf32>) outs(%c : tensor<f16>) {
  ^bb0(%x: bf16, %y: f32, %acc: f32):
    %1 = arith.extf %x : bf16 to f32
    %2 = math.fma %1, %y, %acc : f32
    repro.yield %2 : f32
  } -> tensor<f16>
  return %0, %3, %4 : tensor<f16>, tensor<f16>, tensor<f16>
}

// CHECK-LABEL: func @K4_exact
// CHECK: repro.fold #repro.exact<digits = 2> maps
// CHECK: arith.extf
// CHECK: math.fma
func.func @K4_exact(%a: tensor<4x8xbf16>, %b: tensor<8x16xf32>, %c: tensor<4x16xbf16>) -> tensor<4x16xbf16> {
  %0 = repro.fold #repro.exact<digits = 2>
      maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
            affine_map<(m, n, k) -> (m, n)>]
      iterators [parallel, parallel, reduction]
      ins(%a, %b : tensor<4x8xbf16>, tensor<8x16xf32>) outs(%c : tensor<4x16xbf16>) {
  ^bb0(%x: bf16, %y: f32, %acc: f32):
    %1 = arith.extf %x : bf16 to f32
    %2 = math.fma %1, %y, %acc : f32
    repro.yield %2 : f32
  } -> tensor<4x16xbf16>
  return %0 : tensor<4x16xbf16>
}

// CHECK-LABEL: func @F3_refold_on_memrefs
// CHECK: repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
// CHECK-SAME: iterators [parallel, reduction] ins(%{{.*}} : memref<4x8xf32>) outs(%{{.*}} : memref<4xf32>) {
// CHECK: arith.addf
func.func @F3_refold_on_memrefs(%x: memref<4x8xf32>, %sum: memref<4xf32>) {
  repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
      maps [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>] iterators [parallel, reduction]
      ins(%x : memref<4x8xf32>) outs(%sum : memref<4xf32>) {
  ^bb0(%e: f32, %acc: f32):
    %0 = arith.addf %acc, %e : f32
    repro.yield %0 : f32
  }
  return
}

// CHECK-LABEL: func @F5_any_order
// CHECK: repro.fold #repro.any_order maps [#{{.*}}, #{{.*}}] iterators [reduction]
// CHECK: arith.maximumf
func.func @F5_any_order(%x: tensor<8xf32>, %init: tensor<f32>) -> tensor<f32> {
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xf32>) outs(%init : tensor<f32>) {
  ^bb0(%e: f32, %acc: f32):
    %1 = arith.maximumf %e, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func @F6_two_results
// CHECK: repro.fold #repro.sequential {{.*}} outs(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xi64>) {
// CHECK: repro.index 1 : index
// CHECK: repro.yield %{{.*}}, %{{.*}} : f32, i64
// CHECK-NEXT: -> tensor<4xf32>, tensor<4xi64>
func.func @F6_two_results(%x: tensor<4x8xf32>, %v: tensor<4xf32>, %i: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xi64>) {
  %0:2 = repro.fold #repro.sequential
      maps [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>]
      iterators [parallel, reduction] ins(%x : tensor<4x8xf32>) outs(%v, %i : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%e: f32, %acc: f32, %at: i64):
    %1 = repro.index 1 : index
    %2 = arith.index_cast %1 : index to i64
    %3 = arith.cmpf ogt, %e, %acc : f32
    %4 = arith.select %3, %e, %acc : f32
    %5 = arith.select %3, %2, %at : i64
    repro.yield %4, %5 : f32, i64
  } -> tensor<4xf32>, tensor<4xi64>
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi64>
}

// CHECK-LABEL: func @F7_low_precision
// CHECK: ^bb0(%{{.*}}: bf16, %{{.*}}: f32):
// CHECK: -> tensor<bf16>
func.func @F7_low_precision(%x: tensor<8xbf16>, %init: tensor<bf16>) -> tensor<bf16> {
  %0 = repro.fold #repro.order<chunk = 8192, lanes = 64, run = 1, totals = refold>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xbf16>) outs(%init : tensor<bf16>) {
  ^bb0(%e: bf16, %acc: f32):
    %1 = arith.extf %e : bf16 to f32
    %2 = arith.addf %acc, %1 : f32
    repro.yield %2 : f32
  } -> tensor<bf16>
  return %0 : tensor<bf16>
}

// CHECK-LABEL: func @no_inputs
// CHECK: repro.fold #repro.any_order maps [#{{.*}}] iterators [parallel] outs(%{{.*}} : tensor<4xi64>) attributes {note = "kept"} {
func.func @no_inputs(%init: tensor<4xi64>) -> tensor<4xi64> {
  %0 = repro.fold #repro.any_order maps [affine_map<(i) -> (i)>] iterators [parallel]
      outs(%init : tensor<4xi64>) attributes {note = "kept"} {
  ^bb0(%acc: i64):
    %1 = arith.constant 1 : i64
    %2 = arith.addi %acc, %1 : i64
    repro.yield %2 : i64
  } -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// CHECK-LABEL: func @scalar_input
// CHECK: repro.fold {{.*}} ins(%{{.*}}, %{{.*}} : tensor<8xf32>, f32)
func.func @scalar_input(%x: tensor<8xf32>, %s: f32, %init: tensor<f32>) -> tensor<f32> {
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x, %s : tensor<8xf32>, f32) outs(%init : tensor<f32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %1 = math.fma %e, %f, %acc : f32
    repro.yield %1 : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func @K2_window
// CHECK: repro.fold
func.func @K2_window(%x: tensor<1x3x10xf32>, %w: tensor<4x3x3xf32>, %b: tensor<1x4x4xf32>) -> tensor<1x4x4xf32> {
  %0 = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(n, f, o, c, k) -> (n, c, o * 2 + k)>, affine_map<(n, f, o, c, k) -> (f, c, k)>,
            affine_map<(n, f, o, c, k) -> (n, f, o)>]
      iterators [parallel, parallel, parallel, reduction, reduction]
      ins(%x, %w : tensor<1x3x10xf32>, tensor<4x3x3xf32>) outs(%b : tensor<1x4x4xf32>) {
  ^bb0(%e: f32, %f: f32, %acc: f32):
    %1 = math.fma %e, %f, %acc : f32
    repro.yield %1 : f32
  } -> tensor<1x4x4xf32>
  return %0 : tensor<1x4x4xf32>
}

// CHECK-LABEL: func @D2_arg_reduce
// CHECK: repro.arg_reduce max dimension = 1 ins(%{{.*}} : tensor<4x8xf32>) outs(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>, tensor<4xi64>
// CHECK: repro.arg_reduce min dimension = 0 ins(%{{.*}} : memref<8xi32>) outs(%{{.*}}, %{{.*}} : memref<i32>, memref<i64>)
func.func @D2_arg_reduce(%x: tensor<4x8xf32>, %v: tensor<4xf32>, %i: tensor<4xi64>,
                         %mx: memref<8xi32>, %mv: memref<i32>, %mi: memref<i64>) -> (tensor<4xf32>, tensor<4xi64>) {
  %0:2 = repro.arg_reduce max dimension = 1 ins(%x : tensor<4x8xf32>)
      outs(%v, %i : tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>, tensor<4xi64>
  repro.arg_reduce min dimension = 0 ins(%mx : memref<8xi32>) outs(%mv, %mi : memref<i32>, memref<i64>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi64>
}

// CHECK-LABEL: func @D1_scatter
// CHECK: repro.scatter add ins(%{{.*}}, %{{.*}} : tensor<6x8xf32>, tensor<6x1xi64>) outs(%{{.*}} : tensor<10x8xf32>) -> tensor<10x8xf32>
// CHECK: repro.scatter replace ins(%{{.*}}, %{{.*}} : tensor<6x10x8xf32>, tensor<6x0xi32>) outs(%{{.*}} : tensor<10x8xf32>) -> tensor<10x8xf32>
// CHECK: repro.scatter mul ins({{.*}}) outs(%{{.*}} : memref<10x8xbf16>)
// CHECK: repro.scatter maximum
// CHECK: repro.scatter minimum
func.func @D1_scatter(%u: tensor<6x8xf32>, %i: tensor<6x1xi64>, %o: tensor<10x8xf32>,
                      %u0: tensor<6x10x8xf32>, %i0: tensor<6x0xi32>,
                      %mu: memref<6xbf16>, %mi: memref<6x2xi64>, %mo: memref<10x8xbf16>) -> tensor<10x8xf32> {
  %0 = repro.scatter add ins(%u, %i : tensor<6x8xf32>, tensor<6x1xi64>)
      outs(%o : tensor<10x8xf32>) -> tensor<10x8xf32>
  %1 = repro.scatter replace ins(%u0, %i0 : tensor<6x10x8xf32>, tensor<6x0xi32>)
      outs(%0 : tensor<10x8xf32>) -> tensor<10x8xf32>
  repro.scatter mul ins(%mu, %mi : memref<6xbf16>, memref<6x2xi64>) outs(%mo : memref<10x8xbf16>)
  repro.scatter maximum ins(%mu, %mi : memref<6xbf16>, memref<6x2xi64>) outs(%mo : memref<10x8xbf16>)
  repro.scatter minimum ins(%mu, %mi : memref<6xbf16>, memref<6x2xi64>) outs(%mo : memref<10x8xbf16>)
  return %1 : tensor<10x8xf32>
}

// CHECK-LABEL: func @D3_scan
// CHECK: repro.scan add dimension = 1 ins(%{{.*}} : tensor<4x8xf32>) outs(%{{.*}} : tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: repro.scan mul dimension = 0 ins(%{{.*}} : memref<8xi64>) outs(%{{.*}} : memref<8xi64>)
func.func @D3_scan(%x: tensor<4x8xf32>, %o: tensor<4x8xf32>, %mx: memref<8xi64>, %mo: memref<8xi64>) -> tensor<4x8xf32> {
  %0 = repro.scan add dimension = 1 ins(%x : tensor<4x8xf32>) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  repro.scan mul dimension = 0 ins(%mx : memref<8xi64>) outs(%mo : memref<8xi64>)
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func @D2_sort
// CHECK: repro.sort ascending dimension = 0 ins(%{{.*}}, %{{.*}} : tensor<8xf32>, tensor<8xi64>) outs(%{{.*}}, %{{.*}} : tensor<8xf32>, tensor<8xi64>) -> tensor<8xf32>, tensor<8xi64>
// CHECK: repro.sort descending dimension = 1 ins(%{{.*}} : memref<4x8xi1>) outs(%{{.*}} : memref<4x8xi1>)
func.func @D2_sort(%k: tensor<8xf32>, %v: tensor<8xi64>, %k0: tensor<8xf32>, %v0: tensor<8xi64>,
                   %m: memref<4x8xi1>, %m0: memref<4x8xi1>) -> (tensor<8xf32>, tensor<8xi64>) {
  %0:2 = repro.sort ascending dimension = 0 ins(%k, %v : tensor<8xf32>, tensor<8xi64>)
      outs(%k0, %v0 : tensor<8xf32>, tensor<8xi64>) -> tensor<8xf32>, tensor<8xi64>
  repro.sort descending dimension = 1 ins(%m : memref<4x8xi1>) outs(%m0 : memref<4x8xi1>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xi64>
}

// CHECK-LABEL: func @R2_random
// CHECK: repro.random uniform site = 4294967295 ins(%{{.*}}, %{{.*}} : i64, i64) outs(%{{.*}} : tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: repro.random bits site = 0 ins(%{{.*}}, %{{.*}} : i64, i64) outs(%{{.*}} : memref<8xi32>)
func.func @R2_random(%seed: i64, %step: i64, %e: tensor<4x8xf32>, %m: memref<8xi32>) -> tensor<4x8xf32> {
  %0 = repro.random uniform site = 4294967295 ins(%seed, %step : i64, i64) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  repro.random bits site = 0 ins(%seed, %step : i64, i64) outs(%m : memref<8xi32>)
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func @V5_barrier
// CHECK: repro.barrier %{{.*}} : tensor<4x8xf32>
// CHECK: repro.barrier %{{.*}} : tensor<?xi1>
func.func @V5_barrier(%x: tensor<4x8xf32>, %y: tensor<?xi1>) -> (tensor<4x8xf32>, tensor<?xi1>) {
  %0 = repro.barrier %x : tensor<4x8xf32>
  %1 = repro.barrier %y : tensor<?xi1>
  return %0, %1 : tensor<4x8xf32>, tensor<?xi1>
}

// CHECK-LABEL: func @S5_functions
// CHECK: repro.acos %{{.*}} : f32
// CHECK: repro.acos %{{.*}} : vector<4xf32>
// CHECK: repro.acosh %{{.*}} : f32
// CHECK: repro.acosh %{{.*}} : vector<4xf32>
// CHECK: repro.asin %{{.*}} : f32
// CHECK: repro.asin %{{.*}} : vector<4xf32>
// CHECK: repro.asinh %{{.*}} : f32
// CHECK: repro.asinh %{{.*}} : vector<4xf32>
// CHECK: repro.atan %{{.*}} : f32
// CHECK: repro.atan %{{.*}} : vector<4xf32>
// CHECK: repro.atanh %{{.*}} : f32
// CHECK: repro.atanh %{{.*}} : vector<4xf32>
// CHECK: repro.cbrt %{{.*}} : f32
// CHECK: repro.cbrt %{{.*}} : vector<4xf32>
// CHECK: repro.cos %{{.*}} : f32
// CHECK: repro.cos %{{.*}} : vector<4xf32>
// CHECK: repro.cosh %{{.*}} : f32
// CHECK: repro.cosh %{{.*}} : vector<4xf32>
// CHECK: repro.erf %{{.*}} : f32
// CHECK: repro.erf %{{.*}} : vector<4xf32>
// CHECK: repro.erfc %{{.*}} : f32
// CHECK: repro.erfc %{{.*}} : vector<4xf32>
// CHECK: repro.exp %{{.*}} : f32
// CHECK: repro.exp %{{.*}} : vector<4xf32>
// CHECK: repro.exp10 %{{.*}} : f32
// CHECK: repro.exp10 %{{.*}} : vector<4xf32>
// CHECK: repro.exp2 %{{.*}} : f32
// CHECK: repro.exp2 %{{.*}} : vector<4xf32>
// CHECK: repro.expm1 %{{.*}} : f32
// CHECK: repro.expm1 %{{.*}} : vector<4xf32>
// CHECK: repro.log %{{.*}} : f32
// CHECK: repro.log %{{.*}} : vector<4xf32>
// CHECK: repro.log10 %{{.*}} : f32
// CHECK: repro.log10 %{{.*}} : vector<4xf32>
// CHECK: repro.log1p %{{.*}} : f32
// CHECK: repro.log1p %{{.*}} : vector<4xf32>
// CHECK: repro.log2 %{{.*}} : f32
// CHECK: repro.log2 %{{.*}} : vector<4xf32>
// CHECK: repro.rsqrt %{{.*}} : f32
// CHECK: repro.rsqrt %{{.*}} : vector<4xf32>
// CHECK: repro.sin %{{.*}} : f32
// CHECK: repro.sin %{{.*}} : vector<4xf32>
// CHECK: repro.sinh %{{.*}} : f32
// CHECK: repro.sinh %{{.*}} : vector<4xf32>
// CHECK: repro.tan %{{.*}} : f32
// CHECK: repro.tan %{{.*}} : vector<4xf32>
// CHECK: repro.tanh %{{.*}} : f32
// CHECK: repro.tanh %{{.*}} : vector<4xf32>
// CHECK: repro.atan2 %{{.*}}, %{{.*}} : f32
// CHECK: repro.atan2 %{{.*}}, %{{.*}} : vector<4xf32>
// CHECK: repro.hypot %{{.*}}, %{{.*}} : f32
// CHECK: repro.hypot %{{.*}}, %{{.*}} : vector<4xf32>
// CHECK: repro.pow %{{.*}}, %{{.*}} : f32
// CHECK: repro.pow %{{.*}}, %{{.*}} : vector<4xf32>
// CHECK: repro.powi %{{.*}}, %{{.*}} : f32, i32
// CHECK: repro.powi %{{.*}}, %{{.*}} : vector<4xf32>, vector<4xi64>
func.func @S5_functions(%x: f32, %y: f32, %v: vector<4xf32>, %w: vector<4xf32>, %n: i32, %m: vector<4xi64>) {
  %0 = repro.acos %x : f32
  %1 = repro.acos %v : vector<4xf32>
  %2 = repro.acosh %x : f32
  %3 = repro.acosh %v : vector<4xf32>
  %4 = repro.asin %x : f32
  %5 = repro.asin %v : vector<4xf32>
  %6 = repro.asinh %x : f32
  %7 = repro.asinh %v : vector<4xf32>
  %8 = repro.atan %x : f32
  %9 = repro.atan %v : vector<4xf32>
  %10 = repro.atanh %x : f32
  %11 = repro.atanh %v : vector<4xf32>
  %12 = repro.cbrt %x : f32
  %13 = repro.cbrt %v : vector<4xf32>
  %14 = repro.cos %x : f32
  %15 = repro.cos %v : vector<4xf32>
  %16 = repro.cosh %x : f32
  %17 = repro.cosh %v : vector<4xf32>
  %18 = repro.erf %x : f32
  %19 = repro.erf %v : vector<4xf32>
  %20 = repro.erfc %x : f32
  %21 = repro.erfc %v : vector<4xf32>
  %22 = repro.exp %x : f32
  %23 = repro.exp %v : vector<4xf32>
  %24 = repro.exp10 %x : f32
  %25 = repro.exp10 %v : vector<4xf32>
  %26 = repro.exp2 %x : f32
  %27 = repro.exp2 %v : vector<4xf32>
  %28 = repro.expm1 %x : f32
  %29 = repro.expm1 %v : vector<4xf32>
  %30 = repro.log %x : f32
  %31 = repro.log %v : vector<4xf32>
  %32 = repro.log10 %x : f32
  %33 = repro.log10 %v : vector<4xf32>
  %34 = repro.log1p %x : f32
  %35 = repro.log1p %v : vector<4xf32>
  %36 = repro.log2 %x : f32
  %37 = repro.log2 %v : vector<4xf32>
  %38 = repro.rsqrt %x : f32
  %39 = repro.rsqrt %v : vector<4xf32>
  %40 = repro.sin %x : f32
  %41 = repro.sin %v : vector<4xf32>
  %42 = repro.sinh %x : f32
  %43 = repro.sinh %v : vector<4xf32>
  %44 = repro.tan %x : f32
  %45 = repro.tan %v : vector<4xf32>
  %46 = repro.tanh %x : f32
  %47 = repro.tanh %v : vector<4xf32>
  %48 = repro.atan2 %x, %y : f32
  %49 = repro.atan2 %v, %w : vector<4xf32>
  %50 = repro.hypot %x, %y : f32
  %51 = repro.hypot %v, %w : vector<4xf32>
  %52 = repro.pow %x, %y : f32
  %53 = repro.pow %v, %w : vector<4xf32>
  %54 = repro.powi %x, %n : f32, i32
  %55 = repro.powi %v, %m : vector<4xf32>, vector<4xi64>
  return
}

// CHECK-LABEL: func @S5_functions_of_double
// CHECK: repro.erf %{{.*}} : f64
// CHECK: repro.log1p %{{.*}} : vector<4xf64>
func.func @S5_functions_of_double(%x: f64, %v: vector<4xf64>) {
  %0 = repro.erf %x : f64
  %1 = repro.log1p %v : vector<4xf64>
  return
}

// CHECK-LABEL: func @V1_storage_types
// CHECK: repro.exp %{{.*}} : bf16
// CHECK: repro.exp %{{.*}} : f16
// CHECK: repro.exp %{{.*}} : f8E4M3FN
// CHECK: repro.exp %{{.*}} : f8E5M2
func.func @V1_storage_types(%a: bf16, %b: f16, %c: f8E4M3FN, %d: f8E5M2) {
  %0 = repro.exp %a : bf16
  %1 = repro.exp %b : f16
  %2 = repro.exp %c : f8E4M3FN
  %3 = repro.exp %d : f8E5M2
  return
}

// CHECK-LABEL: func @contract_attributes
// CHECK-SAME: %{{.*}}: tensor<4xf32> {repro.name = "weight"}
// CHECK-SAME: attributes {repro.num_state = 1 : i64}
func.func @contract_attributes(%w: tensor<4xf32> {repro.name = "weight"}, %x: tensor<4xf32>)
    -> (tensor<4xf32> {repro.name = "weight"}, tensor<4xf32>) attributes {repro.num_state = 1 : i64} {
  return %w, %x : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func private @attributes_alone
// CHECK-SAME: any = #repro.any_order
// CHECK-SAME: order = #repro.order<chunk = 2, lanes = 128, run = 2, totals = refold>
// CHECK-SAME: sequential = #repro.sequential
func.func private @attributes_alone() attributes {
  any = #repro.any_order, order = #repro.order<chunk = 2, lanes = 128, run = 2, totals = refold>,
  sequential = #repro.sequential}

// CHECK-LABEL: func @Q1_Q2_Q3_quantize
func.func @Q1_Q2_Q3_quantize(%x: tensor<2x40x96xf32>, %amax: tensor<f32>, %rows: tensor<2x40xf32>, %n: i64) {
  // Default values are not printed.
  // CHECK: repro.quantize <element = f4E2M1FN, rows = 1, columns = 32, scale = #repro.power_scale<rule = rceil>, rounding = <direction = rne>> %{{.*}} : tensor<2x40x96xf32> -> tensor<2x40x96xf4E2M1FN>, tensor<2x40x3xf8E8M0FNU>
  %0:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32,
      scale = #repro.power_scale<rule = rceil, infinity = nan, nan = 255, least = -127>,
      rounding = #repro.rounding<direction = rne, bits = 0, layout = site, saturate = true, nan = largest, signed_zero = true>>
      %x : tensor<2x40x96xf32> -> tensor<2x40x96xf4E2M1FN>, tensor<2x40x3xf8E8M0FNU>
  // CHECK: scale = #repro.power_scale<rule = even, infinity = power, nan = 127, least = 0>
  // CHECK-SAME: rounding = <direction = away, saturate = false, nan = negative_zero, signed_zero = false>
  // CHECK-SAME: tensor<2x2x3xf8E8M0FNU>
  %1:2 = repro.quantize #repro.block_format<element = f8E5M2, rows = 32, columns = 32,
      scale = #repro.power_scale<rule = even, infinity = power, nan = 127, least = 0>,
      rounding = #repro.rounding<direction = away, saturate = false, nan = negative_zero, signed_zero = false>>
      %x : tensor<2x40x96xf32> -> tensor<2x40x96xf8E5M2>, tensor<2x2x3xf8E8M0FNU>
  // CHECK: two_level_scale<largest = 256>
  // CHECK-SAME: %{{.*}} tensor(%{{.*}} : tensor<2x40xf32>) site = 3(%{{.*}}, %{{.*}} : i64, i64)
  %2:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 16,
      scale = #repro.two_level_scale<largest = 256>, rounding = #repro.rounding<direction = sr, bits = 16, layout = ptx>>
      %x tensor(%rows : tensor<2x40xf32>) site = 3 (%n, %n : i64, i64)
      : tensor<2x40x96xf32> -> tensor<2x40x96xf4E2M1FN>, tensor<2x40x6xf8E4M3FN>
  // CHECK: quotient_scale<levels = 2>
  // CHECK-SAME: tensor(%{{.*}} : tensor<f32>)
  %3:2 = repro.quantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 16,
      scale = #repro.quotient_scale<levels = 2>, rounding = #repro.rounding<direction = rz>>
      %x tensor(%amax : tensor<f32>) : tensor<2x40x96xf32> -> tensor<2x40x96xf4E2M1FN>, tensor<2x40x6xf8E4M3FN>
  // CHECK: scale = #repro.f32_scale<encoding = product, least = 9.9999999999999998E-13 : f64, inverse = true, power = true>
  // CHECK-SAME: symmetric = false
  // CHECK-SAME: tensor<2x40x96xi8>, tensor<2x1x1xf32>
  %4:2 = repro.quantize #repro.block_format<element = i8, rows = 0, columns = 0,
      scale = #repro.f32_scale<encoding = product, least = 1.0E-12, inverse = true, power = true>,
      rounding = #repro.rounding<direction = sr, bits = 8>, symmetric = false>
      %x site = 4294967295 (%n, %n : i64, i64) : tensor<2x40x96xf32> -> tensor<2x40x96xi8>, tensor<2x1x1xf32>
  // CHECK: scale = #repro.f32_scale<encoding = quotient, least = 5.000000e-01 : f64>
  %5:2 = repro.quantize #repro.block_format<element = f6E2M3FN, rows = 3, columns = 0,
      scale = #repro.f32_scale<encoding = quotient, least = 0.5>, rounding = #repro.rounding<direction = rne>>
      %x : tensor<2x40x96xf32> -> tensor<2x40x96xf6E2M3FN>, tensor<2x14x1xf32>
  // CHECK: rows = 0, columns = 0, scale = #repro.given_scale, rounding = <direction = rne>>
  // CHECK-SAME: tensor(%{{.*}} : tensor<f32>)
  %6:2 = repro.quantize #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0,
      scale = #repro.given_scale, rounding = #repro.rounding<direction = rne>>
      %x tensor(%amax : tensor<f32>) : tensor<2x40x96xf32> -> tensor<2x40x96xf8E4M3FN>, tensor<2x1x1xf32>
  // CHECK: repro.dequantize {{.*}} : tensor<2x40x96xf8E4M3FN>, tensor<2x1x1xf32> -> tensor<2x40x96xf32>
  %7 = repro.dequantize #repro.block_format<element = f8E4M3FN, rows = 0, columns = 0,
      scale = #repro.given_scale, rounding = #repro.rounding<direction = rne>>
      %6#0, %6#1 : tensor<2x40x96xf8E4M3FN>, tensor<2x1x1xf32> -> tensor<2x40x96xf32>
  return
}

// CHECK-LABEL: func @Q7_packed_codes
func.func @Q7_packed_codes(%c: tensor<2x3x5xf4E2M1FN>, %b: tensor<8xi8>, %e: tensor<4x0xf4E2M1FN>) {
  // CHECK: repro.pack_codes %{{.*}} : tensor<2x3x5xf4E2M1FN> -> tensor<2x3x3xi8>
  %0 = repro.pack_codes %c : tensor<2x3x5xf4E2M1FN> -> tensor<2x3x3xi8>
  // CHECK: repro.unpack_codes %{{.*}} : tensor<8xi8> -> tensor<15xf4E2M1FN>
  %1 = repro.unpack_codes %b : tensor<8xi8> -> tensor<15xf4E2M1FN>
  // CHECK: repro.pack_codes %{{.*}} : tensor<4x0xf4E2M1FN> -> tensor<4x0xi8>
  %2 = repro.pack_codes %e : tensor<4x0xf4E2M1FN> -> tensor<4x0xi8>
  return
}

// CHECK-LABEL: func @Q2_dequantize
func.func @Q2_dequantize(%c: tensor<0x96xf4E2M1FN>, %s: tensor<0x3xf8E8M0FNU>, %t: tensor<0x6xf8E4M3FN>, %a: tensor<f32>) {
  // CHECK: repro.dequantize <element = f4E2M1FN, {{.*}}> %{{.*}}, %{{.*}} : tensor<0x96xf4E2M1FN>, tensor<0x3xf8E8M0FNU> -> tensor<0x96xf32>
  %0 = repro.dequantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 32,
      scale = #repro.power_scale<rule = floor>, rounding = #repro.rounding<direction = rne>>
      %c, %s : tensor<0x96xf4E2M1FN>, tensor<0x3xf8E8M0FNU> -> tensor<0x96xf32>
  // CHECK: repro.dequantize {{.*}} %{{.*}}, %{{.*}} tensor(%{{.*}} : tensor<f32>) :
  %1 = repro.dequantize #repro.block_format<element = f4E2M1FN, rows = 1, columns = 16,
      scale = #repro.two_level_scale<largest = 448>, rounding = #repro.rounding<direction = sr, bits = 4>>
      %c, %t tensor(%a : tensor<f32>) : tensor<0x96xf4E2M1FN>, tensor<0x6xf8E4M3FN> -> tensor<0x96xf32>
  return
}

// CHECK-LABEL: func @Q4_block_contraction
func.func @Q4_block_contraction(%x: tensor<2x8x96xf4E2M1FN>, %s: tensor<2x8x3xf8E8M0FNU>,
    %y: tensor<2x40x96xf6E2M3FN>, %t: tensor<2x2x3xf8E4M3FN>, %u: tensor<8x96xi8>, %v: tensor<8x12xf32>,
    %i: tensor<2x8x40xf32>, %j: tensor<8x8xf32>) {
  // CHECK: repro.block_contraction fused block = 32 rows = [1, 32] ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x8x96xf4E2M1FN>, tensor<2x8x3xf8E8M0FNU>, tensor<2x40x96xf6E2M3FN>, tensor<2x2x3xf8E4M3FN>) outs(%{{.*}} : tensor<2x8x40xf32>) -> tensor<2x8x40xf32>
  %0 = repro.block_contraction fused block = 32 rows = [1, 32]
      ins(%x, %s, %y, %t : tensor<2x8x96xf4E2M1FN>, tensor<2x8x3xf8E8M0FNU>, tensor<2x40x96xf6E2M3FN>, tensor<2x2x3xf8E4M3FN>)
      outs(%i : tensor<2x8x40xf32>) -> tensor<2x8x40xf32>
  // CHECK: repro.block_contraction split block = 8 rows = [1, 1] fraction_bits = 12
  %1 = repro.block_contraction split block = 8 rows = [1, 1] fraction_bits = 12
      ins(%u, %v, %u, %v : tensor<8x96xi8>, tensor<8x12xf32>, tensor<8x96xi8>, tensor<8x12xf32>)
      outs(%j : tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: repro.block_contraction split block = 8 rows = [1, 1] fraction_bits = 2 magnitudes = [12, 12] ins
  %2 = repro.block_contraction split block = 8 rows = [1, 1] fraction_bits = 2 magnitudes = [12, 12]
      ins(%u, %v, %u, %v : tensor<8x96xi8>, tensor<8x12xf32>, tensor<8x96xi8>, tensor<8x12xf32>)
      outs(%j : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// CHECK-LABEL: func @M5_block_contraction
func.func @M5_block_contraction(%x: tensor<8x96xf4E2M1FN>, %s: tensor<8x6xf8E4M3FN>, %y: tensor<8x96xf8E4M3FN>,
    %t: tensor<8x3xf32>, %i: tensor<8x8xf32>) {
  // CHECK: repro.block_contraction scaled block = 16 rows = [1, 1] accumulator = #repro.fdpa<terms = 64, fraction = 35, round = rz_f32, floor = -133, group = 16> ins
  %0 = repro.block_contraction scaled block = 16 rows = [1, 1]
      accumulator = #repro.fdpa<terms = 64, fraction = 35, round = rz_f32, floor = -133, group = 16>
      ins(%x, %s, %x, %s : tensor<8x96xf4E2M1FN>, tensor<8x6xf8E4M3FN>, tensor<8x96xf4E2M1FN>, tensor<8x6xf8E4M3FN>)
      outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: repro.block_contraction fused block = 32 rows = [1, 1] accumulator = #repro.fdpa<terms = 32, fraction = 13, round = rz_e8m13, floor = -132> elements = [f6E2M3FN, f8E4M3FN] ins
  %1 = repro.block_contraction fused block = 32 rows = [1, 1]
      accumulator = #repro.fdpa<terms = 32, fraction = 13, round = rz_e8m13, floor = -132, late = false, group = 1>
      elements = [f6E2M3FN, f8E4M3FN]
      ins(%y, %t, %y, %t : tensor<8x96xf8E4M3FN>, tensor<8x3xf32>, tensor<8x96xf8E4M3FN>, tensor<8x3xf32>)
      outs(%i : tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}
