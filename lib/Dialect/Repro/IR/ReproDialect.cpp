//===- ReproDialect.cpp - The repro dialect -------------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Repro/IR/ImportedOps.h"
#include "dialects/Repro/IR/PartitionedOps.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::repro;

#include "dialects/Repro/IR/ReproDialect.cpp.inc"
#include "dialects/Repro/IR/ReproEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Repro/IR/ReproAttrs.cpp.inc"

void ReproDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Repro/IR/ReproOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Repro/IR/ImportedOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Repro/IR/PartitionedOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Repro/IR/ReproAttrs.cpp.inc"
      >();
}

Operation *ReproDialect::materializeConstant(OpBuilder &builder,
                                             Attribute value, Type type,
                                             Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

LogicalResult ReproDialect::verifyOperationAttribute(Operation *op,
                                                     NamedAttribute attr) {
  // The verifier of repro.fold checks the constants in `repro.init`.
  if (attr.getName() == InitAttrHelper::getNameStr() && !isa<FoldOp>(op))
    return op->emitOpError("expected '")
           << attr.getName().getValue() << "' only on a repro.fold";
  // The other attributes of kernels and launches are verified by the passes
  // that read them.
  if (attr.getName() != "repro.num_state")
    return success();
  auto count = dyn_cast<IntegerAttr>(attr.getValue());
  if (!count || !count.getType().isSignlessInteger(64) ||
      !isa<FunctionOpInterface>(op))
    return op->emitOpError(
        "'repro.num_state' must be an i64 attribute of a function");
  // Discardable attributes are verified before the function's own attributes,
  // which malformed generic IR may lack.
  auto function = dyn_cast<func::FuncOp>(op);
  TypeAttr typeAttr =
      function ? function.getProperties().function_type : TypeAttr();
  auto type =
      dyn_cast_or_null<FunctionType>(typeAttr ? typeAttr.getValue() : Type());
  if (!type)
    return success();
  int64_t value = count.getInt();
  if (value < 0 || value > int64_t(type.getNumInputs()) ||
      value > int64_t(type.getNumResults()))
    return op->emitOpError("'repro.num_state' is ")
           << value << ", expected at most the number of arguments ("
           << type.getNumInputs() << ") and of results ("
           << type.getNumResults() << ")";
  return success();
}

LogicalResult ReproDialect::verifyRegionArgAttribute(Operation *op,
                                                     unsigned region,
                                                     unsigned arg,
                                                     NamedAttribute attr) {
  if (attr.getName() == "repro.name" && !isa<StringAttr>(attr.getValue()))
    return op->emitOpError("'repro.name' of argument ")
           << arg << " must be a string";
  return success();
}

/// Each lane is an accumulator. The limit rejects programs with more lanes than
/// any machine could use.
static constexpr int64_t kMaxLanes = 1024;

LogicalResult OrderAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t chunk, int64_t lanes, int64_t run,
                                Totals totals) {
  if (chunk < 1)
    return emitError() << "(F1) chunk must be positive, got " << chunk;
  if (lanes < 1 || lanes > kMaxLanes || (lanes & (lanes - 1)))
    return emitError() << "(F2) lanes must be a power of two of at most "
                       << kMaxLanes << ", got " << lanes;
  if (run < 0)
    return emitError() << "(F1) run must not be negative, got " << run;
  // With chunks of one element, refolding would never reduce the number of
  // totals.
  if (totals == Totals::refold && chunk < 2)
    return emitError() << "(F3) refold needs a chunk of at least 2, got "
                       << chunk;
  return success();
}

/// The limit of (M1) on the terms, and a limit on the floor that exceeds the
/// exponent of any product of two f32.
static constexpr int64_t kMaxFdpaTerms = 128, kMaxFdpaFloor = 300;

LogicalResult ExactAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t digits) {
  if (digits != 2 && digits != 3)
    return emitError() << "(K4) digits must be 2 or 3, got " << digits;
  return success();
}

LogicalResult FdpaAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t terms, std::optional<int64_t> fraction,
                               SumRounding, int64_t floor, bool late,
                               int64_t chunk, SumStart start, int64_t group) {
  if (terms < 1 || terms > kMaxFdpaTerms)
    return emitError() << "(M1) terms must be 1 to " << kMaxFdpaTerms
                       << ", got " << terms;
  if (fraction && (*fraction < 10 || *fraction > 40))
    return emitError() << "(M1) fraction must be 10 to 40, got " << *fraction;
  if (!fraction && floor != 0)
    return emitError() << "(M4) floor must be 0 without fraction, got "
                       << floor;
  if (floor < -kMaxFdpaFloor || floor > kMaxFdpaFloor)
    return emitError() << "(M4) floor must be " << -kMaxFdpaFloor << " to "
                       << kMaxFdpaFloor << ", got " << floor;
  if (late && terms % 2 != 0)
    return emitError() << "(M4) late needs an even number of terms, got "
                       << terms;
  int64_t block = late ? 2 * terms : terms;
  if (chunk < 0 || chunk % block != 0)
    return emitError() << "(M4) chunk must be 0 or a multiple of a block of "
                       << block << " products, got " << chunk;
  if (start == SumStart::init && chunk != 0)
    return emitError() << "(M4) start = init needs one chain, but chunk is "
                       << chunk;
  if (group < 1 || terms % group != 0)
    return emitError() << "(M2) group must divide the " << terms
                       << " terms of a block, got " << group;
  return success();
}

LogicalResult PowiOp::verify() {
  // The elementwise trait has already rejected operands of different shapes.
  if (isa<ShapedType>(getBase().getType()) ==
      isa<ShapedType>(getExponent().getType()))
    return success();
  return emitOpError("(S5) expected one exponent for each base, got ")
         << getBase().getType() << " and " << getExponent().getType();
}
