//===- KernelDescriptions.cpp - Buffers and operations of kernels ---------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Analysis/KernelDescriptions.h"

#include "dialects/Launch/IR/Launch.h"
#include "dialects/Repro/IR/ContractionBody.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

using Names = SmallVector<std::string>;

/// Adds a name unless `names` has it.
static void add(std::string name, Names &names) {
  if (!llvm::is_contained(names, name))
    names.push_back(std::move(name));
}

/// Returns the number of bytes from the first to the last element, inclusive.
/// Returns 0 for an empty buffer or unknown strides.
static int64_t getBytes(MemRefType type) {
  int64_t offset;
  SmallVector<int64_t> strides;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return 0;
  int64_t last = 0;
  for (auto [extent, stride] : llvm::zip_equal(type.getShape(), strides)) {
    if (extent == 0)
      return 0;
    last += (extent - 1) * stride;
  }
  return (last + 1) * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

/// Adds the functions that the body of an operation computes, without casts of
/// indices, comparisons, constants and terminators.
static void addFunctions(Operation &operation, Names &names) {
  operation.walk([&](Operation *inner) {
    StringRef dialect = inner->getName().getDialectNamespace();
    bool isFunction = dialect == "arith" || dialect == "math" ||
                      dialect == repro::ReproDialect::getDialectNamespace();
    if (inner == &operation || !isFunction ||
        inner->hasTrait<OpTrait::IsTerminator>() ||
        inner->hasTrait<OpTrait::ConstantLike>() ||
        isa<arith::IndexCastOp, arith::CmpIOp, arith::CmpFOp, arith::SelectOp>(
            inner))
      return;
    add(inner->getName().stripDialect().str(), names);
  });
}

/// Adds what an operation of a kernel computes.
static void addOperation(Operation &operation, Names &names) {
  if (isa<memref::CopyOp>(operation)) {
    add("copy", names);
  } else if (auto fold = dyn_cast<repro::FoldOp>(operation)) {
    if (repro::getContraction(fold)) {
      add("contraction", names);
      return;
    }
    add("fold", names);
    addFunctions(operation, names);
  } else if (isa<linalg::GenericOp>(operation)) {
    addFunctions(operation, names);
    if (names.empty())
      add("copy", names);
  } else if (isa<repro::ReproDialect>(operation.getDialect())) {
    add(operation.getName().stripDialect().str(), names);
  }
}

/// Adds the names and the source lines in a location.
static void addPlaces(Location location, Names &places) {
  location->walk([&](Location inner) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    if (auto name = dyn_cast<NameLoc>(inner))
      stream << name.getName().getValue();
    else if (auto line = dyn_cast<FileLineColLoc>(inner))
      stream << line.getFilename().getValue() << ':' << line.getLine();
    if (!text.empty())
      add(text, places);
    return WalkResult::advance();
  });
}

/// Returns at most four of the names. Control characters, which could end the
/// line or the field of a description, become spaces.
static std::string getText(const Names &names) {
  constexpr size_t kMost = 4;
  std::string text = llvm::join(ArrayRef(names).take_front(kMost), ", ");
  if (names.size() > kMost)
    text += ", ...";
  for (char &each : text)
    if (llvm::isASCII(each) && !llvm::isPrint(each))
      each = ' ';
  return text;
}

std::string mlir::repro::describeOperations(func::FuncOp kernel) {
  Names functions;
  for (Operation &operation : kernel.getOps())
    addOperation(operation, functions);
  return getText(functions);
}

std::string mlir::repro::describePlaces(Location location) {
  Names places;
  addPlaces(location, places);
  return getText(places);
}

std::string mlir::repro::describeKernels(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (auto kernel : module.getOps<func::FuncOp>()) {
    stream << kernel.getName();
    for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
      auto buffer = dyn_cast<MemRefType>(type);
      std::optional<launch::Access> access = launch::getAccess(kernel, index);
      if (buffer && access)
        stream << ' ' << launch::stringifyAccess(*access) << ':'
               << getBytes(buffer);
    }
    Names places;
    for (Operation &operation : kernel.getOps())
      operation.walk(
          [&](Operation *inner) { addPlaces(inner->getLoc(), places); });
    stream << '\t' << describeOperations(kernel) << '\t' << getText(places)
           << '\n';
  }
  return text;
}
