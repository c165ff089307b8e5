//===- DecodePure.cpp - Instructions without memory -----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/Decoder.h"

using namespace repro_emulator;

void Decoder::decodeTable(const Statement &statement,
                          const Operation &operation) {
  size_t count = 0;
  while (operation.types[count])
    ++count;
  if (!expectOperands(statement, count))
    return;
  std::vector<Value> sources;
  for (size_t i = 1; i < count; ++i)
    sources.push_back(getOperand(statement.operands[i], operation.types[i]));
  Value result = getResult(statement.operands[0], operation.types[0]);
  if (failed())
    return;
  Step &step = addStep(Kind::Pure);
  step.compute = operation.compute;
  step.results = {result};
  step.sources = std::move(sources);
}

/// Decodes a mov between a register and a list of registers with its parts.
bool Decoder::decodeMove(const Statement &statement, Opcode &opcode) {
  Type type = opcode.takeType();
  if (!type || !opcode.atEnd() || !expectOperands(statement, 2))
    return false;
  const Operand &to = statement.operands[0], &from = statement.operands[1];
  bool joins = from.kind == Operand::List, cuts = to.kind == Operand::List;
  if (!joins && !cuts)
    return false;
  const std::vector<Operand> &parts = joins ? from.parts : to.parts;
  if ((joins && cuts) || type.kind != Type::Bits ||
      !((type.bits == 32 && parts.size() == 2) ||
        (type.bits == 64 && (parts.size() == 2 || parts.size() == 4)))) {
    fail("unknown form of '" + statement.opcode + "'");
    return true;
  }
  Type partType = {Type::Bits, unsigned(type.bits / parts.size())};
  std::string suffix = ".b" + std::to_string(type.bits);
  if (joins) {
    std::vector<Value> values;
    for (const Operand &part : parts)
      values.push_back(getOperand(part, partType));
    Value result = getResult(to, type);
    if (failed())
      return true;
    if (parts.size() == 2)
      addPure("join" + suffix, result, {values[0], values[1]});
    else
      addPure("join4" + suffix, result,
              {values[0], values[1], values[2], values[3]});
    return true;
  }
  Value source = getOperand(from, type);
  if (failed())
    return true;
  const char *name = parts.size() == 2 ? "part" : "quarter";
  for (size_t i = 0; i < parts.size(); ++i)
    if (parts[i].kind != Operand::Sink)
      addPure(name + std::to_string(i) + suffix, getResult(parts[i], partType),
              {source});
  return true;
}

static std::string getName(Type type) {
  return (type.kind == Type::Signed ? "s" : "u") + std::to_string(type.bits);
}

/// Decodes a cvt from an integer if a register is wider than the type in the
/// opcode.
bool Decoder::decodeConvert(const Statement &statement, Opcode &opcode) {
  if (opcode.parts.size() < 3 || statement.operands.size() != 2)
    return false;
  const Operand &to = statement.operands[0], &from = statement.operands[1];
  Type source = parseType(opcode.parts.back());
  Type result = parseType(opcode.parts[opcode.parts.size() - 2]);
  if (!source.isInteger())
    return false;
  unsigned sourceBits = getRegisterBits(from);
  if (sourceBits == 0)
    sourceBits = std::max(16u, source.bits);
  bool isIntegral = opcode.parts.size() == 3 && result.isInteger();
  unsigned resultBits = isIntegral ? getRegisterBits(to) : result.bits;
  if (sourceBits == source.bits && (!isIntegral || resultBits == result.bits))
    return false;
  if (sourceBits < source.bits || (isIntegral && resultBits < result.bits)) {
    fail("'" + statement.opcode + "' on a register that is too small");
    return true;
  }
  Value value = getOperand(from, Type{Type::Bits, sourceBits});
  if (failed())
    return true;
  Value wide = addPure(
      "extend." + getName(source) + ".b" + std::to_string(sourceBits), {value});
  if (isIntegral) {
    Value target = getResult(to, Type{Type::Bits, resultBits});
    if (!failed())
      addPure("narrow." + getName(result) + ".b" + std::to_string(resultBits),
              target, {wide});
    return true;
  }
  // The source is first extended to s64, which holds every value of smaller
  // types.
  std::string name = statement.opcode;
  name = name.substr(0, name.rfind('.')) + ".s64";
  auto found = opcodes.find(name);
  if (found == opcodes.end()) {
    fail("unknown opcode '" + statement.opcode + "'");
    return true;
  }
  Value target = getResult(to, found->second->types[0]);
  if (!failed())
    addPure(name, target, {wide});
  return true;
}

/// Decodes a setp with two results or with a predicate as a third source.
bool Decoder::decodeSetPredicate(const Statement &statement, Opcode &opcode) {
  if (opcode.parts.size() < 3 || statement.operands.empty())
    return false;
  std::string combine;
  if (const std::string &name = opcode.parts[2];
      name == "and" || name == "or" || name == "xor")
    combine = name;
  const Operand &to = statement.operands[0];
  bool isPair = to.kind == Operand::List;
  if (combine.empty() && !isPair)
    return false;
  std::string plain = statement.opcode;
  if (!combine.empty())
    plain.erase(plain.find('.' + combine + '.'), combine.size() + 1);
  auto found = opcodes.find(plain);
  if (found == opcodes.end() || (isPair && to.parts.size() != 2)) {
    fail("unknown opcode '" + statement.opcode + "'");
    return true;
  }
  if (!expectOperands(statement, combine.empty() ? 3 : 4))
    return true;
  Value a = getOperand(statement.operands[1], found->second->types[1]);
  Value b = getOperand(statement.operands[2], found->second->types[2]);
  Value other =
      combine.empty() ? noValue : getOperand(statement.operands[3], "pred");
  Value first = getResult(isPair ? to.parts[0] : to, "pred");
  Value second = isPair ? getResult(to.parts[1], "pred") : noValue;
  if (failed())
    return true;
  Value compared = addPure(plain, {a, b});
  Value opposite = isPair ? addPure("not.pred", {compared}) : noValue;
  // `other` may also be a result of this setp, so it is read before any result
  // is written.
  if (!combine.empty()) {
    compared = addPure(combine + ".pred", {compared, other});
    if (isPair)
      opposite = addPure(combine + ".pred", {opposite, other});
  }
  addPure("mov.pred", first, {compared});
  if (isPair)
    addPure("mov.pred", second, {opposite});
  return true;
}

/// Decodes add.cc, addc, sub.cc and subc. The carry is in a register of its
/// own.
bool Decoder::decodeCarry(const Statement &statement, Opcode &opcode) {
  const std::string &name = opcode.parts[0];
  bool reads = name.back() == 'c', writes = opcode.take("cc");
  if (!reads && !writes)
    return false;
  Type type = opcode.takeType();
  if (!type.isInteger() || type.bits < 32 || !opcode.atEnd())
    return false;
  if (!expectOperands(statement, 3))
    return true;
  bool isAdd = name[0] == 'a';
  std::string suffix = ".u" + std::to_string(type.bits);
  Value a = getOperand(statement.operands[1], type);
  Value b = getOperand(statement.operands[2], type);
  Value result = getResult(statement.operands[0], type);
  if (failed())
    return true;
  if (carry == noValue)
    carry = newRegister(4, true);
  Value next = noValue;
  if (writes) {
    std::string carryName = isAdd ? "carry" : "borrow";
    next = reads ? addPure(carryName + "c" + suffix, {a, b, carry})
                 : addPure(carryName + suffix, {a, b});
  }
  if (reads)
    addPure((isAdd ? "addc" : "subc") + suffix, result, {a, b, carry});
  else
    addPure((isAdd ? "add" : "sub") + suffix, result, {a, b});
  if (writes)
    addPure("mov.pred", carry, {next});
  return true;
}

/// Decodes cvta: adds the base of the space's window to an address, or
/// subtracts it.
bool Decoder::decodeAddressConversion(const Statement &statement,
                                      Opcode &opcode) {
  bool fromGeneric = opcode.take("to");
  Space space;
  if (!takeSpace(opcode, space) || space == Space::Generic ||
      space == Space::Parameter || !opcode.take("u64") || !opcode.atEnd())
    return false;
  if (!expectOperands(statement, 2))
    return true;
  Value source = getOperand(statement.operands[1], "u64");
  Value result = getResult(statement.operands[0], "u64");
  if (failed())
    return true;
  uint64_t window = space == Space::Shared  ? sharedWindow
                    : space == Space::Local ? localWindow
                                            : 0;
  addPure(fromGeneric ? "sub.u64" : "add.u64", result,
          {source, getConstant(window, 8)});
  return true;
}
