//===- ExpandChecks.cpp - Turn operations that can fail into assertions ---===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-expand-checks (Passes.td), run by lib/Pipelines/Schedule.cpp:
// gives each operation that can fail (E1) a `cf.assert`, so that folding and
// fusion neither drop nor move the check.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROEXPANDCHECKS
#include "lib/Codegen/Schedule/Tensors/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {
struct ExpandChecks : public repro::impl::ReproExpandChecksBase<ExpandChecks> {
  void runOnOperation() override;
};
} // namespace

static std::string describe(StringRef what, RankedTensorType type) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  stream << what << " out of range for a tensor of shape [";
  llvm::interleaveComma(type.getShape(), stream);
  stream << "]";
  return message;
}

/// (E1) Asserts that the index of an extraction is in range. Replaces an index
/// out of range by 0; the result is 0 if the tensor has no elements.
static void expand(tensor::ExtractOp op) {
  RankedTensorType type = op.getTensor().getType();
  if (type.getRank() == 0)
    return;
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Value zero = arith::ConstantIndexOp::create(b, 0), all;
  for (auto [operand, size] :
       llvm::zip_equal(op.getIndicesMutable(), type.getShape())) {
    Value index = operand.get();
    Value limit = arith::ConstantIndexOp::create(b, size);
    Value ok =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ult, index, limit);
    operand.set(arith::SelectOp::create(b, ok, index, zero));
    all = all ? arith::AndIOp::create(b, all, ok).getResult() : ok;
  }
  cf::AssertOp::create(b, all, b.getStringAttr(describe("index", type)));
  if (type.getNumElements() == 0) {
    op.replaceAllUsesWith(arith::ConstantOp::create(
                              b, cast<TypedAttr>(b.getZeroAttr(op.getType())))
                              .getResult());
    op.erase();
  }
}

/// (E1) Asserts that the indices of a scatter are in range. The scatter itself
/// skips updates with an index out of range.
static void expand(ScatterOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  auto type = cast<RankedTensorType>(op.getOutputs()[0].getType());
  auto indices = cast<RankedTensorType>(op.getIndices().getType());
  Value checked = tensor::EmptyOp::create(b, indices.getShape(), b.getI1Type());
  AffineMap map = b.getMultiDimIdentityMap(2);
  linalg::GenericOp::create(
      b, checked.getType(), op.getIndices(), checked, ArrayRef{map, map},
      SmallVector<utils::IteratorType>(2, utils::IteratorType::parallel),
      [&](OpBuilder &nested, Location loc, ValueRange arguments) {
        ImplicitLocOpBuilder b(loc, nested);
        Value index =
            arith::IndexCastOp::create(b, b.getIndexType(), arguments[0]);
        Value position = linalg::IndexOp::create(b, 1), limit;
        for (int64_t i = 0; i < indices.getDimSize(1); ++i) {
          Value size = arith::ConstantIndexOp::create(b, type.getDimSize(i));
          Value here =
              arith::CmpIOp::create(b, arith::CmpIPredicate::eq, position,
                                    arith::ConstantIndexOp::create(b, i));
          limit =
              limit ? arith::SelectOp::create(b, here, size, limit).getResult()
                    : size;
        }
        Value ok =
            arith::CmpIOp::create(b, arith::CmpIPredicate::ult, index, limit);
        cf::AssertOp::create(b, ok,
                             b.getStringAttr(describe("scatter index", type)));
        linalg::YieldOp::create(b, ok);
      });
}

void ExpandChecks::runOnOperation() {
  llvm::SmallDenseSet<Value> checkedSteps;
  // Tensors of indices that are already checked, with the extents against which
  // they are checked.
  llvm::SmallDenseSet<std::pair<Value, ArrayRef<int64_t>>> checkedIndices;
  getOperation().walk([&](Operation *op) {
    if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
      expand(extract);
      return;
    }
    if (auto scatter = dyn_cast<ScatterOp>(op)) {
      auto indices = cast<ShapedType>(scatter.getIndices().getType());
      auto type = cast<ShapedType>(scatter.getOutputs()[0].getType());
      auto extents = type.getShape().take_front(indices.getShape().back());
      if (indices.getNumElements() &&
          checkedIndices.insert({scatter.getIndices(), extents}).second)
        expand(scatter);
      return;
    }
    auto random = dyn_cast<RandomOp>(op);
    if (!random || !checkedSteps.insert(random.getInputs()[1]).second)
      return;
    ImplicitLocOpBuilder b(op->getLoc(), op);
    Value limit =
        arith::ConstantOp::create(b, b.getI64IntegerAttr(int64_t(1) << 32));
    Value ok = arith::CmpIOp::create(b, arith::CmpIPredicate::ult,
                                     random.getInputs()[1], limit);
    cf::AssertOp::create(
        b, ok,
        b.getStringAttr("the step of a random number is out of range, expected "
                        "0 to 4294967295"));
  });
}
