//===- DecomposeConvolution.cpp - Convolutions become folds (K2) ----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-decompose-convolution (Passes.td), run by
// lib/Pipelines/ImportPipelines.cpp: replaces each convolution by folds (K2),
// one for each stride phase. Results whose positions are equal modulo the
// number of phases have the same taps, because the same window positions meet
// an element of the dilated input.
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Transforms/Passes.h"
#include "dialects/Repro/IR/ImportedOps.h"

#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/STLExtras.h"

#include <numeric>

namespace mlir::repro {
#define GEN_PASS_DEF_REPRODECOMPOSECONVOLUTION
#include "lib/Dialect/Repro/Transforms/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

/// The maximum number of phases. Each phase becomes a separate fold.
static constexpr int64_t kMaxPhases = 4096;

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

namespace {

/// The results whose positions along a spatial dimension have the same residue.
/// A convolution without input dilation computes them: tap t of result q reads
/// element q * stride + t * dilation - low of the input.
struct Phase {
  int64_t taps = 0;   ///< if 0, the results are the initial values
  int64_t first = 0;  ///< position of the first tap in the window
  int64_t period = 1; ///< distance between the positions of taps
  int64_t dilation = 1;
  int64_t low = 0;  ///< elements of padding before the input
  int64_t high = 0; ///< padding after it; negative if it is cropped
};

/// The extents and phases of a spatial dimension.
struct Axis {
  int64_t extent; ///< extent of the input
  int64_t window; ///< extent of the kernel
  bool isReversed;
  int64_t result; ///< extent of the result
  int64_t stride; ///< distance in the input between results of one phase
  int64_t length; ///< results of each phase; the last ones may be out of range
  SmallVector<Phase> phases;
};

} // namespace

/// Returns the smallest t >= 0 with t * factor congruent to `value` modulo
/// `modulus`. `factor` and `modulus` must be coprime, and all numbers except
/// `value` must be below 2^31 in magnitude.
static int64_t solveCongruence(int64_t factor, int64_t value, int64_t modulus) {
  // Euclid's algorithm computes the inverse of the factor.
  int64_t a = factor % modulus, b = modulus, x = 1, y = 0;
  while (b != 0) {
    int64_t quotient = a / b;
    std::tie(a, b) = std::pair(b, a - quotient * b);
    std::tie(x, y) = std::pair(y, x - quotient * y);
  }
  return llvm::mod(llvm::mod(value, modulus) * llvm::mod(x, modulus), modulus);
}

/// Returns the extents and phases of a spatial dimension; std::nullopt if there
/// are too many phases.
static std::optional<Axis> getAxis(ConvolutionOp op, unsigned dim) {
  int64_t inputDilation = op.getInputDilation()[dim];
  int64_t kernelDilation = op.getKernelDilation()[dim];
  int64_t stride = op.getStrides()[dim];
  int64_t padding = op.getPaddingLow()[dim];
  Axis axis;
  axis.extent = op.getInput().getType().getDimSize(2 + dim);
  axis.window = op.getKernel().getType().getDimSize(2 + dim);
  axis.isReversed = op.getWindowReversal()[dim];
  axis.result = op.getType().getDimSize(2 + dim);
  int64_t number = inputDilation / std::gcd(stride, inputDilation);
  axis.stride = number * stride / inputDilation;
  axis.length = llvm::divideCeil(axis.result, number);
  number = std::min(number, axis.result);
  if (number > kMaxPhases)
    return std::nullopt;
  int64_t common = std::gcd(kernelDilation, inputDilation);
  for (int64_t residue = 0; residue < number; ++residue) {
    Phase &phase = axis.phases.emplace_back();
    phase.period = inputDilation / common;
    phase.dilation = kernelDilation / common;
    int64_t shift = padding - residue * stride;
    if (shift % common != 0)
      continue;
    phase.first = solveCongruence(phase.dilation, shift / common, phase.period);
    if (phase.first >= axis.window)
      continue;
    phase.taps = (axis.window - 1 - phase.first) / phase.period + 1;
    phase.low = (shift - phase.first * kernelDilation) / inputDilation;
    phase.high = (axis.length - 1) * axis.stride +
                 (phase.taps - 1) * phase.dilation - phase.low -
                 (axis.extent - 1);
  }
  return axis;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

namespace {

/// A tensor with permuted dimensions.
struct View {
  Value tensor;
  SmallVector<unsigned> dims; ///< position of each dimension in the tensor

  RankedTensorType getType() const {
    return cast<RankedTensorType>(tensor.getType());
  }
  int64_t getExtent(unsigned dim) const {
    return getType().getDimSize(dims[dim]);
  }
  /// Returns the tensor's map, given an expression for each dimension of the
  /// view.
  AffineMap getMap(unsigned numLoops, ArrayRef<AffineExpr> exprs) const {
    SmallVector<AffineExpr> results(exprs.size());
    for (auto [dim, expr] : llvm::zip_equal(dims, exprs))
      results[dim] = expr;
    return AffineMap::get(numLoops, 0, results, tensor.getContext());
  }
};

} // namespace

/// Returns the value that an operation without computation yields for each
/// element of its result: a value from outside of its body, or the argument of
/// an input. Returns null for other operations.
static Value getYielded(linalg::GenericOp op) {
  Block *body = op.getBody();
  if (op->getNumResults() != 1 || !llvm::hasSingleElement(*body) ||
      op.getNumParallelLoops() != op.getNumLoops())
    return {};
  Value yielded = body->getTerminator()->getOperand(0);
  auto argument = dyn_cast<BlockArgument>(yielded);
  bool isInit = argument && argument.getOwner() == body &&
                int64_t(argument.getArgNumber()) >= op.getNumDpsInputs();
  return isInit ? Value() : yielded;
}

/// For an operation that only permutes dimensions and keeps the last
/// `numFixed`, returns the dimension of the input for each dimension of the
/// result; std::nullopt for other operations.
static std::optional<SmallVector<unsigned>> getPermutation(linalg::GenericOp op,
                                                           unsigned numFixed) {
  if (op.getNumDpsInputs() != 1 ||
      getYielded(op) != op.getBody()->getArgument(0))
    return std::nullopt;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  if (!maps[0].isPermutation() || !maps[1].isPermutation())
    return std::nullopt;
  AffineMap fromInput = maps[1].compose(inversePermutation(maps[0]));
  SmallVector<unsigned> dims;
  for (AffineExpr expr : fromInput.getResults())
    dims.push_back(cast<AffineDimExpr>(expr).getPosition());
  for (unsigned dim = dims.size() - numFixed; dim < dims.size(); ++dim)
    if (dims[dim] != dim)
      return std::nullopt;
  return dims;
}

/// Looks through operations that permute the dimensions of `tensor` except the
/// last `numFixed`, so that an image and its transpose share one padded tensor.
static View getView(Value tensor, unsigned numFixed) {
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  View view{tensor, llvm::to_vector(llvm::seq<unsigned>(rank))};
  while (auto generic = view.tensor.getDefiningOp<linalg::GenericOp>()) {
    auto permutation = getPermutation(generic, numFixed);
    if (!permutation)
      break;
    view.tensor = generic.getInputs()[0];
    for (unsigned &dim : view.dims)
      dim = (*permutation)[dim];
  }
  return view;
}

/// Returns the scalar that every element of `tensor` equals; null if no such
/// scalar is known.
static Value getFilledScalar(OpBuilder &builder, Value tensor) {
  SplatElementsAttr elements;
  if (matchPattern(tensor, m_Constant(&elements)))
    return arith::ConstantOp::create(builder, tensor.getLoc(),
                                     elements.getSplatValue<TypedAttr>());
  if (auto splat = tensor.getDefiningOp<tensor::SplatOp>())
    return splat.getInput();
  auto generic = tensor.getDefiningOp<linalg::GenericOp>();
  Value yielded = generic ? getYielded(generic) : Value();
  if (auto argument = dyn_cast_or_null<BlockArgument>(yielded);
      argument && argument.getOwner() == generic.getBody())
    yielded = generic.getInputs()[argument.getArgNumber()];
  return yielded && !isa<ShapedType>(yielded.getType()) ? yielded : Value();
}

static Value createFill(OpBuilder &builder, Location loc, Value scalar,
                        RankedTensorType type) {
  Value empty = tensor::EmptyOp::create(builder, loc, type.getShape(),
                                        type.getElementType());
  return linalg::GenericOp::create(
             builder, loc, TypeRange{type}, ValueRange{}, ValueRange{empty},
             ArrayRef<AffineMap>{
                 builder.getMultiDimIdentityMap(type.getRank())},
             SmallVector<utils::IteratorType>(type.getRank(),
                                              utils::IteratorType::parallel),
             [&](OpBuilder &inner, Location bodyLoc, ValueRange) {
               linalg::YieldOp::create(inner, bodyLoc, scalar);
             })
      .getResult(0);
}

/// Repeats the broadcast whose result is `tensor`, with the spatial extents of
/// `type`. Returns null if `tensor` is not a broadcast or depends on spatial
/// dimensions.
static Value broadcastAnew(RewriterBase &rewriter, Value tensor,
                           RankedTensorType type) {
  auto op = tensor.getDefiningOp<linalg::GenericOp>();
  if (!op || !getYielded(op))
    return {};
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  if (!maps.back().isIdentity())
    return {};
  for (AffineMap map : ArrayRef(maps).drop_back())
    for (unsigned dim = 2; dim < type.getRank(); ++dim)
      if (map.isFunctionOfDim(dim))
        return {};
  Value empty = tensor::EmptyOp::create(rewriter, op.getLoc(), type.getShape(),
                                        type.getElementType());
  auto broadcast = linalg::GenericOp::create(
      rewriter, op.getLoc(), TypeRange{type}, op.getInputs(), ValueRange{empty},
      maps, op.getIteratorTypesArray());
  rewriter.cloneRegionBefore(op.getRegion(), broadcast.getRegion(),
                             broadcast.getRegion().begin());
  return broadcast.getResult(0);
}

//===----------------------------------------------------------------------===//
// Decomposition
//===----------------------------------------------------------------------===//

namespace {

/// `Residues` has the number of a phase, which is its residue, for each axis;
/// `Phases` has the phases themselves.
using Residues = SmallVector<int64_t>;
using Phases = SmallVector<const Phase *>;

/// Builds the folds of one convolution.
class Decomposition {
public:
  Decomposition(RewriterBase &rewriter, ConvolutionOp op, ArrayRef<Axis> axes)
      : rewriter(rewriter), op(op), loc(op.getLoc()), axes(axes) {}
  Value build();

private:
  Value getZero(Type element);
  Value expand(Value tensor, unsigned dim, int64_t groups);
  View splitDim(View view, unsigned dim, int64_t groups);
  View takeRange(View view, ArrayRef<int64_t> low, ArrayRef<int64_t> high);
  void prepareInit();
  Value takeInit(ArrayRef<int64_t> residues);
  View takeInput(ArrayRef<const Phase *> phases);
  View takeTaps(ArrayRef<const Phase *> phases);
  void buildBody(Block &body);
  Value fold(View image, View taps, Value initial,
             ArrayRef<const Phase *> phases);
  Value buildPhase(ArrayRef<int64_t> residues);
  Value interleave(Residues residues);

  RewriterBase &rewriter;
  ConvolutionOp op;
  Location loc;
  ArrayRef<Axis> axes;
  bool isWhole = false; ///< there is only one phase
  Value init;           ///< used if each phase has its own initial elements
  Value initOfPhase;    ///< used if all phases share one tensor, else null
  Value withoutTaps;    ///< the results of a phase without taps
  View input;           ///< the input of the convolution
  View padded;          ///< the input, padded enough for every phase
  Residues low, high;   ///< the amounts of that padding
  View kernel;
};

} // namespace

Value Decomposition::getZero(Type element) {
  return arith::ConstantOp::create(rewriter, loc,
                                   rewriter.getZeroAttr(element));
}

/// Splits dimension `dim` into groups and the elements of each group.
Value Decomposition::expand(Value tensor, unsigned dim, int64_t groups) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] /= groups;
  shape.insert(shape.begin() + dim, groups);
  SmallVector<ReassociationIndices> reassociation;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    int64_t at = reassociation.empty() ? 0 : reassociation.back().back() + 1;
    reassociation.push_back({at});
    if (i == dim)
      reassociation.back().push_back(at + 1);
  }
  if (auto collapse = tensor.getDefiningOp<tensor::CollapseShapeOp>();
      collapse && collapse.getSrcType().getShape() == ArrayRef(shape) &&
      collapse.getReassociationIndices() == reassociation)
    return collapse.getSrc();
  return tensor::ExpandShapeOp::create(rewriter, loc, type.clone(shape), tensor,
                                       reassociation);
}

View Decomposition::splitDim(View view, unsigned dim, int64_t groups) {
  unsigned at = view.dims[dim];
  View result = getView(expand(view.tensor, at, groups), axes.size());
  SmallVector<unsigned> dims;
  for (auto [i, from] : llvm::enumerate(view.dims)) {
    dims.push_back(result.dims[from > at ? from + 1 : from]);
    if (i == dim)
      dims.push_back(result.dims[at + 1]);
  }
  result.dims = dims;
  return result;
}

/// Pads the spatial dimensions with `low` zeros before and `high` zeros after
/// the elements; crops where an amount is negative.
View Decomposition::takeRange(View view, ArrayRef<int64_t> low,
                              ArrayRef<int64_t> high) {
  RankedTensorType type = view.getType();
  SmallVector<int64_t> shape(type.getShape());
  Residues begins(shape.size()), sizes(shape), before(shape.size()),
      after(shape.size());
  bool isInside = true;
  for (unsigned axis = 0; axis < axes.size(); ++axis) {
    unsigned dim = view.dims[view.dims.size() - axes.size() + axis];
    begins[dim] = std::max<int64_t>(-low[axis], 0);
    sizes[dim] += std::min<int64_t>(high[axis], 0) - begins[dim];
    before[dim] = std::max<int64_t>(low[axis], 0);
    after[dim] = std::max<int64_t>(high[axis], 0);
    shape[dim] += low[axis] + high[axis];
    isInside &= sizes[dim] > 0;
  }
  if (!isInside) {
    Value zero = getZero(type.getElementType());
    view.tensor =
        tensor::SplatOp::create(rewriter, loc, zero, type.clone(shape));
    return view;
  }
  if (ArrayRef(sizes) != type.getShape())
    view.tensor = tensor::ExtractSliceOp::create(
        rewriter, loc, view.tensor,
        getAsIndexOpFoldResult(op.getContext(), begins),
        getAsIndexOpFoldResult(op.getContext(), sizes),
        SmallVector<OpFoldResult>(sizes.size(), rewriter.getIndexAttr(1)));
  if (ArrayRef(shape) != ArrayRef(sizes))
    view.tensor =
        tensor::PadOp::create(rewriter, loc, type.clone(shape), view.tensor,
                              getAsIndexOpFoldResult(op.getContext(), before),
                              getAsIndexOpFoldResult(op.getContext(), after),
                              getZero(type.getElementType()));
  return view;
}

/// (K3) Computes the initial values for the results of all phases.
void Decomposition::prepareInit() {
  init = op.getInit();
  SmallVector<int64_t> shape(op.getType().getShape());
  Residues beyond(axes.size());
  for (auto [i, axis] : llvm::enumerate(axes)) {
    shape[2 + i] = axis.length;
    beyond[i] = axis.length * axis.phases.size() - axis.result;
  }
  auto type = op.getType().clone(shape);
  if (Value scalar = getFilledScalar(rewriter, init)) {
    initOfPhase = createFill(rewriter, loc, scalar, type);
    withoutTaps = tensor::SplatOp::create(rewriter, loc, scalar, type);
  } else {
    initOfPhase = isWhole ? init : broadcastAnew(rewriter, init, type);
    withoutTaps = initOfPhase;
  }
  if (!initOfPhase)
    init =
        takeRange(getView(init, type.getRank()), Residues(axes.size()), beyond)
            .tensor;
}

Value Decomposition::takeInit(ArrayRef<int64_t> residues) {
  if (initOfPhase)
    return initOfPhase;
  RankedTensorType type = op.getType();
  SmallVector<OpFoldResult> offsets(2, rewriter.getIndexAttr(0)),
      strides(2, rewriter.getIndexAttr(1)),
      sizes = getAsIndexOpFoldResult(op.getContext(),
                                     type.getShape().take_front(2));
  for (auto [axis, residue] : llvm::zip_equal(axes, residues)) {
    offsets.push_back(rewriter.getIndexAttr(residue));
    sizes.push_back(rewriter.getIndexAttr(axis.length));
    strides.push_back(rewriter.getIndexAttr(axis.phases.size()));
  }
  return tensor::ExtractSliceOp::create(rewriter, loc, init, offsets, sizes,
                                        strides);
}

/// Returns the elements of the input that a phase reads.
View Decomposition::takeInput(ArrayRef<const Phase *> phases) {
  Residues cutLow, cutHigh;
  for (auto [i, phase] : llvm::enumerate(phases)) {
    cutLow.push_back(phase->low - low[i]);
    cutHigh.push_back(isWhole ? 0 : phase->high - high[i]);
  }
  if (llvm::all_of(phases, [](const Phase *phase) {
        return phase->low == 0 && phase->high == 0;
      }))
    return input;
  return takeRange(padded, cutLow, cutHigh);
}

/// Returns the elements of the kernel at the taps of a phase, in window order.
View Decomposition::takeTaps(ArrayRef<const Phase *> phases) {
  unsigned rank = kernel.dims.size(), numLeading = rank - axes.size();
  SmallVector<AffineExpr> exprs;
  SmallVector<int64_t> shape;
  for (unsigned dim = 0; dim < rank; ++dim) {
    exprs.push_back(rewriter.getAffineDimExpr(dim));
    shape.push_back(kernel.getExtent(dim));
  }
  bool isSame = true;
  for (auto [i, axis, phase] : llvm::enumerate(axes, phases)) {
    AffineExpr &expr = exprs[numLeading + i];
    shape[numLeading + i] = phase->taps;
    if (axis.window == 1 || (phase->taps == axis.window && !axis.isReversed))
      continue;
    isSame = false;
    int64_t first = phase->first, step = phase->period;
    if (axis.isReversed) {
      first = axis.window - 1 - first;
      step = -step;
    }
    // A phase with a single tap needs no loop over taps.
    expr = phase->taps == 1 ? rewriter.getAffineConstantExpr(first)
                            : expr * step + first;
  }
  if (isSame)
    return kernel;
  auto type = kernel.getType().clone(shape);
  Value empty =
      tensor::EmptyOp::create(rewriter, loc, shape, type.getElementType());
  auto taps = linalg::GenericOp::create(
      rewriter, loc, TypeRange{type}, ValueRange{kernel.tensor},
      ValueRange{empty},
      ArrayRef<AffineMap>{kernel.getMap(rank, exprs),
                          rewriter.getMultiDimIdentityMap(rank)},
      SmallVector<utils::IteratorType>(rank, utils::IteratorType::parallel),
      [](OpBuilder &builder, Location bodyLoc, ValueRange args) {
        linalg::YieldOp::create(builder, bodyLoc, args[0]);
      });
  return {taps.getResult(0), llvm::to_vector(llvm::seq<unsigned>(rank))};
}

/// (K1) Builds acc = fma(x, y, acc) with x and y converted exactly.
void Decomposition::buildBody(Block &body) {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPointToEnd(&body);
  Type type = op.getAccumulatorType();
  auto addFactor = [&](Value tensor) -> Value {
    Type element = getElementTypeOrSelf(tensor.getType());
    Value factor = body.addArgument(element, loc);
    return element == type ? factor
                           : arith::ExtFOp::create(rewriter, loc, type, factor);
  };
  Value x = addFactor(op.getInput()), y = addFactor(op.getKernel());
  Value accumulator = body.addArgument(type, loc), sum;
  if (isa<FloatType>(type)) {
    sum = math::FmaOp::create(rewriter, loc, x, y, accumulator);
  } else {
    Value product = arith::MulIOp::create(rewriter, loc, x, y);
    sum = arith::AddIOp::create(rewriter, loc, accumulator, product);
  }
  repro::YieldOp::create(rewriter, loc, sum);
}

/// Folds over channels and taps; `initial` has the type of the result.
Value Decomposition::fold(View image, View taps, Value initial,
                          ArrayRef<const Phase *> phases) {
  int64_t features = op.getFeatureGroups(), batches = op.getBatchGroups();
  bool isGrouped = features > 1 || batches > 1;
  if (isGrouped)
    initial = expand(initial, 1, std::max(features, batches));
  unsigned next = 0, numParallel = 2 + isGrouped + axes.size();
  unsigned numLoops = numParallel + 1 + axes.size();
  auto getLoop = [&] { return rewriter.getAffineDimExpr(next++); };
  AffineExpr batch = getLoop(), group = isGrouped ? getLoop() : AffineExpr();
  AffineExpr outputChannel = getLoop();
  SmallVector<AffineExpr> results, window;
  for (unsigned i = 0; i < axes.size(); ++i)
    results.push_back(getLoop());
  AffineExpr channel = getLoop();
  for (unsigned i = 0; i < axes.size(); ++i)
    window.push_back(getLoop());

  SmallVector<AffineExpr> inputExprs{batch, channel},
      kernelExprs{outputChannel, channel}, resultExprs{batch, outputChannel};
  if (isGrouped) {
    inputExprs.insert(inputExprs.begin() + (features > 1), group);
    kernelExprs.insert(kernelExprs.begin(), group);
    resultExprs.insert(resultExprs.begin() + 1, group);
  }
  for (auto [axis, phase, result, tap] :
       llvm::zip_equal(axes, phases, results, window))
    inputExprs.push_back(result * axis.stride + tap * phase->dilation);
  llvm::append_range(kernelExprs, window);
  llvm::append_range(resultExprs, results);

  SmallVector<Attribute> iterators;
  for (unsigned loop = 0; loop < numLoops; ++loop)
    iterators.push_back(linalg::IteratorTypeAttr::get(
        op.getContext(), loop < numParallel ? utils::IteratorType::parallel
                                            : utils::IteratorType::reduction));
  auto fold = FoldOp::create(
      rewriter, loc, TypeRange{initial.getType()},
      ValueRange{image.tensor, taps.tensor}, ValueRange{initial},
      rewriter.getAffineMapArrayAttr(
          {image.getMap(numLoops, inputExprs),
           taps.getMap(numLoops, kernelExprs),
           AffineMap::get(numLoops, 0, resultExprs, op.getContext())}),
      rewriter.getArrayAttr(iterators), /*order=*/Attribute());
  buildBody(fold.getRegion().emplaceBlock());
  Value result = fold.getResult(0);
  if (!isGrouped)
    return result;
  SmallVector<ReassociationIndices> reassociation{{0}, {1, 2}};
  for (unsigned i = 0; i < axes.size(); ++i)
    reassociation.push_back({3 + i});
  return tensor::CollapseShapeOp::create(rewriter, loc, result, reassociation);
}

Value Decomposition::buildPhase(ArrayRef<int64_t> residues) {
  Phases phases;
  for (auto [axis, residue] : llvm::zip_equal(axes, residues))
    phases.push_back(&axis.phases[residue]);
  Value initial = takeInit(residues);
  if (llvm::any_of(phases, [](const Phase *phase) { return !phase->taps; }))
    return withoutTaps ? withoutTaps : initial;
  View image = takeInput(phases);
  if (op.getFeatureGroups() > 1)
    image = splitDim(image, 1, op.getFeatureGroups());
  if (op.getBatchGroups() > 1)
    image = splitDim(image, 0, op.getBatchGroups());
  return fold(image, takeTaps(phases), initial, phases);
}

/// Interleaves, along each axis, the results of the phases that have the
/// numbers `residues` along the first axes.
Value Decomposition::interleave(Residues residues) {
  if (residues.size() == axes.size())
    return buildPhase(residues);
  unsigned axis = residues.size(), dim = 2 + axis;
  SmallVector<Value> parts;
  for (unsigned residue = 0; residue < axes[axis].phases.size(); ++residue) {
    Residues longer(residues);
    longer.push_back(residue);
    parts.push_back(interleave(longer));
  }
  if (parts.size() == 1)
    return parts.front();
  auto type = cast<RankedTensorType>(parts.front().getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.insert(shape.begin() + dim + 1, 1);
  SmallVector<ReassociationIndices> reassociation;
  for (unsigned i = 0; i < type.getRank(); ++i)
    reassociation.push_back({i + (i > dim)});
  reassociation[dim].push_back(dim + 1);
  for (Value &part : parts)
    part = tensor::ExpandShapeOp::create(rewriter, loc, type.clone(shape), part,
                                         reassociation);
  Value merged = tensor::ConcatOp::create(rewriter, loc, dim + 1, parts);
  return tensor::CollapseShapeOp::create(rewriter, loc, merged, reassociation);
}

Value Decomposition::build() {
  bool hasTaps = llvm::all_of(axes, [](const Axis &axis) {
    return llvm::any_of(axis.phases,
                        [](const Phase &phase) { return phase.taps != 0; });
  });
  if (op.getType().getNumElements() == 0 ||
      op.getKernel().getType().getNumElements() == 0 || !hasTaps)
    return op.getInit();

  isWhole = llvm::all_of(
      axes, [](const Axis &axis) { return axis.phases.size() == 1; });
  prepareInit();
  for (const Axis &axis : axes) {
    low.push_back(0);
    high.push_back(0);
    for (const Phase &phase : axis.phases) {
      if (!phase.taps)
        continue;
      low.back() = std::max(low.back(), phase.low);
      high.back() = std::max(high.back(), phase.high);
    }
  }
  input = getView(op.getInput(), axes.size());
  padded = takeRange(input, low, high);
  kernel = getView(op.getKernel(), axes.size());
  int64_t groups = std::max(op.getFeatureGroups(), op.getBatchGroups());
  if (groups > 1)
    kernel = splitDim(kernel, 0, groups);

  Value result = interleave({});
  if (result.getType() == op.getType())
    return result;
  SmallVector<OpFoldResult> offsets(op.getType().getRank(),
                                    rewriter.getIndexAttr(0)),
      strides(op.getType().getRank(), rewriter.getIndexAttr(1));
  return tensor::ExtractSliceOp::create(
      rewriter, loc, result, offsets,
      getAsIndexOpFoldResult(op.getContext(), op.getType().getShape()),
      strides);
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct DecomposeConvolution
    : public repro::impl::ReproDecomposeConvolutionBase<DecomposeConvolution> {
  void runOnOperation() override {
    SmallVector<ConvolutionOp> ops;
    getOperation()->walk([&](ConvolutionOp op) { ops.push_back(op); });
    IRRewriter rewriter(&getContext());
    for (ConvolutionOp op : ops) {
      for (Value value : op->getOperands()) {
        auto type = cast<RankedTensorType>(value.getType());
        if (!type.hasStaticShape()) {
          op.emitOpError("(K2) expected tensors of static shape, got ") << type;
          return signalPassFailure();
        }
      }
      SmallVector<Axis> axes;
      int64_t numPhases = 1;
      for (int64_t dim = 0; dim < op.getNumSpatialDims(); ++dim) {
        std::optional<Axis> axis = getAxis(op, dim);
        if (axis)
          numPhases *= axis->phases.size();
        if (!axis || numPhases > kMaxPhases) {
          op.emitOpError("(K2) has more than ")
              << kMaxPhases << " stride phases";
          return signalPassFailure();
        }
        axes.push_back(std::move(*axis));
      }
      rewriter.setInsertionPoint(op);
      rewriter.replaceOp(op, Decomposition(rewriter, op, axes).build());
    }
  }
};
} // namespace
