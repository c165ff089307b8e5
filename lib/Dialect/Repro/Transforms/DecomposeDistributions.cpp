//===- DecomposeDistributions.cpp - Distributions from uniform numbers ----===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-decompose-distributions (Passes.td), run by
// lib/Pipelines/ImportPipelines.cpp: walks the random operations and computes
// each distribution with the formulas of (R2) from bits or uniform numbers,
// which canonical programs have.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/Passes.h"
#include "dialects/Repro/IR/Repro.h"
#include "dialects/Repro/IR/TensorBuilders.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPRODECOMPOSEDISTRIBUTIONS
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// Draws numbers at the site of `op`, from a distribution that canonical
/// programs support.
static Value draw(ImplicitLocOpBuilder &b, RandomOp op,
                  Distribution distribution, ArrayRef<int64_t> shape,
                  Type element) {
  Value empty = tensor::EmptyOp::create(b, shape, element);
  return RandomOp::create(b, TypeRange{empty.getType()}, op.getInputs(),
                          ValueRange{empty},
                          DistributionAttr::get(b.getContext(), distribution),
                          FloatAttr(), IntegerAttr(), op.getSiteAttr())
      .getResult(0);
}

static Value createFloat(ImplicitLocOpBuilder &b, float value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}

static Value createInteger(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
}

/// (R2) Draws u from the uniform distribution and returns u < p.
static Value decomposeBernoulli(ImplicitLocOpBuilder &b, RandomOp op,
                                RankedTensorType type) {
  Value uniform =
      draw(b, op, Distribution::uniform, type.getShape(), b.getF32Type());
  return mapElements(
      b, type.getShape(), type.getElementType(), uniform, {},
      [&](ImplicitLocOpBuilder &b, ValueRange elements) {
        Value probability =
            arith::ConstantOp::create(b, op.getProbabilityAttr());
        return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, elements[0],
                                     probability);
      });
}

/// (R2) Returns (bits * r) >> 32, in 64 bits.
static Value decomposeRandint(ImplicitLocOpBuilder &b, RandomOp op,
                              RankedTensorType type) {
  Value bits = draw(b, op, Distribution::bits, type.getShape(), b.getI32Type());
  return mapElements(
      b, type.getShape(), type.getElementType(), bits, {},
      [&](ImplicitLocOpBuilder &b, ValueRange elements) -> Value {
        Value wide = arith::ExtUIOp::create(b, b.getI64Type(), elements[0]);
        if (*op.getRange() == uint64_t(1) << 32)
          return wide;
        Value product =
            arith::MulIOp::create(b, wide, createInteger(b, *op.getRange()));
        return arith::ShRUIOp::create(b, product, createInteger(b, 32));
      });
}

/// (R2) Applies the Box-Muller transform to pairs of adjacent uniform numbers.
static Value decomposeNormal(ImplicitLocOpBuilder &b, RandomOp op,
                             RankedTensorType type) {
  // A slice of an empty dimension would start out of range.
  if (type.getNumElements() == 0)
    return draw(b, op, Distribution::uniform, type.getShape(), b.getF32Type());
  SmallVector<int64_t> pairs = llvm::to_vector(type.getShape());
  pairs.push_back(2);
  Value uniform = draw(b, op, Distribution::uniform, pairs, b.getF32Type());
  auto takeOne = [&](int64_t which) -> Value {
    SmallVector<OpFoldResult> offsets(pairs.size(), b.getIndexAttr(0));
    SmallVector<OpFoldResult> strides(pairs.size(), b.getIndexAttr(1));
    SmallVector<OpFoldResult> sizes = getAsIndexOpFoldResult(
        b.getContext(), ArrayRef<int64_t>(pairs).drop_back());
    offsets.back() = b.getIndexAttr(which);
    sizes.push_back(b.getIndexAttr(1));
    Value slice =
        tensor::ExtractSliceOp::create(b, uniform, offsets, sizes, strides);
    SmallVector<ReassociationIndices> groups;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      groups.push_back({dim});
    if (type.getRank() > 0)
      groups.back().push_back(type.getRank());
    return tensor::CollapseShapeOp::create(b, type, slice, groups);
  };
  Value first = takeOne(0), second = takeOne(1);
  return mapElements(
      b, type.getShape(), type.getElementType(), {first, second}, {},
      [](ImplicitLocOpBuilder &b, ValueRange u) -> Value {
        Value rest = arith::SubFOp::create(b, createFloat(b, 1.0f), u[0]);
        Value square = arith::MulFOp::create(b, LogOp::create(b, rest),
                                             createFloat(b, -2.0f));
        Value radius = math::SqrtOp::create(b, square);
        // 2 * pi, rounded to f32.
        Value angle =
            arith::MulFOp::create(b, u[1], createFloat(b, 0x1.921fb6p+2f));
        return arith::MulFOp::create(b, radius, CosOp::create(b, angle));
      });
}

namespace {
struct DecomposeDistributions
    : public repro::impl::ReproDecomposeDistributionsBase<
          DecomposeDistributions> {
  void runOnOperation() override {
    SmallVector<RandomOp> work;
    getOperation()->walk([&](RandomOp op) { work.push_back(op); });
    for (RandomOp op : work) {
      auto type = dyn_cast<RankedTensorType>(op.getOutputs()[0].getType());
      if (!type || !type.hasStaticShape() || op->getNumResults() != 1) {
        op.emitOpError("(R2) expected a tensor of static shape as output");
        return signalPassFailure();
      }
      ImplicitLocOpBuilder b(op.getLoc(), op);
      Value result;
      switch (op.getDistribution()) {
      case Distribution::bits:
      case Distribution::uniform:
        continue;
      case Distribution::bernoulli:
        result = decomposeBernoulli(b, op, type);
        break;
      case Distribution::randint:
        result = decomposeRandint(b, op, type);
        break;
      case Distribution::normal:
        result = decomposeNormal(b, op, type);
        break;
      }
      op->replaceAllUsesWith(ValueRange{result});
      op.erase();
    }
  }
};
} // namespace
