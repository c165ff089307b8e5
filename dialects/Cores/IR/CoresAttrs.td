//===- CoresAttrs.td - Attributes of the cores dialect -----*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CORES_CORESATTRS_TD
#define REPRO_CORES_CORESATTRS_TD

include "dialects/Cores/IR/CoresDialect.td"
include "mlir/IR/EnumAttr.td"

def Cores_Memory : I32EnumAttr<"Memory", "the memory that a buffer lies in", [
    I32EnumAttrCase<"Local", 0, "local">,
    I32EnumAttrCase<"Remote", 1, "remote">]> {
  let cppNamespace = "::mlir::repro::cores";
  let genSpecializedAttr = 0;
}

def Cores_MemoryAttr : EnumAttr<Cores_Dialect, Cores_Memory, "memory"> {
  let summary = "the memory space of a buffer";
  let description = [{
    `local` is the data memory of the core whose program uses the buffer;
    `remote` is that of another core, which `cores.remote` names. Buffers without
    a memory space lie in the DRAM.

    ```mlir
    func.func private @tile(memref<4x8xf32, #cores.memory<local>>)
    ```
  }];
  let assemblyFormat = "`<` $value `>`";
}

#endif // REPRO_CORES_CORESATTRS_TD
