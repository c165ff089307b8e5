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
  let summary = "expand kernel functions to loops over vectors";
  let description = [{
    Replaces the structured operation of each kernel function by vectorized loops
    over the work items [begin, end), and sets `launch.work` on the function.
  }];
  let options = [
    Option<"level", "level", "std::string", /*default=*/"\"x86-64-v4\"",
           "CPU level or path of a machine file; affects tiles, never bits">
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
  let summary = "prepare expanded kernels for the LLVM dialect";
  let description = [{
    Sets the scratch buffer of each kernel to the static size in `launch.work`,
    and gives buffers without elements rank 1, so that kernels can have bare
    pointers as arguments. Removes `launch.access`, which LLVM IR does not have.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect"];
}

def ReproExpandFma : Pass<"repro-expand-fma", "::mlir::ModuleOp"> {
  let summary = "expand fma for targets without an fma instruction";
  let description = [{
    Replaces each f32 `math.fma` by f64 arithmetic with rounding to odd, whose
    result is correctly rounded (S1), and each f64 `math.fma` by a call of
    `repro_fma`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::vector::VectorDialect"];
}

//===----------------------------------------------------------------------===//
// On the LLVM dialect
//===----------------------------------------------------------------------===//

def ReproExpandArithmetic : Pass<"repro-expand-arithmetic", "::mlir::ModuleOp"> {
  let summary = "expand arithmetic whose result LLVM does not define";
  let description = [{
    Expands operations whose result LLVM leaves undefined or computes with a
    library of the platform:

    - (I1) integer divisions and shifts get a result for every operand; divisions
      and shifts by constants in range stay;
    - (S3) conversions of floats to integers saturate, and conversions to bf16,
      f16 and f8 round once from any source type;
    - (S4) remainders of floats call `repro_fmod`, which is exact.
  }];
  let options = [
    Option<"hasF16", "has-f16", "bool", /*default=*/"true",
           "whether the target has instructions that convert between f16 and f32">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::vector::VectorDialect"];
}

def ReproVerifyLowered : Pass<"repro-verify-lowered", "::mlir::ModuleOp"> {
  let summary = "verify that every bit of LLVM operations is defined";
  let description = [{
    (V3) Reports an error for each operation that LLVM may contract, reassociate
    or approximate, or whose result differs between targets.
  }];
}

#endif // REPRO_CODEGEN_CPU_PASSES_TD
