//===- Syntax.h - The syntax tree of PTX text -------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_EMULATOR_SYNTAX_H
#define REPRO_EMULATOR_SYNTAX_H

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace repro_emulator {

/// A fundamental type of PTX.
struct Type {
  enum Class : uint8_t { None, Bits, Unsigned, Signed, Float, Predicate };
  Class kind = None;
  unsigned bits = 0;

  bool isInteger() const { return kind == Unsigned || kind == Signed; }
  explicit operator bool() const { return kind != None; }
};

/// Returns the type with a name such as "u32", or a type of class None for
/// other names.
Type parseType(std::string_view name);

/// An operand of an instruction.
struct Operand {
  enum Kind : uint8_t {
    Register, // %r1, %tid.x
    Integer,  // 42: its value in `bits`
    Float32,  // 0f3F800000: its bits
    Float64,  // 0d3FF0000000000000
    Symbol,   // a variable, function or label
    Address,  // [name + bits]
    List,     // {a, b}, (a, b) or a|b
    Sink,     // _
  };
  Kind kind = Sink;
  bool negated = false; // !%p
  std::string name;     // register or symbol; empty in [16]
  uint64_t bits = 0;
  std::vector<Operand> parts;
};

/// An instruction or a label.
struct Statement {
  int line = 0;
  std::string label; // if not empty, the statement is only a label
  std::string guard; // the predicate of @%p, or empty
  bool guardNegated = false;
  std::string opcode; // with its modifiers
  std::vector<Operand> operands;
};

/// A state space of PTX.
enum class Space : uint8_t {
  Generic,
  Global,
  Shared,
  Local,
  Constant,
  Parameter
};

/// A variable or parameter.
struct Variable {
  int line = 0;
  Space space = Space::Global;
  std::string name;
  uint64_t bytes = 0;
  uint64_t alignment = 1;
  bool external = false; // dynamic shared memory
  std::vector<uint8_t> initial;
};

/// A function or kernel.
struct Function {
  int line = 0;
  std::string name;
  bool entry = false;
  bool defined = false;
  std::vector<Variable> parameters, results;
  std::vector<Variable> variables;
  std::unordered_map<std::string, Type> registers;
  std::vector<Statement> statements;
  /// The labels of each .branchtargets list, by the name of the list.
  std::map<std::string, std::vector<std::string>> branchTargets;
  /// The values of .reqntid and .maxntid; 0 if the function has none.
  uint32_t requiredBlock[3] = {0, 0, 0}, greatestBlock[3] = {0, 0, 0};
};

/// A parsed PTX module.
struct SourceModule {
  std::string target; // "sm_75"
  std::vector<Variable> variables;
  std::vector<Function> functions;
};

/// Parses PTX text into `module`. Returns an error message with the line, empty
/// on success.
std::string parsePtx(std::string_view text, SourceModule &module);

} // namespace repro_emulator

#endif // REPRO_EMULATOR_SYNTAX_H
