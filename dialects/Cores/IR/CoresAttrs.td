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

def Cores_MatrixAttr : AttrDef<Cores_Dialect, "Matrix"> {
  let mnemonic = "matrix";
  let summary = "how the matrix array of a core computes a fold";
  let description = [{
    The array of the core has `rows` x `columns` accumulators. It adds at most
    `slice` products of bytes to each accumulator; then the core adds the results
    to the sums in its memory. (K4) No accumulator overflows, whatever the bytes
    are: repro-verify-cores checks `slice` with the machine of the plan.

    ```mlir
    func.func @kernel(%x: memref<8x1024xi8>, %y: memref<1024x8xi8>,
                      %sums: memref<8x8xi64>) {
      repro.fold #repro.any_order
          maps [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                affine_map<(m, n, k) -> (m, n)>]
          iterators [parallel, parallel, reduction]
          ins(%x, %y : memref<8x1024xi8>, memref<1024x8xi8>)
          outs(%sums : memref<8x8xi64>)
          attributes {cores.matrix =
                          #cores.matrix<rows = 4, columns = 16, slice = 342>} {
      ^bb0(%a: i8, %b: i8, %sum: i64):
        %0 = arith.extsi %a : i8 to i64
        %1 = arith.extsi %b : i8 to i64
        %2 = arith.muli %0, %1 : i64
        %3 = arith.addi %sum, %2 : i64
        repro.yield %3 : i64
      }
      return
    }
    ```
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns, "int64_t":$slice);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // REPRO_CORES_CORESATTRS_TD
