//===- StructuredOps.cpp - arg_reduce, scatter, scan, sort and others -----===//
//-*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StructuredOpImpl.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::repro;

//===----------------------------------------------------------------------===//
// Shared by all destination-style operations
//===----------------------------------------------------------------------===//

void structured::getStructuredEffects(DestinationStyleOpInterface op,
                                      Effects &effects) {
  // (E1) A scatter checks its indices, so it must stay even if its result is
  // unused.
  if (isa<ScatterOp>(op) && op.hasPureTensorSemantics())
    effects.emplace_back(MemoryEffects::Write::get());
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    effects.emplace_back(MemoryEffects::Read::get(), &operand, /*stage=*/0,
                         /*effectOnFullRegion=*/true,
                         SideEffects::DefaultResource::get());
    if (op.isDpsInit(&operand))
      effects.emplace_back(MemoryEffects::Write::get(), &operand, /*stage=*/0,
                           /*effectOnFullRegion=*/true,
                           SideEffects::DefaultResource::get());
  }
}

LogicalResult
structured::reifyStructuredShapes(DestinationStyleOpInterface op,
                                  OpBuilder &builder,
                                  ReifiedRankedShapedTypeDims &shapes) {
  if (!op.hasPureTensorSemantics())
    return failure();
  for (Value init : op.getDpsInits())
    shapes.push_back(tensor::getMixedSizes(builder, op.getLoc(), init));
  return success();
}

LogicalResult structured::bufferizeStructured(
    DestinationStyleOpInterface op, RewriterBase &rewriter,
    const bufferization::BufferizationOptions &options,
    bufferization::BufferizationState &state) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(op);
  if (op.hasPureBufferSemantics())
    return success();
  SmallVector<Value> operands, inits;
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (isa<TensorType>(value.getType())) {
      FailureOr<Value> buffer =
          bufferization::getBuffer(rewriter, value, options, state);
      if (failed(buffer))
        return failure();
      value = *buffer;
    }
    operands.push_back(value);
    if (op.isDpsInit(&operand))
      inits.push_back(value);
  }
  rewriter.setInsertionPoint(op);
  Operation *bufferized =
      cloneWithoutRegions(rewriter, op, TypeRange{}, operands);
  for (auto [from, to] :
       llvm::zip_equal(op->getRegions(), bufferized->getRegions()))
    rewriter.inlineRegionBefore(from, to, to.begin());
  bufferization::replaceOpWithBufferizedValues(rewriter, op, inits);
  return success();
}

/// (V1) Whether operands of structured operations may have elements of this
/// type: signless integers of 1 to 64 bits, index, f64, f32 and storage types.
static bool isElementType(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type))
    return integer.isSignless() && integer.getWidth() >= 1 &&
           integer.getWidth() <= 64;
  return isa<IndexType, Float64Type, Float32Type, BFloat16Type, Float16Type,
             Float8E4M3FNType, Float8E5M2Type>(type);
}

/// Whether the type is a strided memref, or a ranked tensor that has no
/// encoding, and `isElement` is true for its element type.
static bool isArrayType(Type type, function_ref<bool(Type)> isElement) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return !tensor.getEncoding() && isElement(tensor.getElementType());
  auto memref = dyn_cast<MemRefType>(type);
  return memref && memref.isStrided() && isElement(memref.getElementType());
}

static LogicalResult verifyOperands(DestinationStyleOpInterface op,
                                    function_ref<bool(Type)> isElement) {
  for (OpOperand &operand : op->getOpOperands()) {
    Type type = operand.get().getType();
    if (!isArrayType(type, isElement) &&
        (op.isDpsInit(&operand) || !isElement(type)))
      return op->emitOpError("(V1) operand #")
             << operand.getOperandNumber() << " is of type " << type
             << ", expected a ranked tensor without encoding"
             << (op.isDpsInit(&operand) ? "" : ", a scalar")
             << " or a strided memref, of signless integers of 1 to 64 bits, "
                "index, f64, f32, bf16, f16, f8E4M3FN or f8E5M2";
  }
  if (!op.hasPureTensorSemantics() && !op.hasPureBufferSemantics())
    return op->emitOpError(
        "expected operands to be all tensors or all memrefs");
  size_t expected =
      op.hasPureTensorSemantics() ? size_t(op.getNumDpsInits()) : 0;
  if (op->getNumResults() != expected)
    return op->emitOpError("expected ")
           << expected << " results, one per tensor of 'outs', got "
           << op->getNumResults();
  for (auto [index, result] : llvm::enumerate(op->getResults()))
    if (Type init = op.getDpsInitOperand(index)->get().getType();
        result.getType() != init)
      return op->emitOpError("result #")
             << index << " has type " << result.getType()
             << ", expected that of its initial operand, " << init;
  return success();
}

LogicalResult
structured::verifyDestinationStyle(DestinationStyleOpInterface op) {
  return verifyOperands(op, isElementType);
}

/// Checks the number of inputs and outputs of `op` and their element types.
static LogicalResult
verifyCounts(DestinationStyleOpInterface op, unsigned inputs, unsigned outputs,
             function_ref<bool(Type)> isElement = isElementType) {
  if (unsigned(op.getNumDpsInputs()) != inputs ||
      unsigned(op.getNumDpsInits()) != outputs)
    return op->emitOpError("expected ")
           << inputs << " inputs and " << outputs << " outputs, got "
           << op.getNumDpsInputs() << " and " << op.getNumDpsInits();
  return verifyOperands(op, isElement);
}

static LogicalResult verifyDimension(Operation *op, int64_t dimension,
                                     ShapedType type) {
  if (type.getRank() == 0)
    return op->emitOpError("expected an operand with dimensions, got ") << type;
  if (dimension < 0 || dimension >= type.getRank())
    return op->emitOpError("dimension is ")
           << dimension << ", expected 0 to " << type.getRank() - 1
           << " for an operand of type " << type;
  return success();
}

static LogicalResult verifySameType(Operation *op, Twine what, Type actual,
                                    ArrayRef<int64_t> shape, Type element) {
  auto shaped = cast<ShapedType>(actual);
  if (shaped.getShape() != shape || shaped.getElementType() != element) {
    auto expected = RankedTensorType::get(shape, element);
    return op->emitOpError()
           << what << " is of type " << actual
           << ", expected shape and element type of " << expected;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// ArgReduceOp
//===----------------------------------------------------------------------===//

REPRO_STRUCTURED_OP_METHODS(ArgReduceOp)

bool ArgReduceOp::bufferizesToMemoryRead(OpOperand &operand,
                                         const bufferization::AnalysisState &) {
  return !isDpsInit(&operand);
}

LogicalResult ArgReduceOp::verify() {
  if (failed(verifyCounts(*this, 1, 2)))
    return failure();
  auto input = cast<ShapedType>(getInputs()[0].getType());
  if (failed(verifyDimension(*this, getDimension(), input)))
    return failure();
  if (input.getDimSize(getDimension()) == 0)
    return emitOpError("(D2) dimension ")
           << getDimension() << " of the input has no element";
  SmallVector<int64_t> shape(input.getShape());
  shape.erase(shape.begin() + getDimension());
  if (failed(verifySameType(*this, "output #0", getOutputs()[0].getType(),
                            shape, input.getElementType())))
    return failure();
  return verifySameType(*this, "output #1", getOutputs()[1].getType(), shape,
                        IntegerType::get(getContext(), 64));
}

//===----------------------------------------------------------------------===//
// ScatterOp
//===----------------------------------------------------------------------===//

REPRO_STRUCTURED_OP_METHODS(ScatterOp)

bool ScatterOp::bufferizesToMemoryRead(OpOperand &,
                                       const bufferization::AnalysisState &) {
  return true;
}

LogicalResult ScatterOp::verify() {
  if (failed(verifyCounts(*this, 2, 1)))
    return failure();
  auto original = cast<ShapedType>(getOutputs()[0].getType());
  auto indices = cast<ShapedType>(getIndices().getType());
  Type index = indices.getElementType();
  if ((!index.isInteger(32) && !index.isInteger(64)) ||
      indices.getRank() != 2 || indices.isDynamicDim(1))
    return emitOpError("(D1) expected indices of rank 2 with i32 or i64 "
                       "elements and a static dimension 1, got ")
           << indices;
  int64_t depth = indices.getDimSize(1);
  if (depth > original.getRank())
    return emitOpError("(D1) indices name ")
           << depth << " dimensions, but the original has rank "
           << original.getRank();
  SmallVector<int64_t> shape{indices.getDimSize(0)};
  llvm::append_range(shape, original.getShape().drop_front(depth));
  return verifySameType(*this, "updates", getUpdates().getType(), shape,
                        original.getElementType());
}

//===----------------------------------------------------------------------===//
// ScanOp
//===----------------------------------------------------------------------===//

REPRO_STRUCTURED_OP_METHODS(ScanOp)

bool ScanOp::bufferizesToMemoryRead(OpOperand &operand,
                                    const bufferization::AnalysisState &) {
  return !isDpsInit(&operand);
}

LogicalResult ScanOp::verify() {
  if (failed(verifyCounts(*this, 1, 1)))
    return failure();
  if (getCombine() == Combine::replace)
    return emitOpError("(D3) 'replace' has no prefix reduction");
  auto input = cast<ShapedType>(getInputs()[0].getType());
  if (failed(verifyDimension(*this, getDimension(), input)))
    return failure();
  return verifySameType(*this, "output #0", getOutputs()[0].getType(),
                        input.getShape(), input.getElementType());
}

//===----------------------------------------------------------------------===//
// SortOp
//===----------------------------------------------------------------------===//

REPRO_STRUCTURED_OP_METHODS(SortOp)

bool SortOp::bufferizesToMemoryRead(OpOperand &operand,
                                    const bufferization::AnalysisState &) {
  return !isDpsInit(&operand);
}

LogicalResult SortOp::verify() {
  if (getInputs().empty())
    return emitOpError("(D2) expected at least one input, the key");
  if (failed(verifyCounts(*this, getInputs().size(), getInputs().size())))
    return failure();
  auto key = cast<ShapedType>(getInputs()[0].getType());
  if (failed(verifyDimension(*this, getDimension(), key)))
    return failure();
  for (auto [index, input, output] :
       llvm::enumerate(getInputs(), getOutputs())) {
    auto type = cast<ShapedType>(input.getType());
    if (failed(verifySameType(*this, "input #" + Twine(index), type,
                              key.getShape(), type.getElementType())) ||
        failed(verifySameType(*this, "output #" + Twine(index),
                              output.getType(), key.getShape(),
                              type.getElementType())))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// BlockContractionOp
//===----------------------------------------------------------------------===//

REPRO_STRUCTURED_OP_METHODS(BlockContractionOp)

bool BlockContractionOp::bufferizesToMemoryRead(
    OpOperand &, const bufferization::AnalysisState &) {
  return true;
}

/// (Q1) Like `isElementType`, but also true for the types of codes and scales.
static bool isBlockElement(Type type) {
  return isElementType(type) || isa<Float6E3M2FNType, Float6E2M3FNType,
                                    Float4E2M1FNType, Float8E8M0FNUType>(type);
}

static bool isBlockCode(Type type) {
  return isa<Float8E4M3FNType, Float6E3M2FNType, Float6E2M3FNType,
             Float4E2M1FNType>(type);
}

/// (M2) Whether the sum of a group of products of elements of `x` and `y`, and
/// the sum of a block, fit into an i64. The two scales multiply the sum of a
/// block by less than 4, because their significands are below 2.
static bool haveGroups(FdpaAttr by, Type x, Type y) {
  int64_t kept = *by.getFraction() + 2, units = by.getGroup();
  for (Type type : {x, y}) {
    const llvm::fltSemantics &of = cast<FloatType>(type).getFloatSemantics();
    APFloat largest = APFloat::getLargest(of);
    int exponent = llvm::ilogb(largest);
    // The largest element is expressed in units of the smallest positive value.
    int unit = APFloat::semanticsMinExponent(of) -
               (int(APFloat::semanticsPrecision(of)) - 1);
    kept += exponent;
    units *= int64_t(std::ldexp(largest.convertToFloat(), -unit));
  }
  return llvm::bit_width(uint64_t(units)) + 8 <= 62 &&
         kept + llvm::bit_width(uint64_t(4 * by.getTerms())) <= 62;
}

std::array<Type, 2> BlockContractionOp::getCodeTypes() {
  if (std::optional<ArrayAttr> elements = getElements())
    return {cast<TypeAttr>((*elements)[0]).getValue(),
            cast<TypeAttr>((*elements)[1]).getValue()};
  return {getElementTypeOrSelf(getInputs()[0].getType()),
          getElementTypeOrSelf(getInputs()[2].getType())};
}

/// (M5) Checks the accumulator of a block contraction.
static LogicalResult verifyAccumulator(BlockContractionOp op) {
  FdpaAttr by = op.getAccumulatorAttr();
  bool isScaled = op.getStep() == BlockStep::scaled;
  if (!by) {
    if (isScaled)
      return op.emitOpError("(M5) expected an accumulator of scaled products");
    if (op.getElements())
      return op.emitOpError("(M5) expected no 'elements' without accumulator");
    return success();
  }
  if (op.getFractionBits())
    return op.emitOpError("(M5) expected codes of f8E4M3FN, f6 or f4 in an "
                          "accumulator, got integers");
  if (by.getChunk() || by.getStart() != SumStart::zero)
    return op.emitOpError("(M5) expected an accumulator without chunk and "
                          "start, got ")
           << by;
  auto elementOf = [&](unsigned input) {
    return getElementTypeOrSelf(op.getInputs()[input].getType());
  };
  if (std::optional<ArrayAttr> elements = op.getElements()) {
    if (elements->size() != 2 ||
        llvm::any_of(elements->getAsValueRange<TypeAttr>(),
                     [](Type type) { return !isBlockCode(type); }))
      return op.emitOpError("(M5) expected two types of codes as 'elements', "
                            "got ")
             << *elements;
    for (unsigned input : {0, 2})
      if (!isa<Float8E4M3FNType>(elementOf(input)))
        return op.emitOpError("(M5) expected f8E4M3FN that holds other codes, "
                              "got ")
               << elementOf(input);
  }
  if (!isScaled) {
    if (by.getGroup() != 1)
      return op.emitOpError("(M5) expected no groups of products but in scaled "
                            "contractions, got group = ")
             << by.getGroup();
    return success();
  }
  if (!by.getFraction() || by.getLate())
    return op.emitOpError(
               "(M5) expected an accumulator of scaled products with "
               "a fraction and not late, got ")
           << by;
  if (op.getBlock() % by.getGroup())
    return op.emitOpError("(M5) expected blocks of whole groups of ")
           << by.getGroup() << " products, got blocks of "
           << int64_t(op.getBlock());
  for (unsigned input : {1, 3})
    if (Type scale = elementOf(input);
        !isa<Float8E8M0FNUType, Float8E4M3FNType>(scale) &&
        !(op.getElements() && scale.isF32()))
      return op.emitOpError("(M5) expected scales of f8E8M0FNU or f8E4M3FN as "
                            "factors of products, got ")
             << scale;
  auto [x, y] = op.getCodeTypes();
  if (by.getGroup() > 1 && isBlockCode(x) && isBlockCode(y) &&
      !haveGroups(by, x, y))
    return op.emitOpError("(M5) expected groups of products whose sums have at "
                          "most 62 bits, got ")
           << by.getGroup() << " of " << x << " and " << y;
  return success();
}

LogicalResult BlockContractionOp::verify() {
  if (failed(verifyCounts(*this, 4, 1, isBlockElement)) ||
      failed(verifyAccumulator(*this)))
    return failure();
  // The sum of this many products fits into an i32 if the codes are i8, or i16
  // of at most 448 in magnitude, and into an f64 for other codes.
  constexpr int64_t kMostBlock = 8192;
  int64_t block = getBlock();
  if (block < 1 || block > kMostBlock)
    return emitOpError("(Q4) expected blocks of 1 to ")
           << kMostBlock << ", got " << block;
  // A stored program cannot represent larger numbers of rows.
  constexpr int64_t kMostRows = int64_t(1) << 40;
  if (getRows().size() != 2 || llvm::any_of(getRows(), [](int64_t rows) {
        return rows < 1 || rows > kMostRows;
      }))
    return emitOpError("(Q4) expected two numbers of rows from 1 to ")
           << kMostRows;
  auto output = cast<ShapedType>(getOutputs()[0].getType());
  int64_t rank = output.getRank();
  if (rank < 2)
    return emitOpError("(Q4) expected two dimensions or more, got ") << output;
  auto x = cast<ShapedType>(getInputs()[0].getType());
  if (x.getRank() != rank)
    return emitOpError("(Q4) expected codes with the number of dimensions of "
                       "the result, got ")
           << x;
  int64_t extents[] = {output.getDimSize(rank - 2),
                       output.getDimSize(rank - 1)};
  int64_t k = x.getDimSize(rank - 1);
  bool isInteger = getFractionBits().has_value();
  if (isInteger && *getFractionBits() > 64)
    return emitOpError("(Q4) expected 0 to 64 fraction bits, got ")
           << int64_t(*getFractionBits());
  if (auto magnitudes = getMagnitudes();
      magnitudes && (!isInteger || magnitudes->size() != 2 ||
                     llvm::any_of(*magnitudes, [](int64_t most) {
                       return most < 1 || most > -int64_t(INT16_MIN);
                     })))
    return emitOpError("(Q4) expected two magnitudes of integers, each 1 to ")
           << -int64_t(INT16_MIN);
  if (auto magnitudes = getMagnitudes();
      magnitudes && std::min(block, k) * (*magnitudes)[0] * (*magnitudes)[1] >
                        int64_t(INT32_MAX))
    return emitOpError("(Q4) expected magnitudes of which an i32 holds the sum "
                       "of a block's products");
  for (int side : {0, 1}) {
    StringRef name = side ? "y" : "x";
    SmallVector<int64_t> shape(output.getShape().drop_back(2));
    SmallVector<int64_t> blocks = shape;
    shape.append({extents[side], k});
    blocks.append({int64_t(llvm::divideCeil(extents[side], getRows()[side])),
                   int64_t(llvm::divideCeil(k, block))});
    Type codes = getElementTypeOrSelf(getInputs()[2 * side].getType());
    Type scales = getElementTypeOrSelf(getInputs()[2 * side + 1].getType());
    if (isInteger ? !codes.isInteger(8) && !codes.isInteger(16)
                  : !isBlockCode(codes))
      return emitOpError("(Q4) expected codes of ")
             << (isInteger ? "i8 or i16 with fraction bits, got "
                           : "f8E4M3FN, f6 or f4, or integers with fraction "
                             "bits, got ")
             << codes;
    if (!isa<Float8E8M0FNUType, Float8E4M3FNType, Float32Type>(scales))
      return emitOpError("(Q4) expected scales of f8E8M0FNU, f8E4M3FN or f32, "
                         "got ")
             << scales;
    if (failed(verifySameType(*this, "codes of " + name,
                              getInputs()[2 * side].getType(), shape, codes)) ||
        failed(verifySameType(*this, "scales of " + name,
                              getInputs()[2 * side + 1].getType(), blocks,
                              scales)))
      return failure();
  }
  return verifySameType(*this, "output #0", output, output.getShape(),
                        Float32Type::get(getContext()));
}

//===----------------------------------------------------------------------===//
// RandomOp
//===----------------------------------------------------------------------===//

REPRO_STRUCTURED_OP_METHODS(RandomOp)

bool RandomOp::bufferizesToMemoryRead(OpOperand &operand,
                                      const bufferization::AnalysisState &) {
  return !isDpsInit(&operand);
}

/// (R2) Returns the element type of a distribution.
static Type getElementType(Distribution distribution, MLIRContext *context) {
  switch (distribution) {
  case Distribution::bits:
    return IntegerType::get(context, 32);
  case Distribution::bernoulli:
    return IntegerType::get(context, 1);
  case Distribution::randint:
    return IntegerType::get(context, 64);
  case Distribution::uniform:
  case Distribution::normal:
    return Float32Type::get(context);
  }
  llvm_unreachable("every distribution has an element type");
}

LogicalResult RandomOp::verify() {
  if (failed(verifyCounts(*this, 2, 1)))
    return failure();
  for (auto [index, input] : llvm::enumerate(getInputs()))
    if (!input.getType().isSignlessInteger(64))
      return emitOpError("(R1) input #")
             << index << " is of type " << input.getType() << ", expected i64";
  if (getSite() >> 32)
    return emitOpError("(R1) site is ") << getSite() << ", expected 32 bits";
  Distribution distribution = getDistribution();
  StringRef name = stringifyDistribution(distribution);
  if (getProbability().has_value() != (distribution == Distribution::bernoulli))
    return emitOpError("(R2) expected 'probability' only with 'bernoulli'");
  if (getRange().has_value() != (distribution == Distribution::randint))
    return emitOpError("(R2) expected 'range' only with 'randint'");
  if (std::optional<APFloat> probability = getProbability())
    if (!(probability->convertToFloat() >= 0.0f &&
          probability->convertToFloat() <= 1.0f))
      return emitOpError("(R2) expected a probability of 0 to 1, got ")
             << getProbabilityAttr();
  if (std::optional<uint64_t> range = getRange())
    if (*range < 1 || *range > uint64_t(1) << 32)
      return emitOpError("(R2) expected a range of 1 to 2^32 values, got ")
             << int64_t(*range);
  Type element = getElementTypeOrSelf(getOutputs()[0].getType());
  Type expected = getElementType(distribution, getContext());
  if (element != expected)
    return emitOpError("(R2) '")
           << name << "' gives " << expected
           << ", but the output has element type " << element;
  return success();
}
