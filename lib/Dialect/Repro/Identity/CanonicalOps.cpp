//===- CanonicalOps.cpp - The operations of a canonical program -----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/CanonicalOps.h"

#include "dialects/Repro/IR/Repro.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::repro;

using Form = AttributeForm;
using Place = CanonicalPlace;

static constexpr CanonicalAttribute segments = {"operandSegmentSizes",
                                                Form::segments};

static constexpr CanonicalAttribute wrapping[] = {
    {"overflowFlags", Form::none}};
static constexpr CanonicalAttribute inexact[] = {{"isExact", Form::none}};
static constexpr CanonicalAttribute strict[] = {{"fastmath", Form::none}};
static constexpr CanonicalAttribute rounded[] = {{"roundingmode", Form::none},
                                                 {"fastmath", Form::none}};
static constexpr CanonicalAttribute comparedIntegers[] = {
    {"predicate", Form::integerPredicate}};
static constexpr CanonicalAttribute comparedFloats[] = {
    {"predicate", Form::floatPredicate}, {"fastmath", Form::none}};
static constexpr CanonicalAttribute valued[] = {{"value", Form::constant}};
static constexpr CanonicalAttribute message[] = {{"msg", Form::text}};
static constexpr CanonicalAttribute dimension[] = {{"dim", Form::integer}};
static constexpr CanonicalAttribute generic[] = {
    {"indexing_maps", Form::maps},
    {"iterator_types", Form::iterators},
    {"doc", Form::none},
    {"library_call", Form::none},
    segments};
static constexpr CanonicalAttribute sliced[] = {
    {"static_offsets", Form::integers},
    {"static_sizes", Form::integers},
    {"static_strides", Form::integers},
    segments};
static constexpr CanonicalAttribute expanded[] = {
    {"reassociation", Form::reassociation},
    {"static_output_shape", Form::integers}};
static constexpr CanonicalAttribute collapsed[] = {
    {"reassociation", Form::reassociation}};
static constexpr CanonicalAttribute padded[] = {{"static_low", Form::integers},
                                                {"static_high", Form::integers},
                                                {"nofold", Form::none},
                                                segments};
static constexpr CanonicalAttribute folded[] = {
    {"indexing_maps", Form::maps},
    {"iterator_types", Form::iterators},
    {"order", Form::order},
    segments};
static constexpr CanonicalAttribute argReduced[] = {
    {"kind", Form::kind}, {"dimension", Form::integer}, segments};
static constexpr CanonicalAttribute scattered[] = {{"combine", Form::combine},
                                                   segments};
static constexpr CanonicalAttribute scanned[] = {
    {"combine", Form::combine}, {"dimension", Form::integer}, segments};
static constexpr CanonicalAttribute sorted[] = {
    {"direction", Form::direction}, {"dimension", Form::integer}, segments};
static constexpr CanonicalAttribute drawn[] = {
    {"distribution", Form::distribution}, {"site", Form::integer}, segments};

static constexpr CanonicalAttribute quantized[] = {
    {"format", Form::blockFormat}, {"site", Form::optionalInteger}, segments};
static constexpr CanonicalAttribute dequantized[] = {
    {"format", Form::blockFormat}};

static constexpr CanonicalAttribute blockContracted[] = {
    {"step", Form::blockStep},
    {"block", Form::integer},
    {"rows", Form::integers},
    {"fraction_bits", Form::optionalInteger},
    segments};

/// (M5) The name of a block contraction with an accumulator. The attribute
/// `accumulator` was added later, so operations that have it get a name of
/// their own.
static constexpr llvm::StringLiteral accumulated =
    "repro.accumulated_block_contraction";
static constexpr CanonicalAttribute accumulatedBlocks[] = {
    {"step", Form::blockStep},
    {"block", Form::integer},
    {"rows", Form::integers},
    {"accumulator", Form::accumulator},
    segments};

static llvm::StringMap<CanonicalOp> makeTable() {
  llvm::StringMap<CanonicalOp> table;
  auto add = [&](Place place, ArrayRef<CanonicalAttribute> attributes,
                 std::initializer_list<llvm::StringLiteral> names) {
    for (StringRef name : names)
      table.try_emplace(name, CanonicalOp{place, attributes});
  };
  add(Place::anywhere, wrapping,
      {"arith.addi", "arith.muli", "arith.shli", "arith.subi", "arith.trunci"});
  add(Place::anywhere, inexact,
      {"arith.divsi", "arith.divui", "arith.shrsi", "arith.shrui"});
  add(Place::anywhere, {}, {"arith.andi",           "arith.bitcast",
                            "arith.extsi",          "arith.extui",
                            "arith.fptosi",         "arith.fptoui",
                            "arith.index_cast",     "arith.index_castui",
                            "arith.maxsi",          "arith.maxui",
                            "arith.minsi",          "arith.minui",
                            "arith.addui_extended", "arith.mulsi_extended",
                            "arith.mului_extended", "arith.ori",
                            "arith.remsi",          "arith.remui",
                            "arith.select",         "arith.sitofp",
                            "arith.uitofp",         "arith.xori"});
  add(Place::anywhere, strict,
      {"arith.addf", "arith.divf", "arith.extf", "arith.maximumf",
       "arith.minimumf", "arith.mulf", "arith.negf", "arith.remf", "arith.subf",
       "math.absf", "math.ceil", "math.copysign", "math.floor", "math.fma",
       "math.round", "math.roundeven", "math.sqrt", "math.trunc"});
  add(Place::anywhere, {},
      {"math.absi", "math.ctlz", "math.ctpop", "math.cttz"});
  add(Place::anywhere, rounded, {"arith.truncf"});
  add(Place::anywhere, comparedIntegers, {"arith.cmpi"});
  add(Place::anywhere, comparedFloats, {"arith.cmpf"});
  add(Place::anywhere, valued, {"arith.constant"});
  add(Place::anywhere, message, {"cf.assert"});
  add(Place::anywhere, {},
      {"repro.acos",  "repro.acosh", "repro.asin", "repro.asinh", "repro.atan",
       "repro.atan2", "repro.atanh", "repro.cbrt", "repro.cos",   "repro.cosh",
       "repro.erf",   "repro.erfc",  "repro.exp",  "repro.exp10", "repro.exp2",
       "repro.expm1", "repro.hypot", "repro.log",  "repro.log10", "repro.log1p",
       "repro.log2",  "repro.pow",   "repro.powi", "repro.rsqrt", "repro.sin",
       "repro.sinh",  "repro.tan",   "repro.tanh"});
  add(Place::anywhere, {}, {"tensor.dim", "tensor.extract"});
  add(Place::program, {},
      {"func.return", "tensor.cast", "tensor.empty", "tensor.from_elements",
       "tensor.splat"});
  add(Place::program, generic, {"linalg.generic"});
  add(Place::generic, {}, {"linalg.yield"});
  add(Place::generic, dimension, {"linalg.index"});
  add(Place::program, sliced, {"tensor.extract_slice", "tensor.insert_slice"});
  add(Place::program, expanded, {"tensor.expand_shape"});
  add(Place::program, collapsed, {"tensor.collapse_shape"});
  add(Place::program, padded, {"tensor.pad"});
  add(Place::pad, {}, {"tensor.yield"});
  add(Place::program, dimension, {"tensor.concat"});
  add(Place::program, folded, {"repro.fold"});
  add(Place::fold, {}, {"repro.yield"});
  add(Place::fold, dimension, {"repro.index"});
  add(Place::program, argReduced, {"repro.arg_reduce"});
  add(Place::program, scattered, {"repro.scatter"});
  add(Place::program, scanned, {"repro.scan"});
  add(Place::program, sorted, {"repro.sort"});
  add(Place::program, drawn, {"repro.random"});
  add(Place::program, {}, {"repro.barrier"});
  add(Place::program, quantized, {"repro.quantize"});
  add(Place::program, dequantized, {"repro.dequantize"});
  add(Place::program, {}, {"repro.pack_codes", "repro.unpack_codes"});
  add(Place::program, blockContracted, {"repro.block_contraction"});
  add(Place::program, accumulatedBlocks,
      {"repro.accumulated_block_contraction"});
  return table;
}

StringRef repro::getStoredName(Operation *op) {
  auto contraction = dyn_cast<BlockContractionOp>(op);
  return contraction && contraction.getAccumulator()
             ? StringRef(accumulated)
             : op->getName().getStringRef();
}

StringRef repro::getOperationName(StringRef storedName) {
  return storedName == accumulated ? BlockContractionOp::getOperationName()
                                   : storedName;
}

const CanonicalOp *repro::lookupCanonicalOp(StringRef storedName) {
  static const llvm::StringMap<CanonicalOp> table = makeTable();
  auto entry = table.find(storedName);
  return entry == table.end() ? nullptr : &entry->second;
}

StringRef repro::getDecomposition(OperationName name) {
  return llvm::StringSwitch<StringRef>(name.getStringRef())
      .Cases({"repro.attention", "repro.attention_gradient"},
             "repro-decompose-attention")
      .Case("repro.convolution", "repro-decompose-convolution")
      .Default("");
}
