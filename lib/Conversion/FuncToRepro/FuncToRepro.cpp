//===- FuncToRepro.cpp - Random declarations to repro.random ----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Conversion/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::repro {
#define GEN_PASS_DEF_CONVERTFUNCTOREPRO
#include "dialects/Conversion/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// Replaces (R1) a call of a random declaration. The seed and the step are
/// tensors of rank 0 in the imported text, scalars in the operation.
static LogicalResult convertCall(func::CallOp call, func::FuncOp callee) {
  auto site = callee->getAttrOfType<IntegerAttr>("repro.site");
  auto name = callee->getAttrOfType<StringAttr>("repro.distribution");
  if (!callee.isDeclaration() || !site || !name)
    return call.emitOpError("of '@")
           << callee.getName()
           << "': expected a declaration with 'repro.site' and "
              "'repro.distribution'; every other function must be inlined";
  std::optional<Distribution> distribution =
      symbolizeDistribution(name.getValue());
  if (!distribution)
    return callee.emitOpError("(R2) 'repro.distribution' must be \"uniform\" "
                              "or \"bits\", got ")
           << name;
  OpBuilder builder(call);
  Type i64 = builder.getI64Type();
  auto scalar = RankedTensorType::get({}, i64);
  if (call.getNumOperands() != 2 || call.getOperandTypes()[0] != scalar ||
      call.getOperandTypes()[1] != scalar || call.getNumResults() != 1)
    return call.emitOpError("(R1) expected operands (seed, step) of type ")
           << scalar << " and one result, got " << call.getCalleeType();
  auto type = dyn_cast<RankedTensorType>(call.getResultTypes()[0]);
  bool isBits = *distribution == Distribution::bits;
  Type declared = isBits ? i64 : Type(builder.getF32Type());
  if (!type || !type.hasStaticShape() || type.getElementType() != declared)
    return call.emitOpError("(R2) '")
           << name.getValue() << "' gives a tensor of static shape and "
           << declared << " elements, got " << call.getResultTypes()[0];
  Location loc = call.getLoc();
  SmallVector<Value> inputs;
  for (Value operand : call.getOperands())
    inputs.push_back(
        tensor::ExtractOp::create(builder, loc, operand, ValueRange{}));
  Type element = isBits ? Type(builder.getI32Type()) : declared;
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(), element);
  Value result =
      RandomOp::create(builder, loc, TypeRange{empty.getType()}, inputs,
                       ValueRange{empty}, *distribution, site.getInt())
          .getResult(0);
  if (isBits) {
    Value wide = tensor::EmptyOp::create(builder, loc, type.getShape(), i64);
    AffineMap identity = builder.getMultiDimIdentityMap(type.getRank());
    SmallVector<utils::IteratorType> parallel(type.getRank(),
                                              utils::IteratorType::parallel);
    result =
        linalg::GenericOp::create(
            builder, loc, TypeRange{type}, ValueRange{result}, ValueRange{wide},
            ArrayRef<AffineMap>{identity, identity}, parallel,
            [&](OpBuilder &body, Location bodyLoc, ValueRange args) {
              Value bits = arith::ExtUIOp::create(body, bodyLoc, i64, args[0]);
              linalg::YieldOp::create(body, bodyLoc, bits);
            })
            .getResult(0);
  }
  call.replaceAllUsesWith(ValueRange{result});
  call.erase();
  return success();
}

/// Drops the discardable attributes that are no part of the contract.
static void dropForeignAttributes(Operation *op) {
  if (!op->isRegistered())
    return;
  for (NamedAttribute attr : llvm::to_vector(op->getDiscardableAttrs()))
    if (attr.getName() != "repro.num_state")
      op->removeDiscardableAttr(attr.getName());
  auto function = dyn_cast<func::FuncOp>(op);
  if (!function)
    return;
  auto namesOnly = [&](DictionaryAttr attrs) -> DictionaryAttr {
    Attribute name = attrs ? attrs.get("repro.name") : Attribute();
    SmallVector<NamedAttribute> kept;
    if (name)
      kept.emplace_back(StringAttr::get(op->getContext(), "repro.name"), name);
    return DictionaryAttr::get(op->getContext(), kept);
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.setArgAttrs(i, namesOnly(function.getArgAttrDict(i)));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    function.setResultAttrs(i, namesOnly(function.getResultAttrDict(i)));
}

namespace {
struct ConvertFuncToRepro
    : public repro::impl::ConvertFuncToReproBase<ConvertFuncToRepro> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    SmallVector<func::CallOp> calls;
    module.walk([&](func::CallOp call) { calls.push_back(call); });
    for (func::CallOp call : calls) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (!callee) {
        call.emitOpError("of '@") << call.getCallee() << "', which is unknown";
        return signalPassFailure();
      }
      if (failed(convertCall(call, callee)))
        return signalPassFailure();
    }
    for (auto function : llvm::to_vector(module.getOps<func::FuncOp>()))
      if (function.isDeclaration() && function.isPrivate())
        function.erase();
    module.removeSymNameAttr();
    module.walk(dropForeignAttributes);
  }
};
} // namespace
