//===- Passes.td - Passes of the CPU path ------------------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CPU_PASSES_TD
#define REPRO_CODEGEN_CPU_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// On buffers
//===----------------------------------------------------------------------===//

def ReproExpandKernels : Pass<"repro-expand-kernels", "::mlir::ModuleOp"> {
  let summary = "kernel functions become loops over vectors";
  let description = [{
    Replaces the structured operation of each kernel function by loops over the
    work items [begin, end), and sets `launch.work` on the function.
  }];
  let options = [
    Option<"level", "level", "std::string", /*default=*/"\"x86-64-v4\"",
           "the CPU level or the path of a machine's file, which chooses tiles, never bits">
  ];
  let dependentDialects = ["::mlir::affine::AffineDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::repro::launch::LaunchDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::ub::UBDialect",
                           "::mlir::vector::VectorDialect"];
}

def ReproFinalizeKernels : Pass<"repro-finalize-kernels", "::mlir::ModuleOp"> {
  let summary = "keep the expanded kernels alone";
  let description = [{
    Gives the scratch buffer of each kernel the static size that `launch.work`
    says, so that kernels can take bare pointers, and drops `launch.access`,
    which LLVM IR does not have.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect"];
}

def ReproExpandFma : Pass<"repro-expand-fma", "::mlir::ModuleOp"> {
  let summary = "fma for targets that have no such instruction";
  let description = [{
    An f32 `math.fma` is computed in f64 with rounding to odd, which gives the
    correctly rounded result (S1); an f64 one calls `repro_fma`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::vector::VectorDialect"];
}

//===----------------------------------------------------------------------===//
// On the LLVM dialect
//===----------------------------------------------------------------------===//

def ReproExpandArithmetic : Pass<"repro-expand-arithmetic", "::mlir::ModuleOp"> {
  let summary = "arithmetic whose result LLVM leaves open or to a library";
  let description = [{
    - (I1) integer division and shifts have a result for every operand; divisors
      and shifts by constants in range stay as they are;
    - (S3) conversions of floats to integers saturate, conversions to bf16, f16
      and f8 round once, whatever the source;
    - (S4) the remainder of floats calls `repro_fmod`, which is exact.
  }];
  let options = [
    Option<"hasF16", "has-f16", "bool", /*default=*/"true",
           "the target converts between f16 and f32 itself">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::vector::VectorDialect"];
}

def ReproVerifyLowered : Pass<"repro-verify-lowered", "::mlir::ModuleOp"> {
  let summary = "accept only LLVM operations whose every bit is defined";
  let description = [{
    (V3) an operation that LLVM may contract, reassociate or approximate, or
    whose result differs between targets, is an error at its location.
  }];
}

#endif // REPRO_CODEGEN_CPU_PASSES_TD
