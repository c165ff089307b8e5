//===- PartitionedOps.cpp - Exchange between ranks ------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Repro/IR/PartitionedOps.h"

using namespace mlir;
using namespace mlir::repro;

#define GET_OP_CLASSES
#include "dialects/Repro/IR/PartitionedOps.cpp.inc"

LogicalResult AllGatherOp::verify() {
  auto part = cast<RankedTensorType>(getOperand().getType());
  auto whole = cast<RankedTensorType>(getResult().getType());
  int64_t dimension = getDimension(), blocks = getBlocks();
  if (!part.hasStaticShape() || !whole.hasStaticShape())
    return emitOpError("(T2) expected static shapes, got ")
           << part << " and " << whole;
  if (dimension < 0 || dimension >= whole.getRank())
    return emitOpError("(T2) dimension is ")
           << dimension << ", expected one of the result, " << whole;
  if (blocks < 1 || getSizes().empty() ||
      llvm::any_of(getSizes(), [](int64_t size) { return size < 0; }))
    return emitOpError("(T2) expected one block or more, and the size of the "
                       "part of each rank, none of them negative");
  if (whole.getDimSize(dimension) != blocks * llvm::sum_of(getSizes()))
    return emitOpError("(T2) dimension ")
           << dimension << " of the result is " << whole.getDimSize(dimension)
           << ", expected the sum of the sizes in " << blocks << " blocks, "
           << blocks * llvm::sum_of(getSizes());
  SmallVector<int64_t> shape(whole.getShape());
  for (int64_t size : getSizes()) {
    shape[dimension] = blocks * size;
    if (part == whole.clone(shape))
      return success();
  }
  return emitOpError("(T2) the operand is ")
         << part << ", expected what one of the ranks has of " << whole;
}

LogicalResult BroadcastOp::verify() {
  auto type = cast<RankedTensorType>(getResult().getType());
  if (!type.hasStaticShape())
    return emitOpError("(T2) expected a static shape, got ") << type;
  if (getOperand() && getOperand().getType() != type)
    return emitOpError("(T2) the operand is ")
           << getOperand().getType() << ", expected the result's type, "
           << type;
  if (int64_t(getOwner()) < 0 || int64_t(getStage()) < 0)
    return emitOpError("(T2) owner and stage are ")
           << int64_t(getOwner()) << " and " << int64_t(getStage())
           << ", expected none of them negative";
  return success();
}
