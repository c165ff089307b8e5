//===- FloatResults.h - PTX instructions with float results -----*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler must avoid a store that is narrower than its register if the
// register is the float result of an instruction: ptxas then converts the float
// to an integer instead of storing the low bits. This file is plain C++17
// without LLVM, because the compiler and the emulator include it.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_TARGET_FLOATRESULTS_H
#define REPRO_TARGET_FLOATRESULTS_H

#include <algorithm>
#include <string_view>

namespace repro_target {

/// Returns whether an instruction's result is a float, or several floats packed
/// in a register. The first type in an opcode is the type of the result.
constexpr bool givesFloat(std::string_view opcode) {
  auto isDigit = [](char c) { return '0' <= c && c <= '9'; };
  while (!opcode.empty()) {
    std::string_view part = opcode.substr(0, opcode.find('.'));
    opcode.remove_prefix(std::min(part.size() + 1, opcode.size()));
    if (part.size() > 2 && part.substr(0, 2) == "bf" && isDigit(part[2]))
      return true;
    if (part.size() > 1 && isDigit(part[1]) &&
        std::string_view("bfsu").find(part[0]) != std::string_view::npos)
      return part[0] == 'f';
  }
  return false;
}

} // namespace repro_target

#endif // REPRO_TARGET_FLOATRESULTS_H
