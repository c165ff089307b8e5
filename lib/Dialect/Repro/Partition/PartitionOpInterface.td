//===- PartitionOpInterface.td - Division of operations -*- tablegen -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_PARTITION_PARTITIONOPINTERFACE_TD
#define REPRO_PARTITION_PARTITIONOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def PartitionOpInterface : OpInterface<"PartitionOpInterface"> {
  let cppNamespace = "::mlir::repro";
  let description = [{
    (T1) An operation of canonical programs that `repro-partition` can divide
    among ranks. Operations implement it by external models. An operation
    without this interface is computed as a whole on every rank.
  }];
  let methods = [
    InterfaceMethod<[{
      Returns the division of the operation if `operand` is cut by `cut`; none
      if an element of a result would need elements of several ranks.
    }], "std::optional<::mlir::repro::Division>", "divide",
    (ins "unsigned":$operand, "const ::mlir::repro::Cut &":$cut)>,
    InterfaceMethod<[{
      Creates the part of the operation that `rank` computes. By `division`,
      each of `operands` is cut or whole. `whole` maps the values that the
      regions of the operation read.
    }], "::mlir::Operation *", "makePart",
    (ins "::mlir::OpBuilder &":$builder, "const ::mlir::repro::Division &":$division,
         "unsigned":$rank, "::mlir::ValueRange":$operands,
         "const ::mlir::IRMapping &":$whole)>
  ];
}

#endif // REPRO_PARTITION_PARTITIONOPINTERFACE_TD
