//===- QuantizeContractions.cpp - Contractions in lower precision ---------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-quantize-contractions (Passes.td), run from Python, outside of the
// pipelines: converts, function by function, the factors of contractions that
// have a `repro.precision` attribute to the requested precision; contractions
// without this attribute stay as they are.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/ContractionRoles.h"
#include "Dialect/Repro/Transforms/Movement.h"
#include "Dialect/Repro/Transforms/OperandPrecision.h"
#include "Dialect/Repro/Transforms/Passes.h"
#include "dialects/Repro/IR/TensorBuilders.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROQUANTIZECONTRACTIONS
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

static constexpr StringLiteral kPrecision = "repro.precision";
static constexpr StringLiteral kSides[] = {"left", "right"};
static constexpr StringLiteral kRandom[] = {"seed", "step"};
/// (Q6) The largest length of a history, and the largest magnitude of a margin.
static constexpr int64_t kMostHistory = 65536, kMostMargin = 32;

//===----------------------------------------------------------------------===//
// The attribute
//===----------------------------------------------------------------------===//

namespace {
/// The requested precision of a factor.
struct Request {
  OperandPrecision precision;
  std::optional<DelayedScaling> delayed;
  /// The number of a forward contraction, or -1. If it is not -1, the factor
  /// reads the values that factor `forwardSide` of that contraction reads.
  int64_t forward = -1;
  unsigned forwardSide = 0;
};
} // namespace

static bool isNumberFormat(Attribute format, bool orTF32 = true) {
  auto type = dyn_cast_if_present<TypeAttr>(format);
  return type && (isa<BFloat16Type, Float16Type>(type.getValue()) ||
                  (orTF32 && isa<FloatTF32Type>(type.getValue())));
}

/// Reports an error if the dictionary has a name that is not in `names`.
static LogicalResult verifyNames(FoldOp fold, DictionaryAttr dictionary,
                                 ArrayRef<StringRef> names) {
  for (NamedAttribute entry : dictionary)
    if (!llvm::is_contained(names, entry.getName().getValue()))
      return fold.emitError("unknown '")
             << entry.getName().getValue() << "' in '" << kPrecision << "'";
  return success();
}

/// (Q6) Reads the dictionary that defines how a factor's scale follows from the
/// amax of earlier steps.
static FailureOr<DelayedScaling> readDelayed(FoldOp fold, Attribute given) {
  auto asked = dyn_cast<DictionaryAttr>(given);
  if (!asked)
    return fold.emitError("expected a dictionary as 'delayed', got ") << given;
  if (failed(verifyNames(fold, asked,
                         {"name", "history", "margin", "most_recent"})))
    return failure();
  DelayedScaling scaling;
  scaling.name = asked.getAs<StringAttr>("name");
  if (!scaling.name || scaling.name.empty())
    return fold.emitError("(Q6) expected the name of a scale, got ") << given;
  auto readNumber = [&](StringRef name, int64_t least, int64_t most,
                        int64_t &number) -> LogicalResult {
    if (!asked.contains(name))
      return success();
    auto value = asked.getAs<IntegerAttr>(name);
    if (!value || !value.getType().isInteger(64) || value.getInt() < least ||
        value.getInt() > most)
      return fold.emitError("(Q6) expected a ")
             << name << " from " << least << " to " << most << ", got "
             << asked.get(name);
    number = value.getInt();
    return success();
  };
  if (failed(readNumber("history", 1, kMostHistory, scaling.history)) ||
      failed(readNumber("margin", -kMostMargin, kMostMargin, scaling.margin)))
    return failure();
  Attribute flag = asked.get("most_recent");
  if (flag && !isa<UnitAttr>(flag))
    return fold.emitError("expected no value of 'most_recent', got ") << flag;
  scaling.isMostRecent = bool(flag);
  return scaling;
}

static FailureOr<Request> readRequest(FoldOp fold, Attribute attribute) {
  auto asked = dyn_cast<DictionaryAttr>(attribute);
  if (!asked)
    return fold.emitError("expected a dictionary for a factor, got ")
           << attribute;
  if (failed(verifyNames(fold, asked,
                         {"format", "hadamard", "hadamard_bf16", "amax_of_rows",
                          "delayed", "forward"})))
    return failure();
  Request request;
  if (Attribute forward = asked.get("forward")) {
    auto array = dyn_cast<DenseI64ArrayAttr>(forward);
    ArrayRef<int64_t> place = array ? array.asArrayRef() : ArrayRef<int64_t>();
    if (asked.size() != 1 || place.size() != 2 || place[0] < 0 ||
        place[1] < 0 || place[1] > 1)
      return fold.emitError("expected only 'forward', with the number of a "
                            "contraction and 0 or 1");
    request.forward = place[0];
    request.forwardSide = place[1];
    return request;
  }
  OperandPrecision &precision = request.precision;
  precision.format = asked.get("format");
  if (!isNumberFormat(precision.format) && !precision.getBlockFormat())
    return fold.emitError(
               "expected bf16, f16, tf32 or a format of blocks, got ")
           << precision.format;
  if (Attribute given = asked.get("hadamard")) {
    auto signs = dyn_cast<DenseI64ArrayAttr>(given);
    if (!signs || (signs.size() != 16 && signs.size() != 32) ||
        llvm::any_of(signs.asArrayRef(),
                     [](int64_t sign) { return sign != 1 && sign != -1; }))
      return fold.emitError("(Q5) expected 16 or 32 signs, 1 or -1, got ")
             << given;
    precision.signs.assign(signs.asArrayRef().begin(),
                           signs.asArrayRef().end());
  }
  for (StringRef flag : {"hadamard_bf16", "amax_of_rows"})
    if (Attribute given = asked.get(flag); given && !isa<UnitAttr>(given))
      return fold.emitError("expected no value of '")
             << flag << "', got " << given;
  precision.toBF16 = asked.contains("hadamard_bf16");
  precision.hasAmaxOfRows = asked.contains("amax_of_rows");
  BlockFormatAttr blocks = precision.getBlockFormat();
  if (precision.hasAmaxOfRows &&
      (!blocks || !isa<TwoLevelScaleAttr>(blocks.getScale())))
    return fold.emitError("(Q2) expected a scale of two levels with an amax of "
                          "each row");
  Attribute delayed = asked.get("delayed");
  if (bool(delayed) != (blocks && isa<GivenScaleAttr>(blocks.getScale())))
    return fold.emitError("(Q6) expected 'delayed' for each format under a "
                          "given scale, and only for these");
  if (delayed) {
    FailureOr<DelayedScaling> scaling = readDelayed(fold, delayed);
    if (failed(scaling))
      return failure();
    request.delayed = *scaling;
  }
  return request;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct QuantizeContractions
    : public repro::impl::ReproQuantizeContractionsBase<QuantizeContractions> {
  using ReproQuantizeContractionsBase::ReproQuantizeContractionsBase;

  void runOnOperation() override {
    auto functions = getOperation().getOps<func::FuncOp>();
    for (func::FuncOp function : llvm::make_early_inc_range(functions))
      if (failed(run(function)))
        return signalPassFailure();
  }

private:
  /// A contraction as it is before the pass changes it.
  struct Contraction {
    FoldOp fold;
    std::array<unsigned, 2> inputs;
    std::array<Value, 2> operands;
    std::array<std::optional<Request>, 2> requests;
    Attribute result;
    /// (Q4) The step of the block contraction that replaces the fold;
    /// std::nullopt if the fold stays.
    std::optional<BlockStep> step;
    FdpaAttr accumulator; ///< (M5) null for exact dot products
  };
  using Key = std::pair<Value, Attribute>;

  LogicalResult run(func::FuncOp function);
  FailureOr<Contraction> read(FoldOp fold);
  LogicalResult findRandom(func::FuncOp function);
  FailureOr<BlockArgument> addState(func::FuncOp function, const Twine &name,
                                    ArrayRef<int64_t> shape, Type element);
  LogicalResult addRandom(func::FuncOp function);
  LogicalResult addScales(func::FuncOp function);
  void updateScales(func::FuncOp function);
  FailureOr<Value> getValues(unsigned number, unsigned side);
  Key getKey(const Contraction &contraction, unsigned side);
  FailureOr<Value> create(const Contraction &contraction, unsigned side);
  FailureOr<QuantizedOperand> quantize(const Contraction &contraction,
                                       unsigned side);
  void replace(const Contraction &contraction, unsigned side, Value values);

  std::vector<Contraction> contractions;
  /// The rounded values and the quantized operands that have been created,
  /// which factors with equal keys (`getKey`) share.
  llvm::DenseMap<Key, Value> created;
  llvm::DenseMap<Key, QuantizedOperand> quantized;
  RandomSites sites;
  /// (Q6) The delayed scales by name, in the order of first use.
  llvm::MapVector<StringAttr, DelayedScale> scales;
};
} // namespace

FailureOr<QuantizeContractions::Contraction>
QuantizeContractions::read(FoldOp fold) {
  ContractionBody body = *getContraction(fold);
  Contraction contraction;
  contraction.fold = fold;
  contraction.inputs = {body.x.inputs.front(), body.y.inputs.front()};
  for (unsigned side : {0, 1})
    contraction.operands[side] = fold.getInputs()[contraction.inputs[side]];
  Attribute given = fold->getAttr(kPrecision);
  if (!given)
    return contraction;
  auto asked = dyn_cast<DictionaryAttr>(given);
  if (!asked)
    return fold.emitError("expected a dictionary as '")
           << kPrecision << "', got " << given;
  if (failed(verifyNames(fold, asked,
                         {"left", "right", "result", "blocks", "accumulator"})))
    return failure();
  if (contraction.inputs[0] == contraction.inputs[1])
    return fold.emitError("expected two factors, got the square of one");
  for (unsigned side : {0, 1}) {
    if (!asked.contains(kSides[side]))
      continue;
    auto type = cast<RankedTensorType>(contraction.operands[side].getType());
    if (!type.hasStaticShape())
      return fold.emitError("expected operands of static shape, got ") << type;
    if (getMovedFrom(contraction.operands[side]).getDefiningOp<DequantizeOp>())
      return fold.emitError("expected operands that are not in blocks yet");
    FailureOr<Request> request = readRequest(fold, asked.get(kSides[side]));
    if (failed(request))
      return failure();
    contraction.requests[side] = *request;
  }
  contraction.result = asked.get("result");
  if (contraction.result && !isNumberFormat(contraction.result))
    return fold.emitError("expected a result of bf16, f16 or tf32, got ")
           << contraction.result;
  if (Attribute given = asked.get("blocks")) {
    auto name = dyn_cast<StringAttr>(given);
    contraction.step = symbolizeBlockStep(name ? name.getValue() : "");
    if (!contraction.step)
      return fold.emitError("(Q4) expected blocks that are \"fused\", "
                            "\"split\" or \"scaled\", got ")
             << given;
    for (const auto &request : contraction.requests)
      if (!request || !request->precision.getBlockFormat())
        return fold.emitError("(Q4) expected formats of blocks of both "
                              "factors");
  }
  if (Attribute given = asked.get("accumulator")) {
    contraction.accumulator = dyn_cast<FdpaAttr>(given);
    if (!contraction.accumulator || !contraction.step)
      return fold.emitError("(M5) expected #repro.fdpa with 'blocks', got ")
             << given;
  }
  return contraction;
}

/// (R1) Finds the first unused site and, for stochastic rounding, the seed and
/// the step counter. Adds these to the state if they are missing.
LogicalResult QuantizeContractions::findRandom(func::FuncOp function) {
  function.walk([&](Operation *op) {
    auto site = op->getAttrOfType<IntegerAttr>("site");
    if (isa<RandomOp, QuantizeOp>(op) && site)
      sites.next = std::max(sites.next, site.getInt() + 1);
  });
  if (llvm::none_of(contractions, [](const Contraction &contraction) {
        return llvm::any_of(contraction.requests, [](const auto &request) {
          return request && request->precision.isStochastic();
        });
      }))
    return success();
  auto count = function->getAttrOfType<IntegerAttr>("repro.num_state");
  int64_t numState = count ? count.getInt() : 0;
  SmallVector<int64_t> places(random.begin(), random.end());
  if (places.empty()) {
    if (failed(addRandom(function)))
      return failure();
    places = {numState, numState + 1};
  }
  auto scalar = RankedTensorType::get({}, IntegerType::get(&getContext(), 64));
  if (places.size() != 2 || llvm::any_of(places, [&](int64_t place) {
        return place < 0 || place >= int64_t(function.getNumArguments()) ||
               function.getArgument(place).getType() != scalar;
      }))
    return function.emitError("(R1) expected the positions of seed and step, "
                              "i64 of shape []");
  // In a microbatch (B1), the seed and the step counter are not state.
  if (places[1] < numState &&
      function.getBody().front().getTerminator()->getOperand(places[1]) ==
          function.getArgument(places[1]))
    return function.emitError("(R1) expected a step that counts, got one that "
                              "stays: state #")
           << places[1];
  auto b = ImplicitLocOpBuilder::atBlockBegin(function.getLoc(),
                                              &function.getBody().front());
  sites.seed = tensor::ExtractOp::create(b, function.getArgument(places[0]),
                                         ValueRange());
  sites.step = tensor::ExtractOp::create(b, function.getArgument(places[1]),
                                         ValueRange());
  return success();
}

/// Appends to the state a tensor that the step does not change.
FailureOr<BlockArgument> QuantizeContractions::addState(func::FuncOp function,
                                                        const Twine &name,
                                                        ArrayRef<int64_t> shape,
                                                        Type element) {
  Builder attributes(&getContext());
  auto count = function->getAttrOfType<IntegerAttr>("repro.num_state");
  unsigned position = count ? count.getInt() : 0;
  auto type = RankedTensorType::get(shape, element);
  DictionaryAttr named = attributes.getDictionaryAttr(
      attributes.getNamedAttr("repro.name", attributes.getStringAttr(name)));
  if (failed(
          function.insertArgument(position, type, named, function.getLoc())) ||
      failed(function.insertResult(position, type, named)))
    return failure();
  BlockArgument argument = function.getArgument(position);
  function.getBody().front().getTerminator()->insertOperands(
      position, ValueRange(argument));
  function->setAttr("repro.num_state",
                    attributes.getI64IntegerAttr(position + 1));
  return argument;
}

/// Sets the value that a state has after the step.
static void setNext(Value state, Value next) {
  unsigned position = cast<BlockArgument>(state).getArgNumber();
  state.getParentBlock()->getTerminator()->setOperand(position, next);
}

/// Adds a constant seed and a step counter to the state.
LogicalResult QuantizeContractions::addRandom(func::FuncOp function) {
  Type i64 = IntegerType::get(&getContext(), 64);
  FailureOr<BlockArgument> seed = addState(function, kRandom[0], {}, i64);
  FailureOr<BlockArgument> step = addState(function, kRandom[1], {}, i64);
  if (failed(seed) || failed(step))
    return failure();
  ImplicitLocOpBuilder b(function.getLoc(),
                         function.getBody().front().getTerminator());
  Value one = arith::ConstantOp::create(b, b.getI64IntegerAttr(1));
  setNext(*step, mapElements(b, {}, i64, *step, {},
                             [&](ImplicitLocOpBuilder &b, ValueRange x) {
                               return arith::AddIOp::create(b, x[0], one);
                             }));
  return success();
}

/// (Q6) Adds the delayed scales and their histories to the state.
LogicalResult QuantizeContractions::addScales(func::FuncOp function) {
  for (Contraction &contraction : contractions)
    for (std::optional<Request> &request : contraction.requests) {
      if (!request || !request->delayed)
        continue;
      const DelayedScaling &scaling = *request->delayed;
      Type element = request->precision.getBlockFormat().getElement();
      auto [known, isNew] = scales.try_emplace(
          scaling.name, DelayedScale{scaling, element, {}, {}, {}});
      if (!isNew && (known->second.scaling != scaling ||
                     known->second.element != element))
        return contraction.fold.emitError("(Q6) expected one way to the scale ")
               << scaling.name << " for elements of one type";
    }
  Type f32 = Float32Type::get(&getContext());
  for (auto &[name, scale] : scales) {
    if (int64_t length = scale.scaling.history) {
      FailureOr<BlockArgument> history =
          addState(function, "amax_history." + name.getValue(), {length}, f32);
      if (failed(history))
        return failure();
      scale.history = *history;
    }
    FailureOr<BlockArgument> found =
        addState(function, "scale." + name.getValue(), {}, f32);
    if (failed(found))
      return failure();
    scale.scale = *found;
  }
  // `scales` no longer changes, so pointers to its entries stay valid.
  for (Contraction &contraction : contractions)
    for (std::optional<Request> &request : contraction.requests)
      if (request && request->delayed)
        request->precision.delayed =
            &scales.find(request->delayed->name)->second;
  return success();
}

void QuantizeContractions::updateScales(func::FuncOp function) {
  ImplicitLocOpBuilder b(function.getLoc(),
                         function.getBody().front().getTerminator());
  for (auto &[name, scale] : scales) {
    if (!scale.history)
      continue;
    auto [history, next] = scale.createNext(b);
    setNext(scale.history, history);
    setNext(scale.scale, next);
  }
}

/// Returns a key that is equal for factors with equal values: blocks and
/// transforms depend on the layout, but elementwise rounding does not.
QuantizeContractions::Key
QuantizeContractions::getKey(const Contraction &contraction, unsigned side) {
  FoldOp fold = contraction.fold;
  const OperandPrecision &precision = contraction.requests[side]->precision;
  Value operand = contraction.operands[side];
  if (!precision.getBlockFormat() && precision.signs.empty())
    return {operand, precision.format};
  OperandLayout layout = getLayout(fold, side);
  Builder builder(&getContext());
  auto asked = fold->getAttrOfType<DictionaryAttr>(kPrecision);
  return {operand,
          builder.getArrayAttr({asked.get(kSides[side]),
                                builder.getDenseI64ArrayAttr(layout.batch),
                                builder.getDenseI64ArrayAttr(layout.columns)})};
}

/// Returns the values that a factor reads after this pass.
FailureOr<Value> QuantizeContractions::getValues(unsigned number,
                                                 unsigned side) {
  const Contraction &contraction = contractions[number];
  const std::optional<Request> &request = contraction.requests[side];
  if (!request)
    return contraction.operands[side];
  if (request->forward < 0)
    return create(contraction, side);
  FoldOp fold = contraction.fold;
  const Contraction *first = request->forward < int64_t(contractions.size())
                                 ? &contractions[request->forward]
                                 : nullptr;
  const std::optional<Request> *own =
      first ? &first->requests[request->forwardSide] : nullptr;
  if (!own || (*own && (*own)->forward >= 0))
    return fold.emitError("expected the number of a contraction with values of "
                          "its own, got ")
           << request->forward;
  if (*own && !(*own)->precision.signs.empty())
    return fold.emitError("(Q5) the values of the forward pass cannot be used "
                          "again: they are those of a transform");
  FailureOr<Value> values = getValues(request->forward, request->forwardSide);
  Value from = first->operands[request->forwardSide];
  Value to = contraction.operands[side];
  if (failed(values) || from == to)
    return values;
  ImplicitLocOpBuilder b(fold.getLoc(), fold);
  if (!first->fold->isBeforeInBlock(fold))
    return fold.emitError("expected a contraction before this one, got ")
           << request->forward;
  Value moved =
      moveAlike(b, convertElements(b, *values, b.getF32Type()), from, to);
  if (!moved)
    return fold.emitError("the values of the forward pass cannot be used "
                          "again: more than permutations and reshapes is "
                          "between them");
  return moved;
}

/// Quantizes a factor. The codes are created right after the operand, because
/// another contraction that reads the operand may precede this contraction.
FailureOr<QuantizedOperand>
QuantizeContractions::quantize(const Contraction &contraction, unsigned side) {
  Key key = getKey(contraction, side);
  if (auto found = quantized.find(key); found != quantized.end())
    return found->second;
  FoldOp fold = contraction.fold;
  Value operand = contraction.operands[side];
  const OperandPrecision &precision = contraction.requests[side]->precision;
  ImplicitLocOpBuilder b(fold.getLoc(), &getContext());
  b.setInsertionPointAfterValue(
      precision.isStochastic() && !operand.getDefiningOp() ? sites.step
                                                           : operand);
  FailureOr<QuantizedOperand> found = quantizeOperand(
      b, fold, operand, precision, getLayout(fold, side), sites);
  if (succeeded(found))
    quantized[key] = *found;
  return found;
}

FailureOr<Value> QuantizeContractions::create(const Contraction &contraction,
                                              unsigned side) {
  FoldOp fold = contraction.fold;
  const OperandPrecision &precision = contraction.requests[side]->precision;
  Key key = getKey(contraction, side);
  // (Q6) With a delayed scale, the values do not depend on the layout, except
  // for random bits, which depend on an element's position.
  if (precision.delayed && precision.signs.empty() && !precision.isStochastic())
    key.second =
        fold->getAttrOfType<DictionaryAttr>(kPrecision).get(kSides[side]);
  Value &values = created[key];
  if (values)
    return values;
  ImplicitLocOpBuilder b(fold.getLoc(), &getContext());
  if (precision.getBlockFormat()) {
    FailureOr<QuantizedOperand> blocks = quantize(contraction, side);
    if (failed(blocks))
      return failure();
    b.setInsertionPointAfterValue(blocks->codes);
    return values = dequantizeOperand(b, *blocks);
  }
  Value operand = contraction.operands[side];
  b.setInsertionPointAfterValue(operand);
  FailureOr<Value> found =
      roundOperand(b, fold, operand, precision, getLayout(fold, side));
  if (succeeded(found))
    values = *found;
  return found;
}

/// (Q4) Returns the dimensions of a fold that is a matrix product, in the order
/// batch, rows of the first factor, rows of the second factor.
static FailureOr<SmallVector<unsigned>>
getResultDims(FoldOp fold, ArrayRef<OperandLayout> layouts) {
  ContractionBody body = *getContraction(fold);
  SmallVector<AffineMap> maps = fold.getIndexingMapsArray();
  SmallVector<unsigned> dims;
  llvm::SmallBitVector isKnown(maps.back().getNumDims());
  auto add = [&](unsigned side, ArrayRef<int64_t> places, bool isOfResult) {
    AffineMap map = maps[(side ? body.y : body.x).inputs.front()];
    for (int64_t place : places) {
      auto dim = dyn_cast<AffineDimExpr>(map.getResult(place));
      if (!dim || isKnown[dim.getPosition()])
        return false;
      isKnown.set(dim.getPosition());
      if (isOfResult)
        dims.push_back(dim.getPosition());
    }
    return true;
  };
  AffineMap result = maps.back();
  if (!add(0, layouts[0].batch, true) || !add(0, layouts[0].rows, true) ||
      !add(1, layouts[1].rows, true) || !add(0, layouts[0].columns, false) ||
      !isKnown.all() || !result.isProjectedPermutation() ||
      result.getNumResults() != dims.size() ||
      llvm::any_of(dims,
                   [&](unsigned dim) { return !result.isFunctionOfDim(dim); }))
    return fold.emitError("(Q4) expected a product of matrices");
  return dims;
}

/// (M5) Checks that the scales of both factors can scale products: each is a
/// power of two or an f8E4M3FN scale of one level, or both have two levels.
static LogicalResult verifyScaled(FoldOp fold,
                                  ArrayRef<QuantizedOperand> operands) {
  auto isFactor = [](const QuantizedOperand &operand) {
    Attribute scale = operand.format.getScale();
    auto quotient = dyn_cast<QuotientScaleAttr>(scale);
    return isa<PowerScaleAttr, TwoLevelScaleAttr>(scale) ||
           (quotient && quotient.getLevels() == 1);
  };
  auto isOfTensor = [](const QuantizedOperand &operand) {
    return bool(operand.tensorScale);
  };
  if (!llvm::all_of(operands, isFactor) ||
      isOfTensor(operands[0]) != isOfTensor(operands[1]))
    return fold.emitError("(M5) expected scales that are powers of two or "
                          "f8E4M3FN of one level, or two levels of both "
                          "factors, got ")
           << operands[0].format.getScale() << " and "
           << operands[1].format.getScale();
  for (const QuantizedOperand &operand : operands)
    if (isOfTensor(operand) &&
        cast<RankedTensorType>(operand.tensorScale.getType()).getRank())
      return fold.emitError("(M5) expected the amax of a whole tensor with "
                            "scales of two levels, got that of each row");
  return success();
}

/// (Q9) Returns init + total * ((A * A') / (36 * largest * largest')) for two
/// factors with scales of two levels. A and A' are the scales of the whole
/// tensors.
static Value addTotal(ImplicitLocOpBuilder &b, Value init, Value total,
                      ArrayRef<QuantizedOperand> operands) {
  float divisor = 36;
  for (const QuantizedOperand &operand : operands)
    divisor *= cast<TwoLevelScaleAttr>(operand.format.getScale()).getLargest();
  auto type = cast<RankedTensorType>(init.getType());
  AffineMap all = b.getMultiDimIdentityMap(type.getRank());
  AffineMap none = AffineMap::get(type.getRank(), 0, b.getContext());
  return mapElements(
      b, type.getShape(), b.getF32Type(),
      {init, total, operands[0].tensorScale, operands[1].tensorScale},
      {all, all, none, none}, [&](ImplicitLocOpBuilder &b, ValueRange x) {
        Value factor = arith::DivFOp::create(
            b, arith::MulFOp::create(b, x[2], x[3]),
            arith::ConstantOp::create(b, b.getF32FloatAttr(divisor)));
        Value scaled = arith::MulFOp::create(b, x[1], factor);
        return Value(arith::AddFOp::create(b, x[0], scaled));
      });
}

/// (Q4), (M5) Contracts two quantized factors and permutes the result to the
/// dimension order of the fold's result.
static FailureOr<Value> contractBlocks(FoldOp fold, BlockStep step,
                                       FdpaAttr accumulator,
                                       ArrayRef<QuantizedOperand> operands) {
  bool isScaled = step == BlockStep::scaled;
  if (isScaled && failed(verifyScaled(fold, operands)))
    return failure();
  OperandLayout layouts[] = {getLayout(fold, 0), getLayout(fold, 1)};
  FailureOr<SmallVector<unsigned>> dims = getResultDims(fold, layouts);
  if (failed(dims))
    return failure();
  ImplicitLocOpBuilder b(fold.getLoc(), fold);
  BlockFactor factors[2];
  for (unsigned side : {0, 1})
    factors[side] =
        createBlockFactor(b, operands[side], layouts[side], isScaled);
  if (factors[0].block != factors[1].block)
    return fold.emitError("(Q4) expected blocks of one size along K, got ")
           << factors[0].block << " and " << factors[1].block;
  bool isInteger = getElementTypeOrSelf(factors[0].codes.getType()).isInteger();
  if (isInteger != getElementTypeOrSelf(factors[1].codes.getType()).isInteger())
    return fold.emitError("(Q4) expected codes of mxint8 of both factors or of "
                          "none");
  Value init = fold.getOutputs()[0];
  auto type = cast<RankedTensorType>(init.getType());
  if (!type.getElementType().isF32())
    return fold.emitError("(Q4) expected a result of f32, got ") << type;
  // Permute between [batch.., rows.., rows..] and the dimensions of the result.
  AffineMap map = fold.getIndexingMapsArray().back();
  SmallVector<int64_t> order, back, sizes;
  for (unsigned dim : *dims) {
    order.push_back(*map.getResultPosition(b.getAffineDimExpr(dim)));
    sizes.push_back(type.getDimSize(order.back()));
  }
  back.resize(order.size());
  for (auto [place, dim] : llvm::enumerate(order))
    back[dim] = place;
  SmallVector<int64_t> shape(
      cast<RankedTensorType>(factors[0].codes.getType()).getShape());
  shape.back() = cast<RankedTensorType>(factors[1].codes.getType())
                     .getDimSize(shape.size() - 2);
  Value outputs = reshape(b, transpose(b, init, order), shape);
  Value added;
  if (isScaled && operands[0].tensorScale) {
    added = outputs;
    outputs = tensor::SplatOp::create(
        b, arith::ConstantOp::create(b, b.getF32FloatAttr(0)),
        RankedTensorType::get(shape, b.getF32Type()));
  }
  auto product = BlockContractionOp::create(
      b, TypeRange(outputs.getType()),
      ValueRange{factors[0].codes, factors[0].scales, factors[1].codes,
                 factors[1].scales},
      outputs, step, factors[0].block,
      b.getDenseI64ArrayAttr({factors[0].scaleRows, factors[1].scaleRows}),
      isInteger ? b.getI64IntegerAttr(12) : IntegerAttr(),
      /*magnitudes=*/DenseI64ArrayAttr(), accumulator,
      /*elements=*/ArrayAttr());
  Value result = product.getResult(0);
  if (added)
    result = addTotal(b, added, result, operands);
  return transpose(b, reshape(b, result, sizes), back);
}

/// Makes a factor read `values`. The fold's body extends values of types other
/// than f32 (K1).
void QuantizeContractions::replace(const Contraction &contraction,
                                   unsigned side, Value values) {
  FoldOp fold = contraction.fold;
  unsigned input = contraction.inputs[side];
  fold->setOperand(input, values);
  BlockArgument element = fold.getBody()->getArgument(input);
  Type type = getElementTypeOrSelf(values.getType());
  if (element.getType() == type)
    return;
  for (Operation *user : llvm::make_early_inc_range(element.getUsers()))
    if (isa<arith::ExtFOp>(user)) {
      user->getResult(0).replaceAllUsesWith(element);
      user->erase();
    }
  element.setType(type);
  if (type.isF32())
    return;
  OpBuilder builder = OpBuilder::atBlockBegin(fold.getBody());
  auto extended = arith::ExtFOp::create(builder, fold.getLoc(),
                                        builder.getF32Type(), element);
  element.replaceAllUsesExcept(extended, extended);
}

/// Makes the users of `result` read its rounded value instead.
static void roundResult(Value result, Type type) {
  if (getElementTypeOrSelf(result.getType()) == type)
    return;
  ImplicitLocOpBuilder b(result.getLoc(), result.getContext());
  b.setInsertionPointAfterValue(result);
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : result.getUses())
    uses.push_back(&use);
  Value rounded =
      convertElements(b, roundTensor(b, result, type), b.getF32Type());
  for (OpOperand *use : uses)
    use->set(rounded);
}

LogicalResult QuantizeContractions::run(func::FuncOp function) {
  contractions.clear();
  created.clear();
  quantized.clear();
  sites = {};
  scales.clear();
  for (FoldOp fold : getContractions(function)) {
    FailureOr<Contraction> contraction = read(fold);
    if (failed(contraction))
      return failure();
    contractions.push_back(*contraction);
  }
  WalkResult walked = function.walk([&](FoldOp fold) {
    if (!fold->hasAttr(kPrecision) ||
        llvm::any_of(contractions, [&](const Contraction &contraction) {
          return contraction.fold == fold;
        }))
      return WalkResult::advance();
    fold.emitError("expected '") << kPrecision
                                 << "' of a contraction (K1) "
                                    "with accumulators of f32";
    return WalkResult::interrupt();
  });
  if (walked.wasInterrupted() || failed(findRandom(function)) ||
      failed(addScales(function)))
    return failure();
  SmallVector<std::array<Value, 2>> values(contractions.size());
  std::vector<std::array<QuantizedOperand, 2>> blocks(contractions.size());
  for (auto [number, contraction] : llvm::enumerate(contractions)) {
    const auto &requests = contraction.requests;
    // (Q5) The Hadamard transforms of the two factors cancel out only if they
    // are the same transform.
    if ((requests[0] ? requests[0]->precision.signs : SmallVector<int64_t>()) !=
        (requests[1] ? requests[1]->precision.signs : SmallVector<int64_t>()))
      return contraction.fold.emitError(
          "(Q5) expected the same transform of both factors");
    for (unsigned side : {0, 1}) {
      if (contraction.step) {
        FailureOr<QuantizedOperand> found = quantize(contraction, side);
        if (failed(found))
          return failure();
        blocks[number][side] = *found;
        continue;
      }
      FailureOr<Value> found = getValues(number, side);
      if (failed(found))
        return failure();
      values[number][side] = *found;
    }
  }
  for (auto [number, contraction] : llvm::enumerate(contractions)) {
    FoldOp fold = contraction.fold;
    Value result = fold.getResult(0);
    if (contraction.step) {
      FailureOr<Value> product = contractBlocks(
          fold, *contraction.step, contraction.accumulator, blocks[number]);
      if (failed(product))
        return failure();
      result.replaceAllUsesWith(*product);
      result = *product;
    } else {
      for (unsigned side : {0, 1})
        if (contraction.requests[side])
          replace(contraction, side, values[number][side]);
    }
    if (contraction.result) {
      Type element = getElementTypeOrSelf(result.getType());
      Type type = cast<TypeAttr>(contraction.result).getValue();
      if (!element.isF32() && element != type)
        return fold.emitError("expected a result of f32 to round, got ")
               << element;
      roundResult(result, type);
    }
    if (contraction.step)
      fold.erase();
    else
      fold->removeAttr(kPrecision);
  }
  updateScales(function);
  return success();
}
