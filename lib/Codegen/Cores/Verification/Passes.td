//===- Passes.td - Verification of mappings ----------------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_VERIFICATION_PASSES_TD
#define REPRO_CODEGEN_CORES_VERIFICATION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ReproVerifyCoreMapping
    : Pass<"repro-verify-core-mapping", "::mlir::ModuleOp"> {
  let summary = "refuse plans of many cores that do not compute their launches";
  let description = [{
    Compares a `cores.plan` with the launch plan from which
    `repro-map-schedule` made it, and then erases the launch plan and its
    kernels.

    The pass runs the programs once without their data. Instead, it records for
    each byte of the DRAM and of the cores' memories which byte of which buffer
    of the launch plan it holds, and which launch wrote this value. The plan is
    refused unless

    - it has the states, inputs, outputs and messages of the launch plan;
    - each core runs the tiles of its pieces in the order of the launches, each
      with the function that the launch's kernel has for this tile;
    - each buffer that a tile reads holds exactly the tile's box, with the values
      that the former launches left there;
    - at the end, all states and outputs hold the values of the last launches
      that write them;
    - (E1) each core checks the error words of all cores that make checks, after
      the last of these checks, before it runs a tile of a launch that is
      `checked` or changes a state.

    The pass assumes that `repro-verify-cores` accepts the plan, so that each
    run of the plan has the same values. Both passes together show that the plan
    computes the bits of its launches in each run. Pieces, tiles, boxes and the
    functions of tiles come from code that the mapping uses (Mapping.h,
    KernelTiles.h, ByteRanges.h). The pass does not check this code.
  }];
}

#endif // REPRO_CODEGEN_CORES_VERIFICATION_PASSES_TD
