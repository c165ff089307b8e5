//===- LiteralBlockContraction.cpp - (Q4), (M5) one result at a time ------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes (Q4) and (M5) literally, one result after another, for shapes that a
// target's vectorized kernels do not support.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Common/AccumulatorChain.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Common/StructuredKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::kernels;

void repro::kernels::expandLiteralBlockContraction(KernelBuilder &b,
                                                   BlockContractionOp op) {
  auto outputType = cast<MemRefType>(op.getOutputs()[0].getType());
  auto xType = cast<MemRefType>(op.getInputs()[0].getType());
  int64_t rank = outputType.getRank(), k = xType.getShape().back();
  int64_t items = outputType.getNumElements();
  if (items == 0) {
    b.setWork(0, 1);
    return;
  }
  AffineMap identity = b.getMultiDimIdentityMap(rank);
  Access x = b.getAccess(op.getInputs()[0], identity);
  Access xScales = b.getAccess(op.getInputs()[1], identity);
  Access y = b.getAccess(op.getInputs()[2], identity);
  Access yScales = b.getAccess(op.getInputs()[3], identity);
  Access output = b.getAccess(op.getOutputs()[0], identity);
  // Sums of products of integers are exact in i32, and those of f8 in f64.
  bool isInteger = op.getFractionBits().has_value();
  Type f32 = b.getF32Type();
  Type sumType = isInteger ? Type(b.getI32Type()) : Type(b.getF64Type());
  auto loadFloat = [&](const Access &access, Value offset) {
    return b.convertFloat(b.load(access.buffer, access.element, offset), f32);
  };
  auto load = [&](const Access &access, Value offset) -> Value {
    if (isInteger)
      return arith::ExtSIOp::create(
          b, sumType, b.load(access.buffer, access.element, offset));
    return b.convertFloat(loadFloat(access, offset), sumType);
  };
  std::optional<AccumulatorChain> chain; // (M5)
  if (FdpaAttr accumulator = op.getAccumulatorAttr()) {
    auto [ofX, ofY] = op.getCodeTypes();
    chain.emplace(b, accumulator, ofX, ofY);
  }

  b.forEachItem([&](Value item) {
    SmallVector<Value> at = b.delinearize(item, outputType.getShape());
    Value place = b.getOffset(output, at);
    Value row = at[rank - 2], column = at[rank - 1];
    auto begin = [&](const Access &access, Value first) {
      SmallVector<Value> coordinates(at);
      coordinates[rank - 2] = first;
      coordinates[rank - 1] = b.index(0);
      return b.getOffset(access, coordinates);
    };
    auto along = [&](const Access &access, Value first, Value i) {
      return b.add(first, b.mul(i, access.coefficients.back()));
    };
    Value xBegin = begin(x, row), yBegin = begin(y, column);
    Value xScale = begin(xScales, b.div(row, op.getRows()[0]));
    Value yScale = begin(yScales, b.div(column, op.getRows()[1]));
    int64_t block = op.getBlock();
    auto loadX = [&](Value i) { return loadFloat(x, along(x, xBegin, i)); };
    auto loadY = [&](Value i) { return loadFloat(y, along(y, yBegin, i)); };
    auto addProducts = [&](Value start, Value end) -> Value {
      return b.loop(start, end, 1, {b.zero(sumType)},
                    [&](Value i, ValueRange dots) -> SmallVector<Value> {
                      Value p = load(x, along(x, xBegin, i));
                      Value q = load(y, along(y, yBegin, i));
                      if (!isInteger)
                        return {math::FmaOp::create(b, p, q, dots[0])};
                      Value product = arith::MulIOp::create(b, p, q);
                      return {arith::AddIOp::create(b, dots[0], product)};
                    })[0];
    };
    auto addBlock = [&](Value start, ValueRange sums) {
      Value end = b.min(b.add(start, block), b.index(k));
      Value dot = chain ? chain->add(start, end, b.zero(f32), loadX, loadY)
                        : addProducts(start, end);
      if (isInteger) {
        dot = arith::SIToFPOp::create(b, f32, dot);
        double unit = std::ldexp(1.0, -int(*op.getFractionBits()));
        dot =
            arith::MulFOp::create(b, dot, b.constant(b.getF32FloatAttr(unit)));
      } else if (!chain) {
        dot = arith::TruncFOp::create(b, f32, dot);
      }
      Value index = b.div(start, block);
      Value scale = arith::MulFOp::create(
          b, b.load(xScales.buffer, f32, along(xScales, xScale, index)),
          b.load(yScales.buffer, f32, along(yScales, yScale, index)));
      Value sum = sums[0];
      if (op.getStep() == BlockStep::fused)
        sum = math::FmaOp::create(b, dot, scale, sum);
      else
        sum =
            arith::AddFOp::create(b, sum, arith::MulFOp::create(b, dot, scale));
      return SmallVector<Value>{sum};
    };
    Value total;
    if (op.getStep() == BlockStep::scaled) {
      auto loadScale = [&](const Access &scales, Value first) {
        return [&, first](Value i) {
          return loadFloat(scales, along(scales, first, b.div(i, block)));
        };
      };
      auto loadScaleX = loadScale(xScales, xScale);
      auto loadScaleY = loadScale(yScales, yScale);
      total = chain->addScaled(k, loadX, loadY, {xScales.element, loadScaleX},
                               {yScales.element, loadScaleY});
    } else {
      total = b.loop(b.index(0), b.index(k), block, {b.zero(f32)}, addBlock)[0];
    }
    Value init = b.load(output.buffer, f32, place);
    Value result = arith::AddFOp::create(b, init, total);
    b.store(b.canonicalizeNaN(result), output.buffer, place);
  });
  int64_t work = std::max<int64_t>(k, 1) * (chain ? kChainWork : 1);
  b.setWork(items, kFoldGrainElements / work);
}
