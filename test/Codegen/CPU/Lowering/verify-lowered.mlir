// RUN: %repro-opt %s --split-input-file --verify-diagnostics --repro-verify-lowered
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

llvm.func @fast(%a: f32, %b: f32) -> f32 {
  // expected-error @+1 {{(V3) has the fast-math flags 'contract'}}
  %0 = llvm.fadd %a, %b {fastmathFlags = #llvm.fastmath<contract>} : f32
  llvm.return %0 : f32
}

// -----

llvm.func @muladd(%a: f32, %b: f32, %c: f32) -> f32 {
  // expected-error @+1 {{(V3) may or may not fuse}}
  %0 = llvm.intr.fmuladd(%a, %b, %c) : (f32, f32, f32) -> f32
  llvm.return %0 : f32
}

// -----

llvm.func @maxnum(%a: f32, %b: f32) -> f32 {
  // expected-error @+1 {{(V3) leaves signalling NaNs and the sign of zero open}}
  %0 = llvm.intr.maxnum(%a, %b) : (f32, f32) -> f32
  llvm.return %0 : f32
}

// -----

llvm.func @convert(%a: f32) -> i32 {
  // expected-error @+1 {{(V3) is undefined out of range (S3)}}
  %0 = llvm.fptosi %a : f32 to i32
  llvm.return %0 : i32
}

// -----

llvm.func @library(%a: f32) -> f32 {
  // expected-error @+1 {{(V3) calls a library (S5)}}
  %0 = llvm.intr.exp(%a) : (f32) -> f32
  llvm.return %0 : f32
}

// -----

llvm.func @remainder(%a: f32, %b: f32) -> f32 {
  // expected-error @+1 {{(V3) calls a library}}
  %0 = llvm.frem %a, %b : f32
  llvm.return %0 : f32
}

// -----

llvm.func @reduce(%a: vector<4xf32>, %s: f32) -> f32 {
  // expected-error @+1 {{(V3) has the fast-math flags 'reassoc'}}
  %0 = "llvm.intr.vector.reduce.fadd"(%s, %a) <{fastmathFlags = #llvm.fastmath<reassoc>}> : (f32, vector<4xf32>) -> f32
  llvm.return %0 : f32
}

// -----

llvm.func @sinf(f32) -> f32
llvm.func @call(%a: f32) -> f32 {
  // expected-error @+1 {{(V3) calls 'sinf', which is not an exact routine of the runtime}}
  %0 = llvm.call @sinf(%a) : (f32) -> f32
  llvm.return %0 : f32
}

// -----

llvm.func @storage(%a: bf16, %b: bf16) -> bf16 {
  // expected-error @+1 {{(V3) computes on a storage type (V1)}}
  %0 = llvm.fadd %a, %b : bf16
  llvm.return %0 : bf16
}

// -----

llvm.func @storage(%a: vector<4xf16>, %b: vector<4xf16>) -> vector<4xi1> {
  // expected-error @+1 {{(V3) computes on a storage type (V1)}}
  %0 = llvm.fcmp "olt" %a, %b : vector<4xf16>
  llvm.return %0 : vector<4xi1>
}

// -----

llvm.func @repro_fma(f64, f64, f64) -> f64
llvm.func @allowed(%a: f32, %b: f64) -> f64 {
  %0 = llvm.fadd %a, %a : f32
  %1 = llvm.intr.fma(%0, %a, %a) : (f32, f32, f32) -> f32
  %2 = llvm.call @repro_fma(%b, %b, %b) : (f64, f64, f64) -> f64
  %3 = llvm.call_intrinsic "llvm.fptosi.sat"(%1) : (f32) -> i32
  llvm.return %2 : f64
}
