//===- ExpandChecks.cpp - What can fail becomes an assertion --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
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

/// (E1) an index out of range fails; what is read then is element 0, or zero
/// where there is none.
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
  std::string message;
  llvm::raw_string_ostream stream(message);
  stream << "index out of range for a tensor of shape [";
  llvm::interleaveComma(type.getShape(), stream);
  stream << "]";
  cf::AssertOp::create(b, all, b.getStringAttr(message));
  if (type.getNumElements() == 0) {
    op.replaceAllUsesWith(arith::ConstantOp::create(
                              b, cast<TypedAttr>(b.getZeroAttr(op.getType())))
                              .getResult());
    op.erase();
  }
}

void ExpandChecks::runOnOperation() {
  llvm::SmallDenseSet<Value> checkedSteps;
  getOperation().walk([&](Operation *op) {
    if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
      expand(extract);
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
