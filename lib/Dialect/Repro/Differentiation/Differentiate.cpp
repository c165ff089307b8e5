//===- Differentiate.cpp - Reverse-mode differentiation -------------------===//
//----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-differentiate (Passes.td), run from Python, outside of the
// pipelines: visits the operations of @main in reverse order and appends the
// gradients of the chosen results with respect to the chosen arguments (J1), in
// an order that depends only on the program.
//
//===----------------------------------------------------------------------===//

#include "Adjoints.h"
#include "Dialect/Repro/Differentiation/Passes.h"
#include "Recomputation.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPRODIFFERENTIATE
#include "lib/Dialect/Repro/Differentiation/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

static bool isFloatTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() &&
         isa<FloatType>(tensor.getElementType());
}

/// Returns the arguments or results at `positions`, which must be float
/// tensors. Fails after an error.
static FailureOr<SmallVector<Value>> choose(func::FuncOp main,
                                            ArrayRef<int64_t> positions,
                                            ValueRange values, StringRef what) {
  SmallVector<Value> chosen;
  for (int64_t position : positions) {
    if (position < 0 || position >= int64_t(values.size()))
      return main.emitError("(J1) there is no ")
             << what << " " << position << " of " << values.size();
    if (!isFloatTensor(values[position].getType()))
      return main.emitError("(J1) ")
             << what << " " << position << " is " << values[position].getType()
             << ", expected a tensor of floats of static shape";
    if (llvm::is_contained(chosen, values[position]) && what == "argument")
      return main.emitError("(J1) argument ")
             << position << " is named more than once";
    chosen.push_back(values[position]);
  }
  return chosen;
}

/// Returns the attributes of a gradient: the `repro.name` of the differentiated
/// value, if it has one, prefixed with "gradient.".
static DictionaryAttr nameGradient(DictionaryAttr attributes, OpBuilder &b) {
  auto name =
      attributes ? attributes.getAs<StringAttr>("repro.name") : StringAttr();
  if (!name)
    return b.getDictionaryAttr({});
  return b.getDictionaryAttr(b.getNamedAttr(
      "repro.name", b.getStringAttr("gradient." + name.getValue())));
}

namespace {
struct Differentiate
    : public repro::impl::ReproDifferentiateBase<Differentiate> {
  using ReproDifferentiateBase::ReproDifferentiateBase;

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || !main.getBody().hasOneBlock()) {
      getOperation().emitError("(J1) expected a function @main of one block");
      return signalPassFailure();
    }
    if (failed(differentiate(main)))
      signalPassFailure();
  }

  LogicalResult differentiate(func::FuncOp main) {
    Block &block = main.getBody().front();
    auto ends = cast<func::ReturnOp>(block.getTerminator());
    FailureOr<SmallVector<Value>> outputs =
        choose(main, results, ends.getOperands(), "result");
    FailureOr<SmallVector<Value>> sources =
        choose(main, arguments, block.getArguments(), "argument");
    FailureOr<SetVector<Operation *>> named = findNamed(main, recompute);
    if (failed(outputs) || failed(sources) || failed(named))
      return failure();

    Adjoints adjoints(block, *sources);
    SmallVector<Operation *> operations;
    for (Operation &op : block.without_terminator())
      operations.push_back(&op);
    OpBuilder b(main);
    for (auto [position, output] : llvm::zip_equal(results, *outputs)) {
      unsigned number = main.getNumArguments();
      DictionaryAttr name = nameGradient(main.getResultAttrDict(position), b);
      if (failed(main.insertArgument(number, output.getType(), name,
                                     output.getLoc())))
        return failure();
      adjoints.add(output, block.getArgument(number));
    }
    for (Operation *op : llvm::reverse(operations)) {
      bool reaches = llvm::any_of(op->getResults(), [&](Value result) {
        return adjoints.get(result) != nullptr;
      });
      if (!reaches)
        continue;
      auto differentiable = dyn_cast<AdjointOpInterface>(op);
      if (!differentiable)
        return op->emitOpError("(J1) has no derivative");
      if (failed(differentiable.addAdjoints(adjoints)))
        return failure();
    }
    if (!named->empty())
      computeAgain(*named, operations.back());
    ImplicitLocOpBuilder at = adjoints.builderAt(ends.getLoc());
    SmallVector<Value> returned(ends.getOperands());
    for (auto [position, source] : llvm::zip_equal(arguments, *sources)) {
      Value adjoint = adjoints.get(source);
      DictionaryAttr name = nameGradient(main.getArgAttrDict(position), b);
      if (failed(
              main.insertResult(main.getNumResults(), source.getType(), name)))
        return failure();
      returned.push_back(adjoint ? adjoint : makeZero(at, source.getType()));
    }
    ends.getOperandsMutable().assign(returned);
    return success();
  }
};
} // namespace
