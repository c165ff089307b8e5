//===- PartitionedOps.td - Exchanges between ranks ---------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations that occur in the program of a rank but not in canonical ones:
// `repro-outline-segments` outlines the operations between them as canonical
// programs.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_PARTITIONEDOPS_TD
#define REPRO_IR_PARTITIONEDOPS_TD

include "dialects/Repro/IR/ReproDialect.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Repro_AllGatherOp : Op<Repro_Dialect, "all_gather", [Pure]> {
  let summary = "a whole tensor from the parts of all ranks (T2)";
  let description = [{
    (T2) Along `dimension` the result consists of `blocks` blocks of equal
    extent. Each block concatenates the parts of all ranks: `sizes[r]` elements
    of rank r. The operand concatenates this rank's parts of all blocks. Every
    rank gets the same result. The operation only moves bytes; it computes no
    numbers.

    ```mlir
    func.func @gather(%x: tensor<4x3xf32>) -> tensor<4x5xf32> {
      %0 = repro.all_gather %x dimension = 1 blocks = 1 sizes = [3, 2]
          : tensor<4x3xf32> -> tensor<4x5xf32>
      return %0 : tensor<4x5xf32>
    }
    ```
  }];
  let arguments = (ins AnyRankedTensor:$operand, I64Attr:$dimension,
                       I64Attr:$blocks, DenseI64ArrayAttr:$sizes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $operand `dimension` `=` $dimension `blocks` `=` $blocks `sizes` `=` $sizes
    attr-dict `:` type($operand) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Repro_BroadcastOp : Op<Repro_Dialect, "broadcast", []> {
  let summary = "a copy of one rank's tensor on every rank (T2), (T3)";
  let description = [{
    (T2), (T3) The result is the operand of the rank `owner`; on every other rank
    the operation has no operand. Every rank takes part, even one that does not
    read the result, so an unused broadcast is not removed. On every rank, the
    exchanges of a `stage` follow the exchanges of all lower stages.

    ```mlir
    func.func @broadcast(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<3xf32>) {
      %0 = repro.broadcast owner = 0 stage = 0 of %x : tensor<5xf32> -> tensor<5xf32>
      %1 = repro.broadcast owner = 1 stage = 0 -> tensor<3xf32>
      return %0, %1 : tensor<5xf32>, tensor<3xf32>
    }
    ```
  }];
  let arguments = (ins Optional<AnyRankedTensor>:$operand, I64Attr:$owner,
                       I64Attr:$stage);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `owner` `=` $owner `stage` `=` $stage (`of` $operand^ `:` type($operand))?
    attr-dict `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // REPRO_IR_PARTITIONEDOPS_TD
