//===- PartitionedOps.td - Exchange between ranks ----------*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Operations that stand in the program of a rank and in no canonical one:
// `repro-outline-segments` makes canonical programs of what is between them.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_IR_PARTITIONEDOPS_TD
#define REPRO_IR_PARTITIONEDOPS_TD

include "dialects/Repro/IR/ReproDialect.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Repro_AllGatherOp : Op<Repro_Dialect, "all_gather", [Pure]> {
  let summary = "a whole tensor of the parts that all ranks have (T2)";
  let description = [{
    (T2) Along `dimension` the result consists of `blocks` blocks of equal
    extent. Each block is, one behind the other, what each rank has of it:
    `sizes[r]` elements of rank r. The operand has those of this rank, of all
    blocks one behind the other. Every rank gets the same result; bytes move,
    and no number is computed.

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
  let summary = "a tensor that one rank has, on every rank (T2), (T3)";
  let description = [{
    (T2), (T3) The result is the operand of the rank `owner`; on every other rank
    there is no operand. Every rank takes part, also one that reads no result:
    hence the operation stays where nobody does. Exchanges of a `stage` follow
    those of all stages below, on every rank, whatever it computes in between.

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
