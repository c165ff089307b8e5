//===- SinkScalars.cpp - Move scalar computations into ops ----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-sink-scalars (Passes.td), run by lib/Pipelines/Schedule.cpp: makes
// structured operations depend only on tensors, not on scalars that are
// computed outside of them.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include "llvm/ADT/TypeSwitch.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROSINKSCALARS
#include "lib/Codegen/Schedule/Tensors/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {

struct SinkScalars : public repro::impl::ReproSinkScalarsBase<SinkScalars> {
  void runOnOperation() override;

private:
  /// Returns a rank-0 tensor with the value of a scalar in the body of `main`.
  Value getTensor(Value scalar);
  /// Creates a linalg.generic of rank 0 and returns its result. The body
  /// computes `scalar` from constants and rank-0 tensors (getTensor), followed
  /// by the operations that `finish` creates.
  Value
  createRankZero(OpBuilder &builder, Location loc, Value scalar, Type result,
                 function_ref<Value(ImplicitLocOpBuilder &, Value)> finish);
  void sinkCaptures(Operation *op);
  void replaceSplat(tensor::SplatOp op);
  void replaceFromElements(tensor::FromElementsOp op);
  void fillConstants(Operation *op);

  DenseMap<Value, Value> tensors;
};

} // namespace

static bool isScalar(Type type) { return type.isIntOrIndexOrFloat(); }

static bool isConstant(Value value) {
  Operation *def = value.getDefiningOp();
  return def && def->hasTrait<OpTrait::ConstantLike>();
}

/// Creates a linalg.generic that returns a tensor of `type`. The inputs are
/// rank-0 tensors, whose elements `body` receives.
static linalg::GenericOp
createBroadcast(OpBuilder &builder, Location loc, RankedTensorType type,
                ValueRange inputs,
                function_ref<Value(ImplicitLocOpBuilder &, ValueRange)> body) {
  int64_t rank = type.getRank();
  SmallVector<AffineMap> maps(inputs.size(),
                              AffineMap::get(rank, 0, builder.getContext()));
  maps.push_back(builder.getMultiDimIdentityMap(rank));
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                        type.getElementType());
  return linalg::GenericOp::create(
      builder, loc, TypeRange{type}, inputs, ValueRange{empty}, maps, iterators,
      [&](OpBuilder &nested, Location loc, ValueRange arguments) {
        ImplicitLocOpBuilder b(loc, nested);
        linalg::YieldOp::create(b, body(b, arguments.drop_back()));
      });
}

Value SinkScalars::createRankZero(
    OpBuilder &builder, Location loc, Value scalar, Type result,
    function_ref<Value(ImplicitLocOpBuilder &, Value)> finish) {
  // `slice` collects the operations that compute `scalar`, and `leaves`
  // collects the values for which there are rank-0 tensors.
  SetVector<Operation *> slice;
  SetVector<Value> leaves;
  SmallVector<Value> work{scalar};
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *def = value.getDefiningOp();
    if (isConstant(value)) {
      slice.insert(def);
      continue;
    }
    auto extract = def ? dyn_cast<tensor::ExtractOp>(def) : nullptr;
    if (tensors.contains(value) ||
        (extract && extract.getTensor().getType().getRank() == 0)) {
      leaves.insert(value);
      continue;
    }
    if (!slice.insert(def))
      continue;
    for (Value operand : def->getOperands())
      if (isScalar(operand.getType()))
        work.push_back(operand);
  }
  SmallVector<Value> inputs;
  for (Value leaf : leaves)
    inputs.push_back(getTensor(leaf));
  SmallVector<Operation *> ordered(slice.begin(), slice.end());
  llvm::sort(ordered,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  auto type = RankedTensorType::get({}, result);
  auto generic = createBroadcast(builder, loc, type, inputs,
                                 [&](ImplicitLocOpBuilder &b, ValueRange args) {
                                   IRMapping mapping;
                                   mapping.map(leaves.getArrayRef(), args);
                                   for (Operation *op : ordered)
                                     b.clone(*op, mapping);
                                   return finish(b, mapping.lookup(scalar));
                                 });
  return generic.getResult(0);
}

Value SinkScalars::getTensor(Value scalar) {
  if (auto extract = scalar.getDefiningOp<tensor::ExtractOp>();
      extract && extract.getTensor().getType().getRank() == 0)
    return extract.getTensor();
  Value &known = tensors[scalar];
  if (known)
    return known;
  tensors.erase(scalar); // otherwise the scalar would be a leaf of its own
                         // slice
  OpBuilder builder(scalar.getContext());
  builder.setInsertionPointAfterValue(scalar);
  Value tensor =
      createRankZero(builder, scalar.getLoc(), scalar, scalar.getType(),
                     [](ImplicitLocOpBuilder &, Value v) { return v; });
  tensors[scalar] = tensor;
  return tensor;
}

/// Turns scalars that the body of a generic or fold captures into rank-0
/// operands.
void SinkScalars::sinkCaptures(Operation *op) {
  if (op->getNumRegions() != 1 || op->getRegion(0).empty())
    return;
  Region &region = op->getRegion(0);
  Block &body = region.front();
  OpBuilder builder(op);

  SetVector<Value> captured;
  region.walk([&](Operation *nested) {
    for (OpOperand &operand : nested->getOpOperands()) {
      Value value = operand.get();
      if (region.isAncestor(value.getParentRegion()) ||
          !isScalar(value.getType()))
        continue;
      captured.insert(value);
    }
  });
  SmallVector<Value> scalars;
  for (Value value : captured) {
    if (!isConstant(value)) {
      scalars.push_back(value);
      continue;
    }
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&body);
    Value inner = builder.clone(*value.getDefiningOp())->getResult(0);
    value.replaceUsesWithIf(inner, [&](OpOperand &use) {
      return region.isAncestor(use.getOwner()->getParentRegion());
    });
  }

  auto dps = cast<DestinationStyleOpInterface>(op);
  SmallVector<Value> inputs = dps.getDpsInputs();
  bool changed = !scalars.empty();
  for (Value &input : inputs)
    if (isScalar(input.getType())) {
      changed = true;
      if (isConstant(input)) {
        // A constant rank-0 input becomes a constant in the body.
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPoint(op);
        TypedAttr value =
            cast<TypedAttr>(input.getDefiningOp()->getAttr("value"));
        auto type = RankedTensorType::get({}, input.getType());
        input = arith::ConstantOp::create(builder, op->getLoc(), type,
                                          DenseElementsAttr::get(type, value));
      } else {
        input = getTensor(input);
      }
    }
  if (!changed)
    return;

  auto maps = cast<IndexingMapOpInterface>(op).getIndexingMapsArray();
  unsigned numInputs = inputs.size();
  for (Value scalar : scalars) {
    BlockArgument argument =
        body.insertArgument(inputs.size(), scalar.getType(), op->getLoc());
    scalar.replaceUsesWithIf(argument, [&](OpOperand &use) {
      return region.isAncestor(use.getOwner()->getParentRegion());
    });
    inputs.push_back(getTensor(scalar));
  }
  maps.insert(maps.begin() + numInputs, scalars.size(),
              AffineMap::get(maps.front().getNumDims(), 0, op->getContext()));
  ArrayAttr mapAttr = builder.getAffineMapArrayAttr(maps);
  SmallVector<Value> outputs = llvm::to_vector(dps.getDpsInits());
  SmallVector<Value> operands = inputs;
  llvm::append_range(operands, outputs);
  op->setOperands(operands);
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    generic.setIndexingMapsAttr(mapAttr);
    generic.getProperties().operandSegmentSizes = {int(inputs.size()),
                                                   int(outputs.size())};
  } else if (auto fold = dyn_cast<FoldOp>(op)) {
    fold.setIndexingMapsAttr(mapAttr);
    fold.getProperties().operandSegmentSizes = {int(inputs.size()),
                                                int(outputs.size())};
  }
}

void SinkScalars::replaceSplat(tensor::SplatOp op) {
  OpBuilder builder(op);
  Value input = op.getInput();
  auto type = cast<RankedTensorType>(op.getType());
  bool constant = isConstant(input);
  SmallVector<Value> inputs;
  if (!constant)
    inputs.push_back(getTensor(input));
  auto generic = createBroadcast(
      builder, op.getLoc(), type, inputs,
      [&](ImplicitLocOpBuilder &b, ValueRange args) {
        return constant ? b.clone(*input.getDefiningOp())->getResult(0)
                        : args[0];
      });
  op.replaceAllUsesWith(generic.getResult(0));
  op.erase();
}

void SinkScalars::replaceFromElements(tensor::FromElementsOp op) {
  OpBuilder builder(op);
  auto type = cast<RankedTensorType>(op.getType());
  // Elements that are constants become constants in the body and need no
  // operand.
  SmallVector<Value> inputs, elements(op.getElements());
  for (Value element : elements)
    if (!isConstant(element))
      inputs.push_back(getTensor(element));
  auto generic = createBroadcast(
      builder, op.getLoc(), type, inputs,
      [&](ImplicitLocOpBuilder &b, ValueRange args) {
        SmallVector<Value> values;
        unsigned next = 0;
        for (Value element : elements)
          values.push_back(isConstant(element)
                               ? b.clone(*element.getDefiningOp())->getResult(0)
                               : args[next++]);
        Value position;
        if (values.size() > 1) {
          position = arith::ConstantIndexOp::create(b, 0);
          for (int64_t dim = 0; dim < type.getRank(); ++dim)
            position = arith::AddIOp::create(
                b,
                arith::MulIOp::create(
                    b, position,
                    arith::ConstantIndexOp::create(b, type.getDimSize(dim))),
                linalg::IndexOp::create(b, dim));
        }
        Value result = values.back();
        for (int64_t i = int64_t(values.size()) - 2; i >= 0; --i) {
          Value isIt =
              arith::CmpIOp::create(b, arith::CmpIPredicate::eq, position,
                                    arith::ConstantIndexOp::create(b, i));
          result = arith::SelectOp::create(b, isIt, values[i], result);
        }
        return result;
      });
  op.replaceAllUsesWith(generic.getResult(0));
  op.erase();
}

/// If an operation overwrites or inserts a splat constant, replaces the
/// constant by a fill, because a constant would be stored in the artifact and
/// copied.
void SinkScalars::fillConstants(Operation *op) {
  auto dps = dyn_cast<DestinationStyleOpInterface>(op);
  if (!dps)
    return;
  SmallVector<OpOperand *> filled;
  for (OpOperand &init : dps.getDpsInitsMutable())
    filled.push_back(&init);
  if (auto insertion = dyn_cast<tensor::InsertSliceOp>(op))
    filled.push_back(&insertion.getSourceMutable());
  OpBuilder builder(op);
  for (OpOperand *operand : filled) {
    auto constant = operand->get().getDefiningOp<arith::ConstantOp>();
    auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue())
                          : SplatElementsAttr();
    if (!splat)
      continue;
    auto generic = createBroadcast(
        builder, op->getLoc(), cast<RankedTensorType>(constant.getType()), {},
        [&](ImplicitLocOpBuilder &b, ValueRange) -> Value {
          return arith::ConstantOp::create(b, splat.getSplatValue<TypedAttr>());
        });
    operand->set(generic.getResult(0));
  }
}

void SinkScalars::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return;
  tensors.clear();
  SmallVector<Operation *> scalarOps;
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (auto assertion = dyn_cast<cf::AssertOp>(op)) {
      OpBuilder builder(&op);
      createRankZero(
          builder, op.getLoc(), assertion.getArg(), builder.getI1Type(),
          [&](ImplicitLocOpBuilder &b, Value condition) {
            cf::AssertOp::create(b, condition, assertion.getMsgAttr());
            return condition;
          });
      op.erase();
      continue;
    }
    if (op.getNumResults() > 0 && llvm::all_of(op.getResultTypes(), isScalar)) {
      scalarOps.push_back(&op);
      continue;
    }
    TypeSwitch<Operation *>(&op)
        .Case([&](tensor::SplatOp o) { replaceSplat(o); })
        .Case([&](tensor::FromElementsOp o) { replaceFromElements(o); })
        .Case<linalg::GenericOp, FoldOp>([&](Operation *o) {
          sinkCaptures(o);
          fillConstants(o);
        })
        .Default([&](Operation *o) { fillConstants(o); });
  }
  for (Operation *op : llvm::reverse(scalarOps))
    if (op->use_empty())
      op->erase();
}
