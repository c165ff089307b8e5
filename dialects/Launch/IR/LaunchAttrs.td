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

def Launch_Access : I32BitEnumAttr<"Access", "what a kernel does with a buffer", [
    I32BitEnumAttrCaseBit<"Read", 0, "read">,
    I32BitEnumAttrCaseBit<"Write", 1, "write">]> {
  let cppNamespace = "::mlir::repro::launch";
  let genSpecializedAttr = 0;
}

def Launch_AccessAttr : EnumAttr<Launch_Dialect, Launch_Access, "access"> {
  let summary = "what a kernel does with a buffer";
  let description = [{
    Of an argument of a kernel function, as `launch.access`.

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
  let summary = "the work of a kernel of a CPU";
  let description = [{
    Of a kernel function, as `launch.work`: the number of its work items, which
    are independent of each other (any division among threads gives the same
    bits), the fewest that are worth a thread, and the bytes of scratch memory
    of a thread.

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
