//===- StructuredOps.cpp - arg_reduce, scatter, scan, sort, random -*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StructuredOpImpl.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Shared by all destination-style operations
//===----------------------------------------------------------------------===//

void structured::getStructuredEffects(DestinationStyleOpInterface op,
                                  Effects &effects) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    effects.emplace_back(MemoryEffects::Read::get(), &operand, /*stage=*/0,
                         /*effectOnFullRegion=*/true,
                         SideEffects::DefaultResource::get());
    if (op.isDpsInit(&operand))
      effects.emplace_back(MemoryEffects::Write::get(), &operand, /*stage=*/0,
                           /*effectOnFullRegion=*/true,
                           SideEffects::DefaultResource::get());
  }
}

LogicalResult
structured::reifyStructuredShapes(DestinationStyleOpInterface op,
                              OpBuilder &builder,
                              ReifiedRankedShapedTypeDims &shapes) {
  for (Value init : op.getDpsInits())
    shapes.push_back(tensor::getMixedSizes(builder, op.getLoc(), init));
  return success();
}

LogicalResult
structured::bufferizeStructured(DestinationStyleOpInterface op,
                            RewriterBase &rewriter,
                            const bufferization::BufferizationOptions &options,
                            bufferization::BufferizationState &state) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  if (op.hasPureBufferSemantics())
    return success();
  SmallVector<Value> operands, inits;
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (isa<TensorType>(value.getType())) {
      FailureOr<Value> buffer =
          bufferization::getBuffer(rewriter, value, options, state);
      if (failed(buffer))
        return failure();
      value = *buffer;
    }
    operands.push_back(value);
    if (op.isDpsInit(&operand))
      inits.push_back(value);
  }
  rewriter.setInsertionPoint(op);
  Operation *bufferized =
      cloneWithoutRegions(rewriter, op, TypeRange{}, operands);
  for (auto [from, to] :
       llvm::zip_equal(op->getRegions(), bufferized->getRegions()))
    rewriter.inlineRegionBefore(from, to, to.begin());
  bufferization::replaceOpWithBufferizedValues(rewriter, op, inits);
  return success();
}

LogicalResult structured::verifyDestinationStyle(DestinationStyleOpInterface op) {
  if (!op.hasPureTensorSemantics() && !op.hasPureBufferSemantics())
    return op->emitOpError("expected operands to be all tensors or all memrefs");
  size_t expected =
      op.hasPureTensorSemantics() ? size_t(op.getNumDpsInits()) : 0;
  if (op->getNumResults() != expected)
    return op->emitOpError("expected ")
           << expected << " results, one per tensor of 'outs', got "
           << op->getNumResults();
  for (auto [index, result] : llvm::enumerate(op->getResults()))
    if (Type init = op.getDpsInitOperand(index)->get().getType();
        result.getType() != init)
      return op->emitOpError("result #")
             << index << " has type " << result.getType()
             << ", expected that of its initial operand, " << init;
  return success();
}

/// Checks that `op` has `inputs` inputs and `outputs` outputs.
static LogicalResult verifyCounts(DestinationStyleOpInterface op,
                                  unsigned inputs, unsigned outputs) {
  if (unsigned(op.getNumDpsInputs()) != inputs ||
      unsigned(op.getNumDpsInits()) != outputs)
    return op->emitOpError("expected ")
           << inputs << " inputs and " << outputs << " outputs, got "
           << op.getNumDpsInputs() << " and " << op.getNumDpsInits();
  return structured::verifyDestinationStyle(op);
}

static LogicalResult verifyDimension(Operation *op, int64_t dimension,
                                     ShapedType type) {
  if (dimension < 0 || dimension >= type.getRank())
    return op->emitOpError("dimension is ")
           << dimension << ", expected 0 to " << type.getRank() - 1
           << " for an operand of type " << type;
  return success();
}

static LogicalResult verifySameType(Operation *op, Twine what, Type actual,
                                    ArrayRef<int64_t> shape, Type element) {
  auto shaped = cast<ShapedType>(actual);
  if (shaped.getShape() != shape || shaped.getElementType() != element) {
    auto expected = RankedTensorType::get(shape, element);
    return op->emitOpError() << what << " has type " << actual
                             << ", expected shape and element type of "
                             << expected;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// ArgReduceOp
//===----------------------------------------------------------------------===//

REPRO_STRUCTURED_OP_METHODS(ArgReduceOp)

bool ArgReduceOp::bufferizesToMemoryRead(OpOperand &operand,
                                         const bufferization::AnalysisState &) {
  return !isDpsInit(&operand);
}

LogicalResult ArgReduceOp::verify() {
  if (failed(verifyCounts(*this, 1, 2)))
    return failure();
  auto input = cast<ShapedType>(getInputs()[0].getType());
  if (failed(verifyDimension(*this, getDimension(), input)))
    return failure();
  if (!input.getElementType().isIntOrFloat())
    return emitOpError("(D2) expected integer or float elements, got ")
           << input.getElementType();
  if (input.getDimSize(getDimension()) == 0)
    return emitOpError("(D2) dimension ")
           << getDimension() << " of the input has no element";
  SmallVector<int64_t> shape(input.getShape());
  shape.erase(shape.begin() + getDimension());
  if (failed(verifySameType(*this, "output #0", getOutputs()[0].getType(),
                            shape, input.getElementType())))
    return failure();
  return verifySameType(*this, "output #1", getOutputs()[1].getType(), shape,
                        IntegerType::get(getContext(), 64));
}

//===----------------------------------------------------------------------===//
// ScatterOp
//===----------------------------------------------------------------------===//

REPRO_STRUCTURED_OP_METHODS(ScatterOp)

bool ScatterOp::bufferizesToMemoryRead(OpOperand &,
                                       const bufferization::AnalysisState &) {
  return true;
}

LogicalResult ScatterOp::verify() {
  if (failed(verifyCounts(*this, 2, 1)))
    return failure();
  auto original = cast<ShapedType>(getOutputs()[0].getType());
  auto indices = cast<ShapedType>(getIndices().getType());
  if (!indices.getElementType().isSignlessInteger() || indices.getRank() != 2)
    return emitOpError("expected indices of rank 2 with integer elements, got ")
           << indices;
  int64_t depth = indices.getDimSize(1);
  if (depth < 0 || depth > original.getRank())
    return emitOpError("indices name ")
           << depth << " dimensions, but the original has rank "
           << original.getRank();
  SmallVector<int64_t> shape{indices.getDimSize(0)};
  llvm::append_range(shape, original.getShape().drop_front(depth));
  return verifySameType(*this, "updates", getUpdates().getType(), shape,
                        original.getElementType());
}

//===----------------------------------------------------------------------===//
// ScanOp
//===----------------------------------------------------------------------===//

REPRO_STRUCTURED_OP_METHODS(ScanOp)

bool ScanOp::bufferizesToMemoryRead(OpOperand &operand,
                                    const bufferization::AnalysisState &) {
  return !isDpsInit(&operand);
}

LogicalResult ScanOp::verify() {
  if (failed(verifyCounts(*this, 1, 1)))
    return failure();
  if (getCombine() == Combine::replace)
    return emitOpError("(D3) 'replace' has no prefix reduction");
  auto input = cast<ShapedType>(getInputs()[0].getType());
  if (failed(verifyDimension(*this, getDimension(), input)))
    return failure();
  return verifySameType(*this, "output #0", getOutputs()[0].getType(),
                        input.getShape(), input.getElementType());
}

//===----------------------------------------------------------------------===//
// SortOp
//===----------------------------------------------------------------------===//

REPRO_STRUCTURED_OP_METHODS(SortOp)

bool SortOp::bufferizesToMemoryRead(OpOperand &operand,
                                    const bufferization::AnalysisState &) {
  return !isDpsInit(&operand);
}

LogicalResult SortOp::verify() {
  if (getInputs().empty())
    return emitOpError("expected at least one input, the key");
  if (failed(verifyCounts(*this, getInputs().size(), getInputs().size())))
    return failure();
  auto key = cast<ShapedType>(getInputs()[0].getType());
  if (failed(verifyDimension(*this, getDimension(), key)))
    return failure();
  if (!key.getElementType().isIntOrFloat())
    return emitOpError("(D2) expected a key of integers or floats, got ")
           << key.getElementType();
  for (auto [index, input, output] :
       llvm::enumerate(getInputs(), getOutputs())) {
    auto type = cast<ShapedType>(input.getType());
    if (failed(verifySameType(*this, "input #" + Twine(index), type,
                              key.getShape(), type.getElementType())) ||
        failed(verifySameType(*this, "output #" + Twine(index),
                              output.getType(), key.getShape(),
                              type.getElementType())))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// RandomOp
//===----------------------------------------------------------------------===//

REPRO_STRUCTURED_OP_METHODS(RandomOp)

bool RandomOp::bufferizesToMemoryRead(OpOperand &operand,
                                      const bufferization::AnalysisState &) {
  return !isDpsInit(&operand);
}

LogicalResult RandomOp::verify() {
  if (failed(verifyCounts(*this, 2, 1)))
    return failure();
  for (auto [index, input] : llvm::enumerate(getInputs()))
    if (!input.getType().isSignlessInteger(64))
      return emitOpError("(R1) input #")
             << index << " has type " << input.getType() << ", expected i64";
  if (getSite() >> 32)
    return emitOpError("(R1) site is ") << getSite() << ", expected 32 bits";
  Type element = getElementTypeOrSelf(getOutputs()[0].getType());
  Type expected = getDistribution() == Distribution::bits
                      ? Type(IntegerType::get(getContext(), 32))
                      : Type(Float32Type::get(getContext()));
  if (element != expected)
    return emitOpError("(R2) '")
           << stringifyDistribution(getDistribution()) << "' gives "
           << expected << ", but the output has element type " << element;
  return success();
}
