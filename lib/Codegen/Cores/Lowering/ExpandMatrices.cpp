//===- ExpandMatrices.cpp - Folds on the matrix arrays of cores -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-expand-matrices (Passes.td). The core computes a block of results,
// with as many rows and columns as its array, slice by slice: it starts the
// array for each product of bytes, and adds the shifted results of the array to
// the sums in its memory.
//
//===----------------------------------------------------------------------===//

#include "ByteProducts.h"
#include "Codegen/CPU/Kernels/HostBuilder.h"
#include "Codegen/Common/FoldSupport.h"
#include "Codegen/Cores/Lowering/Passes.h"
#include "Codegen/Schedule/Buffers/Kernel.h"
#include "dialects/Cores/IR/Cores.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPROEXPANDMATRICES
#include "lib/Codegen/Cores/Lowering/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

/// The function of lib/Simulator/MacArray.h, all of whose arguments are i64.
static constexpr char kRoutine[] = "repro_multiply_bytes";
static constexpr unsigned kRoutineArguments = 10;

namespace {
struct ExpandMatrices
    : public repro::impl::ReproExpandMatricesBase<ExpandMatrices> {
  using ReproExpandMatricesBase::ReproExpandMatricesBase;
  void runOnOperation() override;
};

class MatrixKernel {
public:
  MatrixKernel(cpu::HostBuilder &b, FoldOp fold, ByteProducts products,
               MatrixAttr matrix)
      : b(b), info(b, fold), products(std::move(products)), matrix(matrix) {
    Type i32 = b.getI32Type();
    for (size_t i = 0; i < this->products.terms.size(); ++i)
      results.push_back(
          b.getScratch(i32, matrix.getRows() * matrix.getColumns()));
  }
  void expand();

private:
  /// A block of a loop of the fold, or one iteration if the fold has no loop.
  struct Range {
    std::optional<unsigned> loop;
    Value begin, size;
  };

  void initialize();
  /// Calls `body` for each block of at most `size` iterations of the loop.
  void forBlocks(std::optional<unsigned> loop, int64_t size,
                 function_ref<void(Range)> body);
  void emitBlock(SmallVector<Value> at, const Range &rows,
                 const Range &columns);
  void multiply(ArrayRef<Value> at, const ByteProducts::Term &term,
                Value target, ArrayRef<Range> ranges);
  /// Returns the address of an element as an i64.
  Value getAddress(Value buffer, Value offset, int64_t bytes);
  Value toI64(Value index) {
    return arith::IndexCastOp::create(b, b.getI64Type(), index);
  }

  cpu::HostBuilder &b;
  kernels::FoldInfo info;
  ByteProducts products;
  MatrixAttr matrix;
  SmallVector<Value> results; ///< of the array, for each term
};
} // namespace

void MatrixKernel::initialize() {
  Value init = info.getConstantInit(b, 0, /*lanes=*/0);
  if (!init)
    return;
  b.loop(b.index(0), b.index(info.results), 1, [&](Value number) {
    SmallVector<Value> at(info.sizes.size(), b.index(0));
    for (auto [loop, index] : llvm::zip_equal(
             info.parallel, b.delinearize(number, info.parallelSizes)))
      at[loop] = index;
    b.store(init, info.outputs[0].buffer, b.getOffset(info.outputs[0], at));
  });
}

void MatrixKernel::forBlocks(std::optional<unsigned> loop, int64_t size,
                             function_ref<void(Range)> body) {
  if (!loop)
    return body({loop, b.index(0), b.index(1)});
  Value end = b.index(info.sizes[*loop]);
  b.loop(b.index(0), end, size, [&](Value begin) {
    body({loop, begin, b.min(b.sub(end, begin), b.index(size))});
  });
}

Value MatrixKernel::getAddress(Value buffer, Value offset, int64_t bytes) {
  Value base = memref::ExtractAlignedPointerAsIndexOp::create(b, buffer);
  return toI64(b.add(base, b.mul(offset, bytes)));
}

/// Emits the products of one term: `ranges` are the rows, columns and depth.
void MatrixKernel::multiply(ArrayRef<Value> at, const ByteProducts::Term &term,
                            Value target, ArrayRef<Range> ranges) {
  const Range &rows = ranges[0], &columns = ranges[1], &depth = ranges[2];
  SmallVector<Value> arguments;
  auto addFactor = [&](unsigned input, ArrayRef<Range> strides) {
    const kernels::Access &access = info.inputs[input];
    arguments.push_back(
        getAddress(access.buffer, b.getOffset(access, at), /*bytes=*/1));
    for (const Range &range : strides)
      arguments.push_back(
          toI64(b.index(range.loop ? access.coefficients[*range.loop] : 0)));
  };
  addFactor(term.x, {rows, depth});
  addFactor(term.y, {depth, columns});
  arguments.push_back(getAddress(target, b.index(0), /*bytes=*/4));
  for (const Range &range : ranges)
    arguments.push_back(toI64(range.size));
  func::CallOp::create(b, kRoutine, TypeRange(), arguments);
}

void MatrixKernel::emitBlock(SmallVector<Value> at, const Range &rows,
                             const Range &columns) {
  for (const Range &range : {rows, columns})
    if (range.loop)
      at[*range.loop] = range.begin;
  forBlocks(products.depthLoop, matrix.getSlice(), [&](Range depth) {
    at[products.depthLoop] = depth.begin;
    for (auto [term, target] : llvm::zip_equal(products.terms, results))
      multiply(at, term, target, {rows, columns, depth});
    const kernels::Access &output = info.outputs[0];
    Value first = b.getOffset(output, at);
    auto getStep = [&](const Range &range, Value index) {
      return b.mul(index, range.loop ? output.coefficients[*range.loop] : 0);
    };
    b.loop(b.index(0), rows.size, 1, [&](Value row) {
      b.loop(b.index(0), columns.size, 1, [&](Value column) {
        Value offset =
            b.add(b.add(first, getStep(rows, row)), getStep(columns, column));
        Value sum = b.load(output.buffer, output.element, offset);
        Value place = b.add(b.mul(row, columns.size), column);
        for (auto [term, target] : llvm::zip_equal(products.terms, results)) {
          Value result = b.load(target, b.getI32Type(), place);
          if (output.element != result.getType())
            result = arith::ExtSIOp::create(b, output.element, result);
          if (term.shift)
            result = arith::ShLIOp::create(
                b, result,
                b.constant(b.getIntegerAttr(output.element, term.shift)));
          sum = arith::AddIOp::create(b, sum, result);
        }
        b.store(sum, output.buffer, offset);
      });
    });
  });
}

void MatrixKernel::expand() {
  // The loops that are not those of blocks.
  SmallVector<unsigned> others;
  SmallVector<int64_t> sizes;
  for (auto [loop, size] : llvm::enumerate(info.sizes))
    if (loop != products.depthLoop && products.rowLoop != loop &&
        products.columnLoop != loop) {
      others.push_back(loop);
      sizes.push_back(size);
    }
  b.forEachItem([&](Value) {
    initialize();
    b.loop(b.index(0), b.index(kernels::getProduct(sizes)), 1,
           [&](Value number) {
             SmallVector<Value> at(info.sizes.size(), b.index(0));
             for (auto [loop, index] :
                  llvm::zip_equal(others, b.delinearize(number, sizes)))
               at[loop] = index;
             forBlocks(products.rowLoop, matrix.getRows(), [&](Range rows) {
               forBlocks(products.columnLoop, matrix.getColumns(),
                         [&](Range columns) { emitBlock(at, rows, columns); });
             });
           });
  });
  b.setWork(/*items=*/1, /*grain=*/1);
}

static void declareRoutine(ModuleOp module) {
  if (module.lookupSymbol(kRoutine))
    return;
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  SmallVector<Type> types(kRoutineArguments, builder.getI64Type());
  func::FuncOp::create(builder, module.getLoc(), kRoutine,
                       builder.getFunctionType(types, {}))
      .setPrivate();
}

void ExpandMatrices::runOnOperation() {
  std::string error;
  FailureOr<Level> description = getLevel(level, error);
  if (failed(description)) {
    getOperation().emitError(error);
    return signalPassFailure();
  }
  SmallVector<FoldOp> folds;
  getOperation().walk([&](FoldOp fold) {
    if (CoresDialect::MatrixAttrHelper(&getContext()).getAttr(fold))
      folds.push_back(fold);
  });
  for (FoldOp fold : folds) {
    MatrixAttr matrix =
        CoresDialect::MatrixAttrHelper(&getContext()).getAttr(fold);
    auto kernel = dyn_cast<func::FuncOp>(fold->getParentOp());
    std::optional<ByteProducts> products = ByteProducts::get(fold);
    if (!kernel || !products) {
      fold.emitOpError("expected a kernel that adds products of bytes for a "
                       "matrix array");
      return signalPassFailure();
    }
    declareRoutine(getOperation());
    cpu::HostBuilder b(kernel, fold, *description);
    MatrixKernel(b, fold, *products, matrix).expand();
    b.finish();
  }
}
