//===- CodeSections.h - The code that kernels need --------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_CODEGEN_CORES_CODESECTIONS_H
#define REPRO_CODEGEN_CORES_CODESECTIONS_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

namespace mlir::repro::cores {

/// The sections of objects with a section for each function. A linker that
/// removes unused sections makes images of these sizes, except for padding.
class CodeSections {
public:
  /// Adds the sections of an ELF object. The first definition of a symbol
  /// counts.
  llvm::Error add(llvm::StringRef object);

  /// Returns the number of bytes of all sections that these kernels need, each
  /// with the padding after it.
  uint64_t getBytes(llvm::ArrayRef<llvm::StringRef> kernels) const;

private:
  struct Section {
    uint64_t bytes = 0, alignment = 1;
    llvm::SmallVector<unsigned> sections;   ///< needed ones of its object
    llvm::SmallVector<std::string> symbols; ///< needed ones of any object
  };

  std::vector<Section> sections;
  llvm::StringMap<unsigned> definitions; ///< the sections of global symbols
};

} // namespace mlir::repro::cores

#endif // REPRO_CODEGEN_CORES_CODESECTIONS_H
