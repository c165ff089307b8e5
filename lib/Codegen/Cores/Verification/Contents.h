//===- Contents.h - What the bytes of a memory hold -------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_VERIFICATION_CONTENTS_H
#define REPRO_CODEGEN_CORES_VERIFICATION_CONTENTS_H

#include "mlir/IR/BuiltinTypes.h"

#include <map>

namespace mlir::repro::cores {

/// The order of the bytes of a buffer: row-major loops over `width` bytes.
struct Layout {
  struct Loop {
    int64_t count, stride; // in bytes
    bool operator==(const Loop &other) const {
      return count == other.count && stride == other.stride;
    }
  };
  SmallVector<Loop, 3> loops; ///< outermost first, of more than one iteration
  int64_t width = 0;

  static Layout get(MemRefType type);
  bool isContiguous() const { return loops.empty(); }
  int64_t countBytes() const;
  /// Returns the distance from the first byte to the byte after the last one.
  int64_t getExtent() const;
  /// Returns the distance from the first byte to byte number `byte`, and the
  /// number of bytes from there on that follow each other.
  std::pair<int64_t, int64_t> locate(int64_t byte) const;
  bool operator==(const Layout &other) const {
    return width == other.width && loops == other.loops;
  }
};

/// The value that successive bytes of a memory hold: that of bytes of a root
/// buffer of the launch plan, as one launch left them.
struct Origin {
  unsigned root = 0;
  int64_t base = 0; ///< of the layout's first byte in the root
  int version = 0;  ///< the launch; kInitial before the first one
  /// The layout in the root; null if the bytes follow each other there.
  const Layout *layout = nullptr;
};

inline constexpr int kInitial = -1;

/// The contents of one memory.
class Contents {
public:
  /// The bytes [begin, end) of the memory hold `origin`, whose layout's first
  /// byte is byte `start` of the memory.
  struct Part {
    int64_t begin, end;
    Origin origin;
    int64_t start;

    int64_t size() const { return end - begin; }
    /// Returns the byte of the root that `byte` of the memory holds, and the
    /// number of bytes from there on that follow each other in the root.
    std::pair<int64_t, int64_t> locate(int64_t byte) const;
  };

  /// Sets what [begin, end) holds; `origin` begins at `begin`.
  void write(int64_t begin, int64_t end, const Origin &origin) {
    write({begin, end, origin, begin});
  }
  void write(const Part &part);
  /// Makes bytes undefined.
  void clear(int64_t begin, int64_t end);
  /// Returns the parts of [begin, end) in ascending order, without those bytes
  /// that are undefined.
  SmallVector<Part, 2> read(int64_t begin, int64_t end) const;

private:
  std::map<int64_t, Part> parts; ///< by begin; no two have a byte in common
};

/// Copies bytes between buffers that begin at these bytes of their memories.
/// The buffers have equal numbers of bytes. The layouts live as long as the
/// contents.
void copyContents(const Contents &from, int64_t fromOffset,
                  const Layout &fromLayout, Contents &to, int64_t toOffset,
                  const Layout &toLayout);

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_VERIFICATION_CONTENTS_H
