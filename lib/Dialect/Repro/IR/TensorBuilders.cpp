//===- TensorBuilders.cpp - Builders of tensor operations -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Repro/IR/TensorBuilders.h"

#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"

using namespace mlir;
using namespace mlir::repro;

SmallVector<Value> repro::mapElementsToMany(
    ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape, TypeRange elements,
    ValueRange inputs, ArrayRef<AffineMap> maps,
    function_ref<SmallVector<Value>(ImplicitLocOpBuilder &, ValueRange)> body) {
  SmallVector<Value> outputs;
  for (Type element : elements)
    outputs.push_back(tensor::EmptyOp::create(b, shape, element));
  AffineMap identity = b.getMultiDimIdentityMap(shape.size());
  SmallVector<AffineMap> all(maps);
  all.resize(inputs.size() + outputs.size());
  for (AffineMap &map : all)
    if (!map)
      map = identity;
  SmallVector<utils::IteratorType> parallel(shape.size(),
                                            utils::IteratorType::parallel);
  auto generic = linalg::GenericOp::create(
      b, TypeRange(ValueRange(outputs)), inputs, outputs, all, parallel,
      [&](OpBuilder &nested, Location loc, ValueRange arguments) {
        ImplicitLocOpBuilder inner(loc, nested);
        linalg::YieldOp::create(
            inner, body(inner, arguments.drop_back(outputs.size())));
      });
  return generic.getResults();
}

Value repro::mapElements(
    ImplicitLocOpBuilder &b, ArrayRef<int64_t> shape, Type element,
    ValueRange inputs, ArrayRef<AffineMap> maps,
    function_ref<Value(ImplicitLocOpBuilder &, ValueRange)> body) {
  return mapElementsToMany(
             b, shape, element, inputs, maps,
             [&](ImplicitLocOpBuilder &inner, ValueRange elements) {
               return SmallVector<Value>{body(inner, elements)};
             })
      .front();
}

Value repro::reshape(ImplicitLocOpBuilder &b, Value tensor,
                     ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (type.getShape() == shape)
    return tensor;
  auto target = RankedTensorType::get(shape, type.getElementType());
  if (type.getRank() != target.getRank())
    if (auto groups = getReassociationIndicesForReshape(type, target)) {
      if (type.getRank() > target.getRank())
        return tensor::CollapseShapeOp::create(b, target, tensor, *groups);
      return tensor::ExpandShapeOp::create(b, target, tensor, *groups);
    }
  auto line =
      RankedTensorType::get(type.getNumElements(), type.getElementType());
  ReassociationIndices sources =
      llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  ReassociationIndices targets =
      llvm::to_vector(llvm::seq<int64_t>(0, target.getRank()));
  if (type.getRank() > 1)
    tensor = tensor::CollapseShapeOp::create(
        b, line, tensor, ArrayRef<ReassociationIndices>{sources});
  if (target.getRank() == 1)
    return tensor;
  return tensor::ExpandShapeOp::create(b, target, tensor,
                                       ArrayRef<ReassociationIndices>{targets});
}

Value repro::convertElements(ImplicitLocOpBuilder &b, Value tensor,
                             Type element) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (type.getElementType() == element)
    return tensor;
  return mapElements(b, type.getShape(), element, tensor, {},
                     [&](ImplicitLocOpBuilder &b, ValueRange values) {
                       return Scalar(b, values[0]).convert(element).get();
                     });
}

Value repro::transpose(ImplicitLocOpBuilder &b, Value tensor,
                       ArrayRef<int64_t> permutation) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<int64_t> shape;
  SmallVector<AffineExpr> exprs(type.getRank());
  for (auto [result, source] : llvm::enumerate(permutation)) {
    shape.push_back(type.getDimSize(source));
    exprs[source] = b.getAffineDimExpr(result);
  }
  AffineMap map = AffineMap::get(type.getRank(), 0, exprs, b.getContext());
  if (map.isIdentity())
    return tensor;
  return mapElements(b, shape, type.getElementType(), tensor, map,
                     [](ImplicitLocOpBuilder &, ValueRange x) { return x[0]; });
}

Value repro::padWithZeros(ImplicitLocOpBuilder &b, Value tensor,
                          ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (type.getShape() == shape)
    return tensor;
  SmallVector<OpFoldResult> low(shape.size(), b.getIndexAttr(0)), high;
  for (auto [extent, size] : llvm::zip_equal(type.getShape(), shape))
    high.push_back(b.getIndexAttr(size - extent));
  Value zero = arith::ConstantOp::create(
      b, cast<TypedAttr>(b.getZeroAttr(type.getElementType())));
  return tensor::PadOp::create(b, type.clone(shape), tensor, low, high, zero);
}

Value repro::createAmax(ImplicitLocOpBuilder &b, Value tensor,
                        ArrayRef<int64_t> shape, AffineMap map) {
  Type f32 = b.getF32Type();
  Value init = mapElements(
      b, shape, f32, {}, {}, [&](ImplicitLocOpBuilder &b, ValueRange) -> Value {
        return arith::ConstantOp::create(b, b.getF32FloatAttr(0));
      });
  SmallVector<Attribute> iterators;
  for (unsigned dim = 0; dim < map.getNumDims(); ++dim)
    iterators.push_back(linalg::IteratorTypeAttr::get(
        b.getContext(), map.isFunctionOfDim(dim)
                            ? utils::IteratorType::parallel
                            : utils::IteratorType::reduction));
  auto maps = b.getAffineMapArrayAttr(
      {b.getMultiDimIdentityMap(map.getNumDims()), map});
  auto fold = FoldOp::create(b, TypeRange{init.getType()}, ValueRange{tensor},
                             ValueRange{init}, maps, b.getArrayAttr(iterators),
                             AnyOrderAttr::get(b.getContext()));
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&fold.getRegion(), {}, {f32, f32},
                              {b.getLoc(), b.getLoc()});
  Value magnitude = math::AbsFOp::create(b, body->getArgument(0));
  Value step = arith::MaximumFOp::create(b, body->getArgument(1), magnitude);
  YieldOp::create(b, step);
  return fold.getResult(0);
}
