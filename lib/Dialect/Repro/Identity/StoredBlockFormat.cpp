//===- StoredBlockFormat.cpp - Formats of blocks as numbers ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/StoredBlockFormat.h"

#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace mlir::repro;

// The stored number of a value is its index in one of these tables, so that it
// does not depend on the order of the enumeration.

static constexpr RoundingDirection roundingDirections[] = {
    RoundingDirection::rne, RoundingDirection::away, RoundingDirection::rz,
    RoundingDirection::sr};
static constexpr RandomLayout layouts[] = {RandomLayout::site,
                                           RandomLayout::ptx};
static constexpr NanCode nanCodes[] = {NanCode::largest, NanCode::zero,
                                       NanCode::negative_zero};
static constexpr PowerRule rules[] = {PowerRule::floor, PowerRule::ceil,
                                      PowerRule::even, PowerRule::rceil,
                                      PowerRule::rceil_product};
static constexpr InfiniteAmax infinities[] = {
    InfiniteAmax::nan, InfiniteAmax::largest, InfiniteAmax::power};
static constexpr ScaleEncoding encodings[] = {
    ScaleEncoding::product, ScaleEncoding::reciprocal, ScaleEncoding::quotient};
static constexpr bool flags[] = {false, true};

namespace {
/// The stored numbers of the scale attributes.
enum class ScaleKind : int64_t { power, twoLevel, quotient, f32, given };
} // namespace

template <typename T, size_t n>
static int64_t findNumber(const T (&values)[n], T value) {
  const T *found = llvm::find(values, value);
  assert(found != std::end(values) && "a value without a number");
  return found - values;
}

SmallVector<int64_t> repro::getStoredNumbers(BlockFormatAttr format) {
  RoundingAttr rounding = format.getRounding();
  SmallVector<int64_t> numbers = {
      format.getRows(),
      format.getColumns(),
      format.getSymmetric(),
      findNumber(roundingDirections, rounding.getDirection()),
      rounding.getBits(),
      findNumber(layouts, rounding.getLayout()),
      rounding.getSaturate(),
      findNumber(nanCodes, rounding.getNan()),
      rounding.getSignedZero()};
  auto append = [&](ScaleKind kind, ArrayRef<int64_t> parameters) {
    numbers.push_back(int64_t(kind));
    llvm::append_range(numbers, parameters);
  };
  if (auto power = dyn_cast<PowerScaleAttr>(format.getScale()))
    append(ScaleKind::power, {findNumber(rules, power.getRule()),
                              findNumber(infinities, power.getInfinity()),
                              power.getNan(), power.getLeast()});
  else if (auto twoLevel = dyn_cast<TwoLevelScaleAttr>(format.getScale()))
    append(ScaleKind::twoLevel, {twoLevel.getLargest()});
  else if (auto quotient = dyn_cast<QuotientScaleAttr>(format.getScale()))
    append(ScaleKind::quotient, {quotient.getLevels()});
  else if (isa<GivenScaleAttr>(format.getScale()))
    append(ScaleKind::given, {});
  else {
    auto scale = cast<F32ScaleAttr>(format.getScale());
    double least = scale.getLeast().getValueAsDouble();
    append(ScaleKind::f32, {findNumber(encodings, scale.getEncoding()),
                            llvm::bit_cast<int64_t>(least), scale.getInverse(),
                            scale.getPower()});
  }
  return numbers;
}

namespace {
/// Reads numbers one after the other. `isDone` returns false if a number was
/// not a value of the enumeration to which it was converted, or if there were
/// too few or too many numbers.
class Numbers {
public:
  explicit Numbers(ArrayRef<int64_t> numbers) : left(numbers) {}

  int64_t take() {
    if (left.empty()) {
      hasFailed = true;
      return 0;
    }
    int64_t first = left.front();
    left = left.drop_front();
    return first;
  }
  template <typename T, size_t n>
  T takeOf(const T (&values)[n]) {
    int64_t number = take();
    hasFailed |= number < 0 || number >= int64_t(n);
    return values[hasFailed ? 0 : number];
  }
  bool isDone() const { return !hasFailed && left.empty(); }

private:
  ArrayRef<int64_t> left;
  bool hasFailed = false;
};
} // namespace

BlockFormatAttr
repro::getStoredBlockFormat(function_ref<InFlightDiagnostic()> emitError,
                            Type element, ArrayRef<int64_t> stored) {
  MLIRContext *context = element.getContext();
  Numbers numbers(stored);
  int64_t rows = numbers.take(), columns = numbers.take();
  bool symmetric = numbers.takeOf(flags);
  RoundingDirection direction = numbers.takeOf(roundingDirections);
  int64_t bits = numbers.take();
  RandomLayout layout = numbers.takeOf(layouts);
  bool saturate = numbers.takeOf(flags);
  NanCode nan = numbers.takeOf(nanCodes);
  bool signedZero = numbers.takeOf(flags);
  int64_t kind = numbers.take();
  Attribute scale;
  switch (kind) {
  case int64_t(ScaleKind::power): {
    PowerRule rule = numbers.takeOf(rules);
    InfiniteAmax infinity = numbers.takeOf(infinities);
    int64_t nanByte = numbers.take(), least = numbers.take();
    scale = PowerScaleAttr::getChecked(emitError, context, rule, infinity,
                                       nanByte, least);
    break;
  }
  case int64_t(ScaleKind::twoLevel):
    scale = TwoLevelScaleAttr::getChecked(emitError, context, numbers.take());
    break;
  case int64_t(ScaleKind::quotient):
    scale = QuotientScaleAttr::getChecked(emitError, context, numbers.take());
    break;
  case int64_t(ScaleKind::f32): {
    ScaleEncoding encoding = numbers.takeOf(encodings);
    double least = llvm::bit_cast<double>(numbers.take());
    bool inverse = numbers.takeOf(flags), power = numbers.takeOf(flags);
    scale = F32ScaleAttr::getChecked(
        emitError, context, encoding,
        FloatAttr::get(Float64Type::get(context), least), inverse, power);
    break;
  }
  case int64_t(ScaleKind::given):
    scale = GivenScaleAttr::get(context);
    break;
  default:
    emitError() << "unknown kind of scales: " << kind;
    return nullptr;
  }
  if (!scale)
    return nullptr;
  if (!numbers.isDone()) {
    emitError() << "expected the numbers of a format of blocks";
    return nullptr;
  }
  auto rounding = RoundingAttr::getChecked(emitError, context, direction, bits,
                                           layout, saturate, nan, signedZero);
  if (!rounding)
    return nullptr;
  return BlockFormatAttr::getChecked(emitError, context, element, rows, columns,
                                     scale, rounding, symmetric);
}
