//===- Digits.cpp - Common coordinates of views ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Digits.h"

#include "Codegen/Schedule/Buffers/Kernel.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

std::optional<Digits> Digits::get(int64_t begin, ArrayRef<Place> views) {
  Digits digits;
  digits.begin = begin;
  digits.values.push_back(1);
  for (const Place &view : views) {
    int64_t bytes = launch::getElementBytes(view.type.getElementType());
    if (digits.elementBytes && digits.elementBytes != bytes)
      return std::nullopt;
    digits.elementBytes = bytes;
    if ((view.offset - begin) % bytes)
      return std::nullopt;
    int64_t unused;
    SmallVector<int64_t> strides = *getStaticStrides(view.type, unused);
    for (auto [size, stride] : llvm::zip_equal(view.type.getShape(), strides))
      if (size > 1)
        digits.values.push_back(stride);
  }
  llvm::sort(digits.values, std::greater<>());
  digits.values.erase(llvm::unique(digits.values), digits.values.end());
  // A stride of 0 repeats elements.
  if (digits.values.back() != 1)
    return std::nullopt;
  for (unsigned i = 1; i < digits.values.size(); ++i)
    if (digits.values[i - 1] % digits.values[i])
      return std::nullopt;
  return digits;
}

std::optional<DigitView> DigitView::get(const Digits &digits,
                                        const Place &view) {
  DigitView result;
  int64_t first = (view.offset - digits.begin) / digits.elementBytes;
  for (int64_t value : digits.values) {
    result.origin.push_back(first / value);
    first %= value;
  }
  llvm::SmallBitVector used(digits.values.size());
  int64_t unused;
  SmallVector<int64_t> strides = *getStaticStrides(view.type, unused);
  for (auto [size, stride] : llvm::zip_equal(view.type.getShape(), strides)) {
    Dimension &dimension = result.dimensions.emplace_back();
    if (size <= 1)
      continue;
    auto *found = llvm::find(digits.values, stride);
    assert(found != digits.values.end() && "a stride of a view of the digits");
    int64_t last = found - digits.values.begin();
    int64_t top = last;
    while (top > 0 && digits.values[top - 1] < size * stride)
      --top;
    for (int64_t digit = top; digit <= last; ++digit) {
      if (used[digit])
        return std::nullopt;
      used.set(digit);
      // An addition to the digits has no carry.
      if (digit > top && result.origin[digit] != 0)
        return std::nullopt;
      dimension.digits.push_back(digit);
      dimension.factors.push_back(digits.values[digit] / stride);
    }
    int64_t most = result.origin[top] + (size - 1) / dimension.factors.front();
    if (top > 0 && most >= digits.values[top - 1] / digits.values[top])
      return std::nullopt;
  }
  return result;
}

/// Appends the boxes of digits with the given factors for the positions
/// [begin, begin + size). `prefix` has the digits before them.
static void splitInterval(int64_t begin, int64_t size,
                          ArrayRef<int64_t> factors, Box prefix,
                          SmallVectorImpl<Box> &boxes) {
  if (size <= 0)
    return;
  if (factors.empty()) {
    boxes.push_back(std::move(prefix));
    return;
  }
  int64_t factor = factors.front(), end = begin + size;
  ArrayRef<int64_t> rest = factors.drop_front();
  auto add = [&](int64_t digit, int64_t count, int64_t from, int64_t length) {
    Box next = prefix;
    next.push_back({digit, count});
    splitInterval(from, length, rest, std::move(next), boxes);
  };
  int64_t first = begin / factor;
  if (begin % factor || size < factor) {
    int64_t part = std::min(size, factor - begin % factor);
    add(first, 1, begin % factor, part);
    begin += part;
  }
  if (int64_t count = (end - begin) / factor; count > 0) {
    add(begin / factor, count, 0, factor);
    begin += count * factor;
  }
  if (begin < end)
    add(begin / factor, 1, 0, end - begin);
}

SmallVector<Box> DigitView::split(ArrayRef<Interval> box) const {
  SmallVector<Box> boxes;
  if (getNumElements(box) == 0)
    return boxes;
  Box &start = boxes.emplace_back();
  for (int64_t digit : origin)
    start.push_back({digit, 1});
  for (auto [dimension, range] : llvm::zip_equal(dimensions, box)) {
    if (dimension.digits.empty())
      continue;
    SmallVector<Box> parts, next;
    splitInterval(range.begin, range.size, dimension.factors, {}, parts);
    for (const Box &known : boxes)
      for (const Box &part : parts) {
        Box &added = next.emplace_back(known);
        for (auto [digit, interval] : llvm::zip_equal(dimension.digits, part))
          added[digit] = {origin[digit] + interval.begin, interval.size};
      }
    boxes = std::move(next);
  }
  return boxes;
}

DigitView::Layout DigitView::getLayout(ArrayRef<Interval> box) const {
  Layout layout;
  layout.strides.assign(origin.size(), 0);
  int64_t row = 1;
  for (int64_t dim = box.size() - 1; dim >= 0; --dim) {
    const Dimension &dimension = dimensions[dim];
    layout.offset -= box[dim].begin * row;
    for (auto [digit, factor] :
         llvm::zip_equal(dimension.digits, dimension.factors)) {
      layout.strides[digit] = factor * row;
      layout.offset -= origin[digit] * factor * row;
    }
    row *= box[dim].size;
  }
  return layout;
}

int64_t DigitView::Layout::getPlace(ArrayRef<Interval> part) const {
  int64_t place = offset;
  for (auto [stride, range] : llvm::zip_equal(strides, part))
    place += stride * range.begin;
  return place;
}
