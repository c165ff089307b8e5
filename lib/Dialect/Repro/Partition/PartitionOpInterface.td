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
    (T1) An operation of canonical programs of which `repro-partition` has each
    rank compute a part, by an external model. An operation without it is
    computed whole on every rank.
  }];
  let methods = [
    InterfaceMethod<[{
      How the operation is divided where an operand is cut in this way; none
      where an element of a result would need elements of several ranks.
    }], "std::optional<::mlir::repro::Division>", "divide",
    (ins "unsigned":$operand, "const ::mlir::repro::Cut &":$cut)>,
    InterfaceMethod<[{
      Creates what a rank computes, of operands that are cut as the division
      says, or whole. `whole` maps the values that the regions read.
    }], "::mlir::Operation *", "makePart",
    (ins "::mlir::OpBuilder &":$builder, "const ::mlir::repro::Division &":$division,
         "unsigned":$rank, "::mlir::ValueRange":$operands,
         "const ::mlir::IRMapping &":$whole)>
  ];
}

#endif // REPRO_PARTITION_PARTITIONOPINTERFACE_TD
