// Scalar operations with several allowed results become operations with one result.
// RUN: %repro-opt --convert-math-to-repro %s | FileCheck %s

// (S2) A number is preferred to a NaN, and -0 < +0.
// CHECK: func.func @S2_number_preferring(%[[X:[a-z0-9]+]]: f32, %[[Y:[a-z0-9]+]]: f32)
func.func @S2_number_preferring(%x: f32, %y: f32) -> f32 {
  // CHECK-NEXT: %[[M:.*]] = arith.maximumf %[[X]], %[[Y]] : f32
  // CHECK-DAG: %[[NX:.*]] = arith.cmpf uno, %[[X]], %[[X]]
  // CHECK-DAG: %[[NY:.*]] = arith.cmpf uno, %[[Y]], %[[Y]]
  // CHECK-DAG: %[[S:.*]] = arith.select %[[NY]], %[[X]], %[[M]]
  // CHECK: %[[R:.*]] = arith.select %[[NX]], %[[Y]], %[[S]]
  // CHECK: return %[[R]]
  %0 = arith.maxnumf %x, %y : f32
  return %0 : f32
}

// (V3), (V1) Flags are removed.
// CHECK: func.func @V3_flags
func.func @V3_flags(%x: f32, %i: i32) -> (f32, i32, i32) {
  // CHECK-NEXT: arith.addf %{{.*}}, %{{.*}} : f32
  %0 = arith.addf %x, %x fastmath<reassoc, contract> : f32
  // CHECK-NEXT: arith.addi %{{.*}}, %{{.*}} : i32
  %1 = arith.addi %i, %i overflow<nsw> : i32
  // CHECK-NEXT: arith.divsi %{{.*}}, %{{.*}} : i32
  %2 = arith.divsi %i, %i exact : i32
  return %0, %1, %2 : f32, i32, i32
}

// (V4) A bitcast reads the canonical NaN.
// CHECK: func.func @V4_bitcast(%[[X:[a-z0-9]+]]: f32)
func.func @V4_bitcast(%x: f32) -> i32 {
  // CHECK-NEXT: %[[B:.*]] = arith.bitcast %[[X]] : f32 to i32
  // CHECK-NEXT: %[[C:.*]] = arith.constant 2143289344 : i32
  // CHECK-NEXT: %[[N:.*]] = arith.cmpf uno, %[[X]], %[[X]]
  // CHECK-NEXT: %[[S:.*]] = arith.select %[[N]], %[[C]], %[[B]]
  // CHECK-NEXT: return %[[S]]
  %0 = arith.bitcast %x : f32 to i32
  return %0 : i32
}

// (V4) A bitcast to another float type reads the canonical NaN, too.
// CHECK: func.func @V4_bitcast_to_float(%[[X:[a-z0-9]+]]: f16)
func.func @V4_bitcast_to_float(%x: f16) -> bf16 {
  // CHECK-NEXT: %[[B:.*]] = arith.bitcast %[[X]] : f16 to i16
  // CHECK-NEXT: %[[C:.*]] = arith.constant 32256 : i16
  // CHECK-NEXT: %[[N:.*]] = arith.cmpf uno, %[[X]], %[[X]]
  // CHECK-NEXT: %[[S:.*]] = arith.select %[[N]], %[[C]], %[[B]]
  // CHECK-NEXT: %[[F:.*]] = arith.bitcast %[[S]] : i16 to bf16
  // CHECK-NEXT: return %[[F]]
  %0 = arith.bitcast %x : f16 to bf16
  return %0 : bf16
}

// CHECK: func.func @I1_floor_division(%[[A:[a-z0-9]+]]: i64, %[[B:[a-z0-9]+]]: i64)
func.func @I1_floor_division(%a: i64, %b: i64) -> i64 {
  // CHECK-NOT: floordivsi
  // CHECK: %[[Q:.*]] = arith.divsi %[[A]], %[[B]]
  // CHECK: %[[P:.*]] = arith.muli %[[Q]], %[[B]]
  // CHECK: arith.cmpi ne, %[[P]], %[[A]]
  // CHECK: arith.cmpi slt, %[[A]]
  // CHECK: arith.cmpi slt, %[[B]]
  // CHECK: arith.subi %[[Q]]
  // CHECK: arith.select
  %0 = arith.floordivsi %a, %b : i64
  return %0 : i64
}

// CHECK: func.func @predicates(%[[X:[a-z0-9]+]]: f32)
func.func @predicates(%x: f32) -> (i1, i1, i1) {
  // CHECK: arith.cmpf uno, %[[X]], %[[X]]
  %0 = math.isnan %x : f32
  // CHECK: %[[A:.*]] = math.absf %[[X]]
  // CHECK: arith.cmpf oeq, %[[A]]
  %1 = math.isinf %x : f32
  // CHECK: arith.cmpf olt
  %2 = math.isfinite %x : f32
  return %0, %1, %2 : i1, i1, i1
}

// CHECK: func.func @resource
func.func @resource() -> tensor<2xi32> {
  // CHECK: arith.constant dense<[1, 2]> : tensor<2xi32>
  %0 = arith.constant dense_resource<numbers> : tensor<2xi32>
  return %0 : tensor<2xi32>
}

{-#
  dialect_resources: { builtin: { numbers: "0x040000000100000002000000" } }
#-}

// (Q1) Scales are powers of two in f32.
// CHECK-LABEL: func.func @Q1_scaling
func.func @Q1_scaling(%code: f4E2M1FN, %scale: f8E8M0FNU, %x: f32) -> (f32, f4E2M1FN) {
  // CHECK: %[[FACTOR:.*]] = arith.extf %{{.*}} : f8E8M0FNU to f32
  // CHECK: %[[VALUE:.*]] = arith.extf %{{.*}} : f4E2M1FN to f32
  // CHECK: arith.mulf %[[VALUE]], %[[FACTOR]] : f32
  %0 = arith.scaling_extf %code, %scale : f4E2M1FN, f8E8M0FNU to f32
  // CHECK: %[[AGAIN:.*]] = arith.extf %{{.*}} : f8E8M0FNU to f32
  // CHECK: %[[QUOTIENT:.*]] = arith.divf %{{.*}}, %[[AGAIN]] : f32
  // CHECK: arith.truncf %[[QUOTIENT]] : f32 to f4E2M1FN
  %1 = arith.scaling_truncf %x, %scale : f32, f8E8M0FNU to f4E2M1FN
  return %0, %1 : f32, f4E2M1FN
}
