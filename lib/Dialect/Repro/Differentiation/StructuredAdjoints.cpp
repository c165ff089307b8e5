//===- StructuredAdjoints.cpp - Adjoints of generics and folds ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Differentiation/Passes.h"
#include "Loops.h"

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// A point of the loops
//===----------------------------------------------------------------------===//

namespace {
/// A value to which a gradient is propagated: an operand (as the body's
/// argument), an element that the body extracts, or a scalar from outside of
/// the body.
using Target = Value;

/// Propagates gradients backward through the body at one point of the loops,
/// from some values of the body to one target.
class PointGradient {
public:
  PointGradient(const Loops &loops, Target target) : loops(loops) {
    toTarget.insert(target);
    for (Operation &op : *loops.body)
      if (llvm::any_of(op.getOperands(), [&](Value operand) {
            return toTarget.contains(operand);
          }))
        for (Value result : op.getResults())
          if (isa<FloatType>(result.getType()))
            toTarget.insert(result);
  }

  bool reaches(Value value) const { return toTarget.contains(value); }

  /// Returns the gradient of the target; null if it is zero. Fails after an
  /// error.
  FailureOr<Value> compute(ImplicitLocOpBuilder &b, IRMapping &point,
                           ArrayRef<std::pair<Value, Value>> seeds,
                           Target target, Operation *skipped) {
    DenseMap<Value, Scalar> gradients;
    auto add = [&](Value value, Scalar gradient) {
      if (!gradient || !reaches(value))
        return;
      gradient = gradient.convert(getDerivativeType(value.getType()));
      Scalar &sum = gradients[value];
      sum = sum ? sum + gradient : gradient;
    };
    for (auto [value, gradient] : seeds)
      add(value, Scalar(b, gradient));
    for (Operation &op : llvm::reverse(*loops.body)) {
      if (&op == skipped || op.getNumResults() != 1 ||
          op.getResult(0) == target)
        continue;
      Scalar g = gradients.lookup(op.getResult(0));
      if (!g)
        continue;
      auto differentiable = dyn_cast<DerivativeOpInterface>(op);
      if (!differentiable)
        return op.emitOpError("(J2) has no derivative");
      SmallVector<Scalar> derived =
          deriveOperands(differentiable, g, [&](Value value) {
            return point.lookupOrDefault(value);
          });
      for (auto [operand, gradient] :
           llvm::zip_equal(op.getOperands(), derived))
        add(operand, gradient);
    }
    Scalar found = gradients.lookup(target);
    return found ? found.get() : Value();
  }

private:
  const Loops &loops;
  DenseSet<Value> toTarget;
};
} // namespace

/// A callback that returns values of the body at a point, each paired with its
/// gradient. The gradients are computed from the elements `extra`.
using SeedFunction = llvm::function_ref<SmallVector<std::pair<Value, Value>>(
    ImplicitLocOpBuilder &b, IRMapping &point, ValueRange extra)>;

/// Adds the contributions of the loops to the adjoints of all values that they
/// read. `seed` provides the gradients of some values of the body. The
/// operation `skipped`, which may be null, is not differentiated, because
/// `seed` provides the gradients of its operands. Fails if a gradient cannot be
/// computed.
static LogicalResult addContributions(Adjoints &adjoints, const Loops &loops,
                                      ArrayRef<Loops::Read> extra,
                                      SeedFunction seed, Operation *skipped) {
  ImplicitLocOpBuilder b = adjoints.builderAt(loops.op->getLoc());
  bool hasFailed = false;
  auto pointFunction = [&](Target target) {
    return [&, target](ImplicitLocOpBuilder &inner, IRMapping &point,
                       ValueRange elements) -> Value {
      for (Operation &op : *loops.body)
        cloneAtPoint(inner, op, point);
      PointGradient gradient(loops, target);
      FailureOr<Value> found = gradient.compute(
          inner, point, seed(inner, point, elements), target, skipped);
      hasFailed |= failed(found);
      return failed(found) ? Value() : *found;
    };
  };

  SmallVector<std::pair<Value, Value>> found;
  auto addRead = [&](const Loops::Read &read, Target target) {
    Type element = getElementTypeOrSelf(read.value.getType());
    auto type = dyn_cast<RankedTensorType>(read.value.getType());
    // If the map consists of distinct dimensions and zeros, sum over all other
    // dimensions.
    bool isPlain = read.map.isProjectedPermutation(/*allowZeroInResults=*/true);
    SmallVector<int64_t> dims;
    if (isPlain)
      dims = loops.getDims(read.map);
    else
      for (unsigned dim = 0; dim < loops.extents.size(); ++dim)
        if (read.map.isFunctionOfDim(dim))
          dims.push_back(dim);
    Value sum =
        computeOver(b, loops, dims, element, extra, pointFunction(target));
    if (!sum)
      return;
    if (!type)
      sum = tensor::ExtractOp::create(b, sum, ValueRange{});
    else if (!isPlain)
      sum = accumulate(b, loops, sum, dims, read.map, type);
    else if (cast<RankedTensorType>(sum.getType()).getNumElements() ==
             type.getNumElements())
      sum = reshape(b, sum, type.getShape());
    else
      // The map indexes a dimension of several elements by a constant, so the
      // gradient of the other elements of that dimension is zero.
      sum = accumulate(b, loops, sum, dims, read.map, type);
    found.emplace_back(read.value, sum);
  };

  for (auto [i, read] : llvm::enumerate(loops.reads)) {
    BlockArgument argument = loops.body->getArgument(i);
    if (adjoints.isActive(read.value) && !argument.use_empty())
      addRead(read, argument);
  }
  DenseSet<Value> scalars;
  AffineMap none = AffineMap::get(loops.extents.size(), 0, b.getContext());
  for (Operation &op : *loops.body) {
    if (auto read = dyn_cast<tensor::ExtractOp>(op);
        read && adjoints.isActive(read.getTensor())) {
      if (Value sum = accumulate(b, loops, read, extra,
                                 pointFunction(read.getResult())))
        found.emplace_back(read.getTensor(), sum);
      continue;
    }
    for (Value operand : op.getOperands())
      if (operand.getParentBlock() != loops.body &&
          isa<FloatType>(operand.getType()) && adjoints.isActive(operand) &&
          scalars.insert(operand).second)
        addRead({operand, none}, operand);
  }
  if (hasFailed)
    return failure();
  for (auto [value, sum] : found)
    adjoints.add(value, sum);
  return success();
}

//===----------------------------------------------------------------------===//
// linalg.generic
//===----------------------------------------------------------------------===//

namespace {
struct GenericModel
    : AdjointOpInterface::ExternalModel<GenericModel, linalg::GenericOp> {
  LogicalResult addAdjoints(Operation *op, Adjoints &adjoints) const {
    auto generic = cast<linalg::GenericOp>(op);
    if (generic.getNumReductionLoops() > 0)
      return op->emitOpError("(J1) expected a repro.fold for a reduction");
    Loops loops(generic);
    SmallVector<Loops::Read> extra;
    SmallVector<Value> yielded;
    for (auto [i, result] : llvm::enumerate(op->getResults()))
      if (Value adjoint = adjoints.get(result)) {
        extra.push_back({adjoint, loops.getOutputMap(i)});
        yielded.push_back(loops.body->getTerminator()->getOperand(i));
      }
    return addContributions(
        adjoints, loops, extra,
        [&](ImplicitLocOpBuilder &, IRMapping &, ValueRange elements) {
          SmallVector<std::pair<Value, Value>> seeds;
          for (auto [value, element] : llvm::zip_equal(yielded, elements))
            seeds.emplace_back(value, element);
          return seeds;
        },
        nullptr);
  }
};

//===----------------------------------------------------------------------===//
// repro.fold
//===----------------------------------------------------------------------===//

/// A fold with one result whose body is op(acc, f(inputs)).
struct StepFold {
  FoldOp op;
  Loops loops;
  Operation *step;
  Value accumulator;
  Value adjoint; ///< of the result

  /// Returns f(inputs) for a step other than math.fma.
  Value getElement() const {
    return step->getOperand(step->getOperand(0) == accumulator ? 1 : 0);
  }
  /// Returns a read of `tensor`, which has one element per element of the
  /// result.
  Loops::Read readResults(Value tensor) const {
    return {tensor, loops.getOutputMap(0)};
  }
  SmallVector<int64_t> getParallelDims() const {
    return loops.getDims(loops.getOutputMap(0));
  }
};
} // namespace

using Seeds = SmallVector<std::pair<Value, Value>>;

/// Sums and contractions: each element gets the gradient of the result.
static LogicalResult addOfSum(Adjoints &adjoints, StepFold &fold) {
  if (failed(addContributions(
          adjoints, fold.loops, fold.readResults(fold.adjoint),
          [&](ImplicitLocOpBuilder &b, IRMapping &point,
              ValueRange extra) -> Seeds {
            if (!isa<math::FmaOp>(fold.step))
              return {{fold.getElement(), extra[0]}};
            Value x = fold.step->getOperand(0), y = fold.step->getOperand(1);
            auto times = [&](Value factor) {
              Scalar other(b, point.lookupOrDefault(factor));
              Scalar g = Scalar(b, extra[0]).convert(other.getType());
              return (g * other).get();
            };
            return {{x, times(y)}, {y, times(x)}};
          },
          fold.step)))
    return failure();
  adjoints.add(fold.op.getOutputs()[0], fold.adjoint);
  return success();
}

/// (J3) Maxima and minima: the gradient is shared equally by the elements that
/// equal the result, and by the initial value if it equals the result.
static LogicalResult addOfExtreme(Adjoints &adjoints, StepFold &fold) {
  ImplicitLocOpBuilder b = adjoints.builderAt(fold.op.getLoc());
  using Predicate = arith::CmpFPredicate;
  auto isResult = [](ImplicitLocOpBuilder &b, Value element, Value result) {
    Scalar x(b, element), y(b, result);
    Scalar bothNan(b,
                   arith::AndIOp::create(b, compare(Predicate::UNO, x, x).get(),
                                         compare(Predicate::UNO, y, y).get()));
    Scalar isEqual = compare(Predicate::OEQ, x, y);
    return Scalar(b, arith::OrIOp::create(b, isEqual.get(), bothNan.get()));
  };
  Value init = fold.op.getOutputs()[0], result = fold.op.getResult(0);
  auto type = cast<RankedTensorType>(result.getType());
  Type wide = getDerivativeType(type.getElementType());
  auto one = [](Scalar condition, Type type) {
    ImplicitLocOpBuilder &b = condition.getBuilder();
    Scalar zero(b, makeZero(b, type));
    return select(condition, zero.constant(1), zero);
  };
  Value count = computeOver(
      b, fold.loops, fold.getParallelDims(), wide, fold.readResults(result),
      [&](ImplicitLocOpBuilder &b, IRMapping &point, ValueRange extra) {
        for (Operation &op : *fold.loops.body)
          cloneAtPoint(b, op, point);
        Value element = point.lookupOrDefault(fold.getElement());
        return one(isResult(b, element, extra[0]), wide).get();
      });
  // The share of the gradient that each element, and the initial value, gets if
  // it equals the result.
  Value share =
      mapElements(b, type.getShape(), wide, {count, init, result, fold.adjoint},
                  {}, [&](ImplicitLocOpBuilder &b, ValueRange values) {
                    Scalar total = Scalar(b, values[0]) +
                                   one(isResult(b, values[1], values[2]), wide);
                    return (Scalar(b, values[3]).convert(wide) / total).get();
                  });
  if (failed(addContributions(
          adjoints, fold.loops,
          {fold.readResults(result), fold.readResults(share)},
          [&](ImplicitLocOpBuilder &b, IRMapping &point,
              ValueRange extra) -> Seeds {
            Value element = point.lookupOrDefault(fold.getElement());
            Scalar g(b, extra[1]);
            g = select(isResult(b, element, extra[0]), g, g.constant(0));
            return {{fold.getElement(), g.get()}};
          },
          fold.step)))
    return failure();
  if (adjoints.isActive(init))
    adjoints.add(init,
                 mapElements(b, type.getShape(), type.getElementType(),
                             {init, result, share}, {},
                             [&](ImplicitLocOpBuilder &b, ValueRange values) {
                               Scalar g(b, values[2]);
                               g = select(isResult(b, values[0], values[1]), g,
                                          g.constant(0));
                               return g.convert(type.getElementType()).get();
                             }));
  return success();
}

/// (J3) Products: each element gets the gradient times the product of all other
/// elements.
static LogicalResult addOfProduct(Adjoints &adjoints, StepFold &fold) {
  ImplicitLocOpBuilder b = adjoints.builderAt(fold.op.getLoc());
  const Loops &loops = fold.loops;
  SmallVector<int64_t> dims = fold.getParallelDims(), shape, whole;
  int64_t rank = dims.size(), count = 1;
  for (unsigned dim = 0; dim < loops.extents.size(); ++dim)
    if (!llvm::is_contained(dims, int64_t(dim))) {
      dims.push_back(dim);
      count *= loops.extents[dim];
    }
  for (auto [i, dim] : llvm::enumerate(dims)) {
    whole.push_back(loops.extents[dim]);
    if (int64_t(i) < rank)
      shape.push_back(loops.extents[dim]);
  }
  Value init = fold.op.getOutputs()[0];
  if (count == 0) {
    adjoints.add(init, fold.adjoint);
    return success();
  }
  Type element = getDerivativeType(
      cast<RankedTensorType>(init.getType()).getElementType());
  // One row of factors per result, without the initial value.
  Value factors =
      computeOver(b, loops, dims, element, {},
                  [&](ImplicitLocOpBuilder &b, IRMapping &point, ValueRange) {
                    for (Operation &op : *loops.body)
                      cloneAtPoint(b, op, point);
                    return point.lookupOrDefault(fold.getElement());
                  });
  shape.push_back(count);
  factors = reshape(b, factors, shape);
  shape.back() = 1;
  Value first = reshape(b, convertElements(b, init, element), shape);
  Value one = mapElements(b, shape, element, {}, {},
                          [&](ImplicitLocOpBuilder &b, ValueRange) -> Value {
                            return arith::ConstantOp::create(
                                b, b.getFloatAttr(element, 1));
                          });
  Value before = tensor::ConcatOp::create(b, rank, ValueRange{first, factors});
  Value after = tensor::ConcatOp::create(b, rank, ValueRange{factors, one});
  before = scan(b, before, Combine::mul, rank);
  after = flip(b, scan(b, flip(b, after, rank), Combine::mul, rank), rank);
  // Element i gets the product of all other elements, before and after it, and
  // of the initial value.
  Value others = slice(b, before, rank, 0, count);
  Value behind = slice(b, after, rank, 1, count);
  shape.back() = count;
  auto times = [](ImplicitLocOpBuilder &b, ValueRange values) {
    return (Scalar(b, values[0]) * Scalar(b, values[1])).get();
  };
  others = mapElements(b, shape, element, {others, behind}, {}, times);
  others = reshape(b, others, whole);
  SmallVector<AffineExpr> exprs;
  for (int64_t dim : dims)
    exprs.push_back(b.getAffineDimExpr(dim));
  AffineMap map = AffineMap::get(dims.size(), 0, exprs, b.getContext());
  if (failed(addContributions(
          adjoints, loops, {fold.readResults(fold.adjoint), {others, map}},
          [&](ImplicitLocOpBuilder &b, IRMapping &, ValueRange extra) -> Seeds {
            Scalar g = Scalar(b, extra[0]).convert(element);
            return {{fold.getElement(), (g * Scalar(b, extra[1])).get()}};
          },
          fold.step)))
    return failure();
  if (adjoints.isActive(init)) {
    shape.pop_back();
    Value all = slice(b, after, rank, 0, 1);
    Value product = mapElements(
        b, shape, element,
        {convertElements(b, fold.adjoint, element), reshape(b, all, shape)}, {},
        times);
    adjoints.add(init, convertElements(b, product,
                                       getElementTypeOrSelf(init.getType())));
  }
  return success();
}

namespace {
struct FoldModel : AdjointOpInterface::ExternalModel<FoldModel, FoldOp> {
  LogicalResult addAdjoints(Operation *op, Adjoints &adjoints) const {
    auto fold = cast<FoldOp>(op);
    Operation *step = op->getNumResults() == 1 ? fold.getStep() : nullptr;
    if (!step)
      return op->emitOpError("(J1) has no derivative: expected a fold of one "
                             "result whose body is op(acc, f(inputs))");
    StepFold parts{fold, Loops(fold), step,
                   fold.getBody()->getArguments().back(),
                   adjoints.get(op->getResult(0))};
    if (isa<arith::AddFOp, math::FmaOp>(step))
      return addOfSum(adjoints, parts);
    if (isa<arith::MaximumFOp, arith::MinimumFOp>(step))
      return addOfExtreme(adjoints, parts);
    if (isa<arith::MulFOp>(step))
      return addOfProduct(adjoints, parts);
    return step->emitOpError("(J1) has no derivative as the step of a fold");
  }
};
} // namespace

void repro::registerStructuredAdjoints(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    linalg::GenericOp::attachInterface<GenericModel>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, ReproDialect *) {
    FoldOp::attachInterface<FoldModel>(*context);
  });
}
