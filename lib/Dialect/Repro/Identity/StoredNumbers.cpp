//===- StoredNumbers.cpp - Numbers of enumerations in programs ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/StoredNumbers.h"

using namespace mlir;
using namespace mlir::repro;

// The number of a value is its index in the table. New values are appended, so
// that numbers never change.

static constexpr arith::CmpIPredicate integerPredicates[] = {
    arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,
    arith::CmpIPredicate::slt, arith::CmpIPredicate::sle,
    arith::CmpIPredicate::sgt, arith::CmpIPredicate::sge,
    arith::CmpIPredicate::ult, arith::CmpIPredicate::ule,
    arith::CmpIPredicate::ugt, arith::CmpIPredicate::uge};

static constexpr arith::CmpFPredicate floatPredicates[] = {
    arith::CmpFPredicate::AlwaysFalse, arith::CmpFPredicate::OEQ,
    arith::CmpFPredicate::OGT,         arith::CmpFPredicate::OGE,
    arith::CmpFPredicate::OLT,         arith::CmpFPredicate::OLE,
    arith::CmpFPredicate::ONE,         arith::CmpFPredicate::ORD,
    arith::CmpFPredicate::UEQ,         arith::CmpFPredicate::UGT,
    arith::CmpFPredicate::UGE,         arith::CmpFPredicate::ULT,
    arith::CmpFPredicate::ULE,         arith::CmpFPredicate::UNE,
    arith::CmpFPredicate::UNO,         arith::CmpFPredicate::AlwaysTrue};

static constexpr ArgKind kinds[] = {ArgKind::max, ArgKind::min};

static constexpr Combine combines[] = {Combine::add, Combine::mul,
                                       Combine::maximum, Combine::minimum,
                                       Combine::replace};

static constexpr SortDirection directions[] = {SortDirection::ascending,
                                               SortDirection::descending};

static constexpr Distribution distributions[] = {Distribution::bits,
                                                 Distribution::uniform};

static constexpr BlockStep blockSteps[] = {BlockStep::fused, BlockStep::split,
                                           BlockStep::scaled};

static constexpr Totals totalsOfOrders[] = {Totals::sequential, Totals::refold};

static constexpr SumRounding sumRoundings[] = {
    SumRounding::rz_f32, SumRounding::rz_e8m13, SumRounding::rne_f16,
    SumRounding::rne_f32};

static constexpr SumStart sumStarts[] = {SumStart::zero, SumStart::init};

template <typename T>
static std::optional<uint64_t> find(ArrayRef<T> values, T value) {
  const T *found = llvm::find(values, value);
  if (found == values.end())
    return std::nullopt;
  return found - values.begin();
}

/// Calls `use` with a null attribute of the type that `form` names, and with
/// the values of its enumeration.
template <typename Use>
static auto withForm(AttributeForm form, Use use) {
  switch (form) {
  case AttributeForm::integerPredicate:
    return use(arith::CmpIPredicateAttr(), ArrayRef(integerPredicates));
  case AttributeForm::floatPredicate:
    return use(arith::CmpFPredicateAttr(), ArrayRef(floatPredicates));
  case AttributeForm::kind:
    return use(ArgKindAttr(), ArrayRef(kinds));
  case AttributeForm::combine:
    return use(CombineAttr(), ArrayRef(combines));
  case AttributeForm::direction:
    return use(SortDirectionAttr(), ArrayRef(directions));
  case AttributeForm::distribution:
    return use(DistributionAttr(), ArrayRef(distributions));
  case AttributeForm::blockStep:
    return use(BlockStepAttr(), ArrayRef(blockSteps));
  default:
    llvm_unreachable("expected the form of an enumeration");
  }
}

std::optional<uint64_t> repro::getStoredNumber(AttributeForm form,
                                               Attribute value) {
  return withForm(form, [&](auto null, auto values) -> std::optional<uint64_t> {
    auto typed = dyn_cast_or_null<decltype(null)>(value);
    return typed ? find(values, typed.getValue()) : std::nullopt;
  });
}

std::optional<uint64_t> repro::getStoredNumber(Totals totals) {
  return find(ArrayRef(totalsOfOrders), totals);
}

std::optional<uint64_t> repro::getStoredNumber(SumRounding rounding) {
  return find(ArrayRef(sumRoundings), rounding);
}

std::optional<uint64_t> repro::getStoredNumber(SumStart start) {
  return find(ArrayRef(sumStarts), start);
}

Attribute repro::getStoredValue(AttributeForm form, uint64_t number,
                                MLIRContext *context) {
  return withForm(form, [&](auto null, auto values) -> Attribute {
    if (number >= values.size())
      return nullptr;
    return decltype(null)::get(context, values[number]);
  });
}

template <typename T>
static std::optional<T> getAt(ArrayRef<T> values, uint64_t number) {
  if (number >= values.size())
    return std::nullopt;
  return values[number];
}

std::optional<Totals> repro::getStoredTotals(uint64_t number) {
  return getAt(ArrayRef(totalsOfOrders), number);
}

std::optional<SumRounding> repro::getStoredSumRounding(uint64_t number) {
  return getAt(ArrayRef(sumRoundings), number);
}

std::optional<SumStart> repro::getStoredSumStart(uint64_t number) {
  return getAt(ArrayRef(sumStarts), number);
}
