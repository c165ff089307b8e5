// (V1) Operations on storage types compute in f32, which represents operands exactly, and round once.
// RUN: %repro-opt --repro-widen-storage %s | FileCheck %s
// A second run changes nothing.
// RUN: %repro-opt --repro-widen-storage %s -o %t.1
// RUN: %repro-opt --repro-widen-storage %t.1 -o %t.2
// RUN: diff %t.1 %t.2

// CHECK-LABEL: func.func @V1_scalars
// CHECK-SAME: (%[[X:.*]]: bf16, %[[Y:.*]]: bf16, %[[N:.*]]: i32)
func.func @V1_scalars(%x: bf16, %y: bf16, %n: i32) -> (bf16, i1, i8, f16) {
  // CHECK: %[[A:.*]] = arith.extf %[[X]] : bf16 to f32
  // CHECK: %[[B:.*]] = arith.extf %[[Y]] : bf16 to f32
  // CHECK: %[[S:.*]] = arith.addf %[[A]], %[[B]] : f32
  // CHECK: %[[R:.*]] = arith.truncf %[[S]] : f32 to bf16
  %0 = arith.addf %x, %y : bf16
  // Each operation rounds.
  // CHECK: %[[C:.*]] = arith.extf %[[R]] : bf16 to f32
  // CHECK: %[[D:.*]] = arith.extf %[[X]] : bf16 to f32
  // CHECK: %[[LESS:.*]] = arith.cmpf olt, %[[C]], %[[D]] : f32
  %1 = arith.cmpf olt, %0, %x : bf16
  // CHECK: %[[E:.*]] = arith.extf %[[R]] : bf16 to f32
  // CHECK: %[[I:.*]] = arith.fptosi %[[E]] : f32 to i8
  %2 = arith.fptosi %0 : bf16 to i8
  // CHECK: %[[H:.*]] = arith.sitofp %[[N]] : i32 to f16
  %3 = arith.sitofp %n : i32 to f16
  // CHECK: %[[F:.*]] = arith.extf %[[H]] : f16 to f32
  // CHECK: %[[P:.*]] = repro.powi %[[F]], %[[N]] : f32, i32
  // CHECK: %[[Q:.*]] = arith.truncf %[[P]] : f32 to f16
  %4 = repro.powi %3, %n : f16, i32
  // CHECK: return %[[R]], %[[LESS]], %[[I]], %[[Q]]
  return %0, %1, %2, %4 : bf16, i1, i8, f16
}

// Operations that move, convert or compute in f32 or f64 stay.
// CHECK-LABEL: func.func @V1_others
func.func @V1_others(%x: f8E5M2, %y: f8E5M2, %c: i1, %f: f32, %d: f64) -> (f8E5M2, i8, f16, bf16, f32, f64) {
  // CHECK-NEXT: arith.select %{{.*}} : f8E5M2
  // CHECK-NEXT: arith.bitcast %{{.*}} : f8E5M2 to i8
  // CHECK-NEXT: arith.extf %{{.*}} : f8E5M2 to f16
  // CHECK-NEXT: arith.truncf %{{.*}} : f64 to bf16
  // CHECK-NEXT: arith.mulf %{{.*}} : f32
  // CHECK-NEXT: repro.exp %{{.*}} : f32
  // CHECK-NEXT: math.sqrt %{{.*}} : f64
  // CHECK-NEXT: return
  %0 = arith.select %c, %x, %y : f8E5M2
  %1 = arith.bitcast %x : f8E5M2 to i8
  %2 = arith.extf %x : f8E5M2 to f16
  %3 = arith.truncf %d : f64 to bf16
  %4 = arith.mulf %f, %f : f32
  %5 = repro.exp %4 : f32
  %6 = math.sqrt %d : f64
  return %0, %1, %2, %3, %5, %6 : f8E5M2, i8, f16, bf16, f32, f64
}

// (F5) The step of a fold stays, so that it remains a step; the operations before it are widened.
// CHECK-LABEL: func.func @F5_step
func.func @F5_step(%x: tensor<8xbf16>, %o: tensor<bf16>) -> tensor<bf16> {
  // CHECK: ^bb0(%[[X:.*]]: bf16, %[[ACC:.*]]: bf16):
  // CHECK-NEXT: %[[E:.*]] = arith.extf %[[X]] : bf16 to f32
  // CHECK-NEXT: %[[A:.*]] = math.absf %[[E]] : f32
  // CHECK-NEXT: %[[R:.*]] = arith.truncf %[[A]] : f32 to bf16
  // CHECK-NEXT: %[[M:.*]] = arith.maximumf %[[ACC]], %[[R]] : bf16
  // CHECK-NEXT: repro.yield %[[M]] : bf16
  %0 = repro.fold maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>] iterators [reduction]
      ins(%x : tensor<8xbf16>) outs(%o : tensor<bf16>) {
  ^bb0(%e: bf16, %acc: bf16):
    %a = math.absf %e : bf16
    %m = arith.maximumf %acc, %a : bf16
    repro.yield %m : bf16
  } -> tensor<bf16>
  return %0 : tensor<bf16>
}

// (F6) A body without a step computes everything in f32.
// CHECK-LABEL: func.func @F6_no_step
func.func @F6_no_step(%x: tensor<8xbf16>, %o: tensor<bf16>) -> tensor<bf16> {
  // CHECK: ^bb0(%[[X:.*]]: bf16, %[[ACC:.*]]: bf16):
  // CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
  // CHECK: %[[R:.*]] = arith.truncf
  // CHECK: %[[E:.*]] = arith.extf %[[R]] : bf16 to f32
  // CHECK: arith.maximumf %{{.*}}, %[[E]] : f32
  %0 = repro.fold maps [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>] iterators [reduction]
      ins(%x : tensor<8xbf16>) outs(%o : tensor<bf16>) {
  ^bb0(%e: bf16, %acc: bf16):
    %p = arith.mulf %acc, %e : bf16
    %m = arith.maximumf %acc, %p : bf16
    repro.yield %m : bf16
  } -> tensor<bf16>
  return %0 : tensor<bf16>
}

// f6 and f4 are storage types, too.
// CHECK-LABEL: func.func @V1_small
func.func @V1_small(%x: f4E2M1FN, %y: f6E3M2FN, %z: f8E8M0FNU) -> (f4E2M1FN, i1, i32) {
  // CHECK: arith.extf %{{.*}} : f4E2M1FN to f32
  // CHECK: arith.extf %{{.*}} : f4E2M1FN to f32
  // CHECK: arith.addf %{{.*}} : f32
  // CHECK: arith.truncf %{{.*}} : f32 to f4E2M1FN
  %0 = arith.addf %x, %x : f4E2M1FN
  // CHECK: arith.cmpf olt, %{{.*}} : f32
  %1 = arith.cmpf olt, %y, %y : f6E3M2FN
  // CHECK: arith.extf %{{.*}} : f8E8M0FNU to f32
  // CHECK: arith.fptosi %{{.*}} : f32 to i32
  %2 = arith.fptosi %z : f8E8M0FNU to i32
  return %0, %1, %2 : f4E2M1FN, i1, i32
}
