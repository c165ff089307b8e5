//===- Decoder.h - Translates PTX statements to steps -----------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_EMULATOR_DECODER_H
#define REPRO_EMULATOR_DECODER_H

#include "Emulator/Steps.h"

#include <unordered_map>
#include <unordered_set>

namespace repro_emulator {

using OpcodeMap = std::unordered_map<std::string_view, const Operation *>;

/// Translates an entry function, and the functions that it calls, to steps. A
/// construct that it does not support is an error. The first error ends the
/// translation.
class Decoder {
public:
  Decoder(const SourceModule &module, const OpcodeMap &opcodes,
          const std::vector<ModuleVariable> &variables)
      : module(module), opcodes(opcodes), moduleVariables(variables) {}

  /// Translates `entry` into `kernel`. Returns an error message with the line
  /// in the PTX text, empty on success.
  std::string decode(const Function &entry, Kernel &kernel);

private:
  /// One inlined copy of a function's body, with names of its own.
  struct Scope {
    const Function *function = nullptr;
    std::string prefix; // prefix of the body's names; empty for the kernel
    uint32_t returnLabel = noValue;
    /// The offset of each .param variable in local memory.
    std::unordered_map<std::string, uint64_t> parameters;
    /// The registers that instructions on floats write.
    std::unordered_set<std::string> floats;
  };
  /// An opcode, split at its dots. `at` is the next part to be consumed.
  struct Opcode {
    std::vector<std::string> parts;
    size_t at = 1;
    /// If the next part equals `name`, consumes it and returns true.
    bool take(std::string_view name);
    /// Consumes the next part and returns it; returns "" if there is none.
    std::string takeAny();
    bool atEnd() const { return at == parts.size(); }
    Type takeType();
  };

  // Bodies and statements (Decoder.cpp).
  void decodeBody(Scope &scope);
  void layOut(Scope &scope);
  static void findFloats(Scope &scope);
  void decodeStatement(const Statement &statement);
  bool decodeControl(const Statement &statement, Opcode &opcode);
  void decodeCall(const Statement &statement);
  void decodeBranchTable(const Statement &statement);
  uint32_t getLabel(const std::string &name);

  // Operands (DecodeOperands.cpp).
  Value getRegister(const std::string &name);
  Value getConstant(uint64_t bits, unsigned bytes, bool isPredicate = false);
  Value getSpecial(Special special);
  Value getOperand(const Operand &operand, std::string_view typeName);
  Value getOperand(const Operand &operand, Type type);
  Value getResult(const Operand &operand, std::string_view typeName);
  Value getResult(const Operand &operand, Type type);
  Value newRegister(unsigned bytes, bool isPredicate = false);
  bool resolveSymbol(const std::string &name, Space &space, uint64_t &address);
  void getAddress(const Operand &operand, Step &step);
  unsigned getRegisterBits(const Operand &operand);
  bool expectOperands(const Statement &statement, size_t count);

  // Steps (Decoder.cpp).
  Step &addStep(Kind kind);
  void addPure(std::string_view opcode, Value result,
               std::initializer_list<Value> sources);
  Value addPure(std::string_view opcode, std::initializer_list<Value> sources);

  // Instructions without memory (DecodePure.cpp).
  void decodeTable(const Statement &statement, const Operation &operation);
  bool decodeMove(const Statement &statement, Opcode &opcode);
  bool decodeConvert(const Statement &statement, Opcode &opcode);
  bool decodeSetPredicate(const Statement &statement, Opcode &opcode);
  bool decodeCarry(const Statement &statement, Opcode &opcode);
  bool decodeAddressConversion(const Statement &statement, Opcode &opcode);

  // Memory (DecodeMemory.cpp).
  bool decodeLoadStore(const Statement &statement, Opcode &opcode);
  bool decodeParameterAccess(const Statement &statement, Step &step,
                             const Operand &address,
                             const std::vector<Value> &registers, bool isLoad,
                             Type type);
  bool decodeAtomic(const Statement &statement, Opcode &opcode);
  bool decodeAsync(const Statement &statement, Opcode &opcode);
  void noteGranule(Space space, unsigned bytes);
  static void takeOrdering(Opcode &opcode, Detail &detail);
  static bool takeSpace(Opcode &opcode, Space &space);
  std::vector<Value> getElements(const Operand &operand, Type type,
                                 unsigned count, bool isLoad,
                                 uint8_t &registerBytes);

  // Warp-synchronous instructions (DecodeWarp.cpp).
  bool decodeBarrier(const Statement &statement, Opcode &opcode);
  bool decodeShuffle(const Statement &statement, Opcode &opcode);
  bool decodeVote(const Statement &statement, Opcode &opcode);
  bool decodeMatch(const Statement &statement, Opcode &opcode);
  bool decodeReduce(const Statement &statement, Opcode &opcode);
  bool decodeMatrixMultiply(const Statement &statement, Opcode &opcode);
  bool decodeLoadMatrix(const Statement &statement, Opcode &opcode);

  void fail(const std::string &message);
  bool failed() const { return !error.empty(); }

  const SourceModule &module;
  const OpcodeMap &opcodes;
  const std::vector<ModuleVariable> &moduleVariables;
  Kernel *kernel = nullptr;
  StepProgram program;
  Scope *scope = nullptr;
  std::vector<const Function *> callStack;
  unsigned numCalls = 0;
  std::unordered_map<std::string, Value> registers;
  std::unordered_map<std::string, uint32_t> labels;
  std::unordered_map<std::string, uint64_t> sharedOffsets, localOffsets;
  std::unordered_map<uint64_t, Value> constants[9];
  std::unordered_map<int, Value> specials;
  Value carry = noValue;
  int line = 0;
  std::string statementText; // the opcode, for messages
  Value guard = noValue;
  bool guardNegated = false;
  std::string error;
};

} // namespace repro_emulator

#endif // REPRO_EMULATOR_DECODER_H
