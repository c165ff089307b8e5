//===- FoldSupport.cpp - Shared parts of fold expansions ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/FoldSupport.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

SmallVector<int64_t> repro::kernels::getLoopSizes(IndexingMapOpInterface op) {
  return op.getStaticLoopRanges();
}

TypedAttr repro::kernels::getStartValue(Operation *step, Type type) {
  Builder b(step->getContext());
  if (auto floatType = dyn_cast<FloatType>(type)) {
    const llvm::fltSemantics &semantics = floatType.getFloatSemantics();
    APFloat value = APFloat::getZero(semantics); // addf, fma
    if (isa<arith::MulFOp>(step))
      value = APFloat::getOne(semantics);
    else if (isa<arith::MaximumFOp>(step))
      value = APFloat::getInf(semantics, /*Negative=*/true);
    else if (isa<arith::MinimumFOp>(step))
      value = APFloat::getInf(semantics, /*Negative=*/false);
    return b.getFloatAttr(floatType, value);
  }
  unsigned width = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  APInt value = APInt::getZero(width); // addi, ori, xori, maxui
  if (isa<arith::MulIOp>(step))
    value = APInt(width, 1);
  else if (isa<arith::AndIOp, arith::MinUIOp>(step))
    value = APInt::getAllOnes(width);
  else if (isa<arith::MaxSIOp>(step))
    value = APInt::getSignedMinValue(width);
  else if (isa<arith::MinSIOp>(step))
    value = APInt::getSignedMaxValue(width);
  return b.getIntegerAttr(type, value);
}

FoldInfo::FoldInfo(KernelBuilder &b, FoldOp op, ArrayRef<Access> outputs)
    : op(op), step(op.getStep()),
      sizes(getLoopSizes(cast<IndexingMapOpInterface>(op.getOperation()))),
      outputs(outputs) {
  if (isa_and_present<SequentialAttr>(op.getOrderAttr()))
    step = nullptr;
  for (auto [dim, type] : llvm::enumerate(op.getIteratorTypesArray())) {
    bool isParallel = type == utils::IteratorType::parallel;
    (isParallel ? parallel : reduction).push_back(dim);
    (isParallel ? parallelSizes : reductionSizes).push_back(sizes[dim]);
  }
  results = getProduct(parallelSizes);
  n = getProduct(reductionSizes);
  SmallVector<AffineMap> maps =
      cast<IndexingMapOpInterface>(op.getOperation()).getIndexingMapsArray();
  for (auto [operand, map] : llvm::zip_equal(op->getOperands(), maps)) {
    if (inputs.size() < op.getInputs().size())
      inputs.push_back(b.getAccess(operand, map));
    else if (outputs.empty())
      this->outputs.push_back(b.getAccess(operand, map));
  }
  anyOrder = isa_and_present<AnyOrderAttr>(op.getOrderAttr());
  chunk = run = std::max<int64_t>(n, 1);
  lanes = 1;
  refold = false;
  if (auto order = dyn_cast_if_present<OrderAttr>(op.getOrderAttr())) {
    chunk = std::min(chunk, order.getChunk());
    lanes = order.getLanes();
    refold = order.getTotals() == Totals::refold;
    if (order.getRun())
      run = getProduct(ArrayRef(reductionSizes).take_back(order.getRun()));
  }
  auto fdpa = dyn_cast_if_present<FdpaAttr>(op.getOrderAttr());
  if (fdpa && fdpa.getChunk())
    chunk = std::min(chunk, fdpa.getChunk());
}

Type FoldInfo::getAccumulatorType(unsigned i) {
  Type type = op.getBody()->getArgument(inputs.size() + i).getType();
  auto storage = dyn_cast<FloatType>(type);
  return storage && storage.getWidth() < 32
             ? Float32Type::get(type.getContext())
             : type;
}

Value FoldInfo::combine(KernelBuilder &b, Value lhs, Value rhs) {
  if (isa<math::FmaOp>(step))
    return arith::AddFOp::create(b, lhs, rhs);
  if (isa<arith::MaximumFOp, arith::MinimumFOp>(step))
    return b.createExtremum(isa<arith::MaximumFOp>(step), lhs, rhs);
  OperationState state(b.getLoc(), step->getName());
  state.addOperands({lhs, rhs});
  state.addTypes(lhs.getType());
  return b.create(state)->getResult(0);
}

Value FoldInfo::getConstantInit(KernelBuilder &b, unsigned i, int64_t lanes) {
  auto constants = op.getConstantInits();
  if (!constants)
    return {};
  Type type = getAccumulatorType(i);
  auto value = cast<TypedAttr>(constants[i]);
  if (auto real = dyn_cast<FloatAttr>(value)) { // (F7)
    APFloat extended = real.getValue();
    bool inexact;
    extended.convert(cast<FloatType>(type).getFloatSemantics(),
                     APFloat::rmNearestTiesToEven, &inexact);
    value = b.getFloatAttr(type, extended);
  }
  if (lanes)
    value = DenseElementsAttr::get(VectorType::get({lanes}, type),
                                   Attribute(value));
  return b.constant(value);
}

Value FoldInfo::getStart(KernelBuilder &b, int64_t lanes) {
  TypedAttr value = getStartValue(step, getAccumulatorType());
  if (lanes)
    value = DenseElementsAttr::get(
        VectorType::get({lanes}, getAccumulatorType()), Attribute(value));
  return b.constant(value);
}
