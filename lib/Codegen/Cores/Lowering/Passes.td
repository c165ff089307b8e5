//===- Passes.td - Kernels and verification of cores -------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_LOWERING_PASSES_TD
#define REPRO_CODEGEN_CORES_LOWERING_PASSES_TD

include "mlir/Pass/PassBase.td"

def ReproExpandMatrices : Pass<"repro-expand-matrices", "::mlir::ModuleOp"> {
  let summary = "(K4) expand the kernels that the matrix arrays of cores compute";
  let description = [{
    Replaces each fold with the attribute `cores.matrix` by loops that call the
    core's array of multipliers, and that add the array's results to the sums in
    the core's memory. The simulator computes what the array computes, and
    refuses an overflow of an accumulator.
  }];
  let options = [
    Option<"level", "level", "std::string", /*default=*/"\"x86-64-v3\"",
           "CPU level of the kernels' code, or the path of a machine file">];
  let dependentDialects = ["::mlir::affine::AffineDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

def ReproVerifyCores : Pass<"repro-verify-cores", "::mlir::ModuleOp"> {
  let summary = "refuse plans of many cores whose results depend on time";
  let description = [{
    Refuses each `cores.plan` in which

    - a program is for a core that the machine does not have or that has another
      program, or has more data memory than a core of the machine;
    - a transfer does not have exactly one wait, or writes a byte twice;
    - a send goes beyond the end of the data memory where it arrives, or a send
      or a release is for a core without a program;
    - a kernel uses a matrix array that the cores do not have, or adds more
      products than an accumulator can hold, whatever the bytes are (K4);
    - the releases that an acquire counts are not the same in each run;
    - a core waits forever (a deadlock);
    - two accesses to the same bytes are a race.

    The page of the dialect `cores` defines these terms. The pass runs the plan
    once without its data. Since each acquire counts the same releases in each
    run, what holds for this run holds for all.
  }];
}

#endif // REPRO_CODEGEN_CORES_LOWERING_PASSES_TD
