// (V3) The compiler's canonicalization keeps every bit; upstream's does not.
// RUN: %repro-opt %s -repro-canonicalize | FileCheck %s

// An i8 has fewer bits than an index.
// CHECK-LABEL: func @index_through_integer
// CHECK: %[[WHOLE:.*]] = arith.index_cast %{{.*}} : index to i64
// CHECK: %[[CUT:.*]] = arith.trunci %[[WHOLE]] : i64 to i8
// CHECK: arith.index_cast %[[CUT]] : i8 to index
func.func @index_through_integer(%i: index) -> index {
  %0 = arith.index_cast %i : index to i8
  %1 = arith.index_cast %0 : i8 to index
  return %1 : index
}

// CHECK-LABEL: func @integer_through_index
// CHECK-NEXT: return %{{.*}} : i8
func.func @integer_through_index(%i: i8) -> i8 {
  %0 = arith.index_castui %i : i8 to index
  %1 = arith.index_cast %0 : index to i8
  return %1 : i8
}

// Two roundings do not merge into one.
// CHECK-LABEL: func @rounded_twice
// CHECK-NEXT: arith.sitofp %{{.*}} : i64 to f32
// CHECK-NEXT: arith.truncf %{{.*}} : f32 to bf16
func.func @rounded_twice(%i: i64) -> bf16 {
  %0 = arith.sitofp %i : i64 to f32
  %1 = arith.truncf %0 : f32 to bf16
  return %1 : bf16
}

// Only operations that move data or control are canonicalized: the arithmetic of
// other dialects stays, even if MLIR can fold it.
// CHECK-LABEL: func @other_arithmetic
// CHECK: %[[WIDE:.*]] = llvm.zext
// CHECK: return %[[WIDE]]
func.func @other_arithmetic() -> i64 {
  %one = llvm.mlir.constant(1 : i32) : i32
  %wide = llvm.zext %one : i32 to i64
  return %wide : i64
}

// (F6) A body without a step would be folded in another order.
// CHECK-LABEL: func @step_of_nothing
// CHECK: arith.addi
// CHECK: repro.yield
func.func @step_of_nothing(%x: tensor<8xi16>, %init: tensor<i16>) -> tensor<i16> {
  %zero = arith.constant 0 : i16
  %0 = repro.fold #repro.any_order
      maps [affine_map<(i) -> (i)>, affine_map<(i) -> ()>] iterators [reduction]
      ins(%x : tensor<8xi16>) outs(%init : tensor<i16>) {
  ^bb0(%e: i16, %acc: i16):
    %1 = arith.addi %acc, %zero : i16
    repro.yield %1 : i16
  } -> tensor<i16>
  return %0 : tensor<i16>
}
