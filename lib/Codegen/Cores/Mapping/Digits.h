//===- Digits.h - Common coordinates of views -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches view the same bytes with different shapes: one writes 64 x 768
// elements, and another one reads 64 x 48 x 4 x 4. The distances between the
// elements of both are the places of a number system, here 768, 16, 4 and 1.
// Its digits are coordinates for the boxes of all views.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_MAPPING_DIGITS_H
#define REPRO_CODEGEN_CORES_MAPPING_DIGITS_H

#include "ByteRanges.h"

namespace mlir::repro::cores {

/// The digits of the elements of a range of bytes, the largest one first. Each
/// value is a multiple of the next one, and the last one is 1.
struct Digits {
  int64_t begin = 0;        ///< of the range, in bytes of the root
  int64_t elementBytes = 0; ///< of all views
  SmallVector<int64_t> values;

  /// Returns the digits for views of a range. std::nullopt if there are none.
  static std::optional<Digits> get(int64_t begin, ArrayRef<Place> views);
};

/// A view in the coordinates of the digits.
class DigitView {
public:
  static std::optional<DigitView> get(const Digits &digits, const Place &view);

  /// Returns a box of the view as boxes of digits.
  SmallVector<Box> split(ArrayRef<Interval> box) const;

  /// The place of the elements of a box in a memory that contains the box
  /// without gaps, row by row: the sum of the digits times the strides, and the
  /// offset, in elements.
  struct Layout {
    SmallVector<int64_t> strides;
    int64_t offset = 0;

    int64_t getPlace(ArrayRef<Interval> part) const;
  };
  Layout getLayout(ArrayRef<Interval> box) const;

private:
  /// The digits of one dimension of the view, the largest one first.
  struct Dimension {
    SmallVector<unsigned> digits;
    SmallVector<int64_t> factors; ///< the steps of the dimension for each
  };
  SmallVector<int64_t> origin; ///< the digits of the first element
  SmallVector<Dimension> dimensions;
};

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_MAPPING_DIGITS_H
