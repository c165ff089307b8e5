//===- LaunchAttrs.td - Attributes of the launch dialect ---*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_LAUNCH_LAUNCHATTRS_TD
#define REPRO_LAUNCH_LAUNCHATTRS_TD

include "dialects/Launch/IR/LaunchDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Launch_Access : I32BitEnumAttr<"Access", "how a kernel accesses a buffer", [
    I32BitEnumAttrCaseBit<"Read", 0, "read">,
    I32BitEnumAttrCaseBit<"Write", 1, "write">]> {
  let cppNamespace = "::mlir::repro::launch";
  let genSpecializedAttr = 0;
}

def Launch_AccessAttr : EnumAttr<Launch_Dialect, Launch_Access, "access"> {
  let summary = "how a kernel accesses a buffer";
  let description = [{
    The attribute `launch.access` of an argument of a kernel function.

    ```mlir
    func.func private @add(
        memref<4xf32> {launch.access = #launch<access read>},
        memref<4xf32> {launch.access = #launch<access read|write>},
        memref<?xi8>, memref<1xi64>, index, index)
    ```
  }];
}

def Launch_WorkAttr : AttrDef<Launch_Dialect, "Work"> {
  let mnemonic = "work";
  let summary = "the work of a CPU kernel";
  let description = [{
    The attribute `launch.work` of a kernel function:

    - `items`: the number of work items. The items are independent of each other:
      any division among threads gives the same bits.
    - `grain`: the fewest work items that are worth a thread.
    - `scratch_bytes`: the bytes of scratch memory per thread.

    ```mlir
    func.func private @add(memref<4xf32>, memref<?xi8>, memref<1xi64>, index,
                           index)
        attributes {launch.work = #launch.work<items = 4, grain = 1,
                                               scratch_bytes = 0>}
    ```
  }];
  let parameters = (ins "int64_t":$items, "int64_t":$grain,
                        "int64_t":$scratch_bytes);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // REPRO_LAUNCH_LAUNCHATTRS_TD
