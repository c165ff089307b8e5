//===- Kernel.cpp - Kernel functions and their launches -------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"

#include "KernelOps.h"
#include "dialects/Launch/IR/KernelSignature.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;

KernelOutliner::KernelOutliner(func::FuncOp main, StringRef prefix)
    : main(main), prefix(prefix), symbols(main->getParentOfType<ModuleOp>()) {}

bool mlir::repro::readsOperand(OpOperand &operand) {
  if (auto kernel = dyn_cast<KernelOpInterface>(operand.getOwner()))
    return kernel.readsOperand(operand);
  return !isa<memref::PrefetchOp>(operand.getOwner()); // a load in a body
}

bool mlir::repro::writesOperand(OpOperand &operand) {
  auto kernel = dyn_cast<KernelOpInterface>(operand.getOwner());
  return kernel && kernel.writesOperand(operand);
}

Value mlir::repro::getViewSource(Value memref) {
  if (auto view = memref.getDefiningOp<ViewLikeOpInterface>())
    return view.getViewSource();
  return {};
}

Value mlir::repro::getRootBuffer(Value memref) {
  while (Value source = getViewSource(memref))
    memref = source;
  return memref;
}

SmallVector<OpOperand *> mlir::repro::getBufferUses(Value root) {
  SmallVector<OpOperand *> uses;
  SmallVector<Value> open = {root};
  while (!open.empty())
    for (OpOperand &use : open.pop_back_val().getUses()) {
      if (isa<ViewLikeOpInterface>(use.getOwner()))
        llvm::append_range(open, use.getOwner()->getResults());
      else
        uses.push_back(&use);
    }
  return uses;
}

std::optional<LinearAccess> mlir::repro::getLinearAccess(Value memref,
                                                         AffineMap map) {
  auto type = dyn_cast<MemRefType>(memref.getType());
  SmallVector<int64_t> strides;
  LinearAccess access{getRootBuffer(memref), 0,
                      SmallVector<int64_t>(map.getNumDims(), 0)};
  if (!type || !type.hasStaticShape() ||
      failed(type.getStridesAndOffset(strides, access.offset)) ||
      ShapedType::isDynamic(access.offset))
    return std::nullopt;
  for (auto [expr, stride] : llvm::zip_equal(map.getResults(), strides)) {
    if (ShapedType::isDynamic(stride) || stride < 0)
      return std::nullopt;
    if (auto constant = dyn_cast<AffineConstantExpr>(expr))
      access.offset += constant.getValue() * stride;
    else if (auto dim = dyn_cast<AffineDimExpr>(expr))
      access.steps[dim.getPosition()] += stride;
    else
      return std::nullopt;
  }
  return access;
}

FailureOr<SmallVector<int64_t>> mlir::repro::getStaticStrides(MemRefType type,
                                                              int64_t &offset) {
  if (!type.hasStaticShape())
    return failure();
  SmallVector<int64_t> strides(type.getRank());
  offset = 0;
  if (type.getLayout().isIdentity()) {
    // getStridesAndOffset does not support extents of 0.
    int64_t stride = 1;
    for (int64_t i = type.getRank(); i > 0; --i) {
      strides[i - 1] = stride;
      stride *= std::max<int64_t>(type.getDimSize(i - 1), 1);
    }
    return strides;
  }
  strides.clear(); // getStridesAndOffset appends
  if (failed(type.getStridesAndOffset(strides, offset)) ||
      llvm::any_of(strides, ShapedType::isDynamic))
    return failure();
  return strides;
}

AffineMap mlir::repro::getResultMap(FoldOp fold) {
  SmallVector<AffineExpr> dims;
  unsigned count = 0;
  for (utils::IteratorType type : fold.getIteratorTypesArray())
    dims.push_back(type == utils::IteratorType::parallel
                       ? getAffineDimExpr(count++, fold.getContext())
                       : getAffineConstantExpr(0, fold.getContext()));
  AffineMap map = cast<IndexingMapOpInterface>(fold.getOperation())
                      .getIndexingMapsArray()[fold.getInputs().size()];
  return map.replaceDimsAndSymbols(dims, {}, count, 0);
}

/// Returns the type of a kernel argument for a buffer of type `type`: row-major
/// strides (even if there are no elements) and offset 0. Null for dynamic
/// shapes.
static MemRefType getArgumentType(MemRefType type) {
  if (!type.hasStaticShape())
    return {};
  SmallVector<int64_t> strides(type.getRank(), 1);
  for (int64_t i = type.getRank() - 1; i > 0; --i)
    strides[i - 1] = strides[i] * std::max<int64_t>(type.getDimSize(i), 1);
  bool isEmpty = type.getNumElements() == 0;
  SmallVector<int64_t> actual(strides);
  int64_t offset = 0;
  if (!isEmpty) {
    actual.clear();
    if (failed(type.getStridesAndOffset(actual, offset)) ||
        ShapedType::isDynamic(offset) ||
        llvm::any_of(actual, ShapedType::isDynamic))
      return {};
  }
  auto plain = MemRefType::get(type.getShape(), type.getElementType());
  if (!isEmpty && actual == strides)
    return plain;
  return MemRefType::get(
      type.getShape(), type.getElementType(),
      StridedLayoutAttr::get(type.getContext(), /*offset=*/0, actual));
}

Operation *mlir::repro::getKernelBody(func::FuncOp kernel) {
  Operation *result = nullptr;
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (isa<KernelOpInterface>(op))
      result = &op;
  return result;
}

/// Returns the byte offset of a buffer in its root buffer. The buffer's shape
/// and offset must be static. Returns std::nullopt if the offset overflows or
/// is hidden by a memref.view.
static std::optional<int64_t> getByteOffset(Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  int64_t offset = 0;
  if (type.getNumElements() > 0 &&
      llvm::MulOverflow(type.getStridesAndOffset().second,
                        launch::getElementBytes(type.getElementType()), offset))
    return std::nullopt;
  for (Value source; (source = getViewSource(buffer)); buffer = source) {
    if (buffer.getDefiningOp<memref::ViewOp>())
      return std::nullopt;
    auto view = buffer.getDefiningOp<launch::ViewOp>();
    if (view && llvm::AddOverflow(offset, int64_t(view.getOffset()), offset))
      return std::nullopt;
  }
  return offset;
}

/// Returns a view of the buffer's root with the kernel's argument type. The
/// offset belongs to the view, not to its type, so that slices at different
/// offsets share a kernel.
static Value createView(OpBuilder &builder, Location loc, Value buffer,
                        MemRefType argument) {
  Value root = getRootBuffer(buffer);
  int64_t offset = *getByteOffset(buffer);
  if (offset == 0 && root.getType() == argument)
    return root;
  return launch::ViewOp::create(builder, loc, argument, root, offset);
}

/// Returns how the uses of a buffer and of its views access it: read, write or
/// both.
static launch::Access findAccess(Value buffer) {
  launch::Access access{};
  for (OpOperand *use : getBufferUses(buffer)) {
    if (readsOperand(*use))
      access = access | launch::Access::Read;
    if (writesOperand(*use))
      access = access | launch::Access::Write;
  }
  return access == launch::Access{} ? launch::Access::Read : access;
}

/// Returns a hash of a kernel. Equal kernels (see areEqual) have equal hashes.
static size_t hashKernel(func::FuncOp kernel) {
  llvm::hash_code hash =
      llvm::hash_combine(kernel.getFunctionType(), kernel.getArgAttrsAttr());
  kernel.getBody().walk([&](Operation *op) {
    hash =
        llvm::hash_combine(hash, OperationEquivalence::computeHash(
                                     op, OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::IgnoreLocations));
  });
  return size_t(hash) >> 1; // DenseMap reserves the largest keys
}

/// Whether two kernels differ only in names and locations. Even the operands of
/// commutative operations must be in the same order, because the order
/// determines which NaN propagates.
static bool areEqual(func::FuncOp a, func::FuncOp b) {
  if (a.getFunctionType() != b.getFunctionType() ||
      a.getArgAttrsAttr() != b.getArgAttrsAttr())
    return false;
  DenseMap<Value, Value> matches;
  return OperationEquivalence::isRegionEquivalentTo(
      &a.getBody(), &b.getBody(),
      [&](Value x, Value y) { return success(matches.lookup(x) == y); },
      [&](Value x, Value y) { matches[x] = y; },
      OperationEquivalence::IgnoreLocations);
}

FailureOr<launch::DispatchOp> KernelOutliner::outline(Operation *op) {
  MLIRContext *context = op->getContext();
  OpBuilder builder(context);

  // Collects the buffers that the operation or its body uses, and the
  // constants.
  llvm::SetVector<Value> buffers;
  SmallVector<Operation *> constants;
  bool failedCapture = false;
  auto addUse = [&](OpOperand &use) {
    Value value = use.get();
    if (op->isAncestor(value.getParentBlock()->getParentOp()))
      return;
    if (isa<MemRefType>(value.getType())) {
      buffers.insert(value);
    } else if (Operation *def = value.getDefiningOp();
               def && def->hasTrait<OpTrait::ConstantLike>()) {
      if (!llvm::is_contained(constants, def))
        constants.push_back(def);
    } else if (!failedCapture) {
      failedCapture = true;
      op->emitOpError("expected a kernel that depends only on buffers and "
                      "constants, but the kernel uses a value of type ")
          << value.getType();
    }
  };
  op->walk([&](Operation *nested) {
    for (OpOperand &use : nested->getOpOperands())
      addUse(use);
  });
  if (failedCapture)
    return failure();

  SmallVector<Type> types;
  for (Value buffer : buffers) {
    auto actual = cast<MemRefType>(buffer.getType());
    if (actual.hasStaticShape() && !launch::hasRowMajorStrides(actual))
      return op->emitOpError("expected buffers of fewer than 2^63 elements, "
                             "also where extents of 0 count as 1, got ")
             << actual;
    MemRefType type = getArgumentType(actual);
    if (!type || !actual.getElementType().isIntOrIndexOrFloat() ||
        !getByteOffset(buffer))
      return op->emitOpError("expected buffers of numbers of static shape, "
                             "strides and offset, got ")
             << actual;
    types.push_back(type);
  }
  size_t numBuffers = types.size();
  llvm::append_range(types, launch::KernelSignature::getOtherTypes(context));

  OwningOpRef<func::FuncOp> kernel = func::FuncOp::create(
      op->getLoc(), "kernel", builder.getFunctionType(types, {}));
  (*kernel).setPrivate();
  Block *body = (*kernel).addEntryBlock();
  builder.setInsertionPointToEnd(body);
  IRMapping mapping;
  mapping.map(buffers.getArrayRef(),
              body->getArguments().take_front(numBuffers));
  for (Operation *constant : constants)
    builder.clone(*constant, mapping);
  builder.clone(*op, mapping);
  func::ReturnOp::create(builder, op->getLoc());
  for (size_t i = 0; i < numBuffers; ++i)
    (*kernel).setArgAttr(
        i, launch::LaunchDialect::AccessAttrHelper::getNameStr(),
        launch::AccessAttr::get(context, findAccess(body->getArgument(i))));

  SmallVector<func::FuncOp, 1> &alike = kernels[hashKernel(*kernel)];
  auto *found = llvm::find_if(
      alike, [&](func::FuncOp other) { return areEqual(*kernel, other); });
  func::FuncOp shared;
  if (found != alike.end()) {
    shared = *found;
  } else {
    shared = kernel.release();
    shared.setSymName((prefix + "_" + Twine(numKernels++)).str());
    symbols.insert(shared, Block::iterator(main));
    alike.push_back(shared);
  }

  SmallVector<Value> arguments;
  builder.setInsertionPoint(op);
  for (auto [buffer, type] : llvm::zip(buffers, types))
    arguments.push_back(
        createView(builder, op->getLoc(), buffer, cast<MemRefType>(type)));
  auto dispatch = launch::DispatchOp::create(
      builder, op->getLoc(), SymbolRefAttr::get(shared), arguments,
      DenseI64ArrayAttr(), DenseI64ArrayAttr(), IntegerAttr(), UnitAttr());
  op->erase();
  return dispatch;
}
