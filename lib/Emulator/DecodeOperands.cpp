//===- DecodeOperands.cpp - Registers, constants and addresses ------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/Decoder.h"

using namespace repro_emulator;

Value Decoder::newRegister(unsigned bytes, bool isPredicate) {
  ValueInfo info;
  info.bytes = uint8_t(bytes);
  info.isPredicate = isPredicate;
  program.values.push_back(info);
  return Value(program.values.size() - 1);
}

Value Decoder::getConstant(uint64_t bits, unsigned bytes, bool isPredicate) {
  auto [place, isNew] =
      constants[isPredicate ? 1 : bytes].try_emplace(bits, noValue);
  if (isNew) {
    place->second = newRegister(bytes, isPredicate);
    program.values.back().source = ValueInfo::Constant;
    program.values.back().bits = bits;
  }
  return place->second;
}

Value Decoder::getSpecial(Special special) {
  auto [place, isNew] = specials.try_emplace(int(special), noValue);
  if (isNew) {
    place->second = newRegister(4);
    program.values.back().source = ValueInfo::SpecialRegister;
    program.values.back().special = special;
  }
  return place->second;
}

static bool findSpecial(std::string_view name, Special &special) {
  static const std::unordered_map<std::string_view, Special> names = {
      {"%tid.x", Special::ThreadX},
      {"%tid.y", Special::ThreadY},
      {"%tid.z", Special::ThreadZ},
      {"%ctaid.x", Special::BlockX},
      {"%ctaid.y", Special::BlockY},
      {"%ctaid.z", Special::BlockZ},
      {"%ntid.x", Special::BlockSizeX},
      {"%ntid.y", Special::BlockSizeY},
      {"%ntid.z", Special::BlockSizeZ},
      {"%nctaid.x", Special::GridX},
      {"%nctaid.y", Special::GridY},
      {"%nctaid.z", Special::GridZ},
      {"%laneid", Special::Lane},
      {"%warpid", Special::Warp},
      {"%nwarpid", Special::NumWarps},
      {"%lanemask_eq", Special::LanesEqual},
      {"%lanemask_lt", Special::LanesBelow},
      {"%lanemask_le", Special::LanesUpTo},
      {"%lanemask_gt", Special::LanesAbove},
      {"%lanemask_ge", Special::LanesFrom},
      {"%dynamic_smem_size", Special::DynamicSharedBytes},
      {"%total_smem_size", Special::TotalSharedBytes},
  };
  auto found = names.find(name);
  if (found == names.end())
    return false;
  special = found->second;
  return true;
}

Value Decoder::getRegister(const std::string &name) {
  auto declared = scope->function->registers.find(name);
  if (declared == scope->function->registers.end()) {
    Special special;
    if (findSpecial(name, special))
      return getSpecial(special);
    fail("unknown register '" + name + "'");
    return getConstant(0, 4);
  }
  auto [place, isNew] = registers.try_emplace(scope->prefix + name, noValue);
  if (isNew) {
    bool isPredicate = declared->second.kind == Type::Predicate;
    place->second =
        newRegister(isPredicate ? 4 : declared->second.bits / 8, isPredicate);
  }
  return place->second;
}

static std::string describe(const ValueInfo &info) {
  return info.isPredicate ? "a predicate"
                          : std::to_string(8 * info.bytes) + " bits";
}

/// Sets `space` and `address` to those of a variable. Returns false if there is
/// no variable with this name.
bool Decoder::resolveSymbol(const std::string &name, Space &space,
                            uint64_t &address) {
  for (const std::string &key : {scope->prefix + name, name}) {
    if (auto found = sharedOffsets.find(key); found != sharedOffsets.end()) {
      space = Space::Shared;
      address = found->second;
      return true;
    }
    if (auto found = localOffsets.find(key); found != localOffsets.end()) {
      space = Space::Local;
      address = found->second;
      return true;
    }
  }
  for (const ModuleVariable &variable : moduleVariables)
    if (variable.name == name) {
      space = variable.writable ? Space::Global : Space::Constant;
      address = reinterpret_cast<uint64_t>(variable.begin);
      return true;
    }
  return false;
}

Value Decoder::getOperand(const Operand &operand, Type type) {
  bool isPredicate = type.kind == Type::Predicate;
  // A predicate takes 4 bytes, and an 8-bit value is held in a 16-bit register.
  unsigned bytes = isPredicate ? 4 : type.bits == 8 ? 2 : type.bits / 8;
  switch (operand.kind) {
  case Operand::Register: {
    Value value = getRegister(operand.name);
    const ValueInfo &info = program.values[value];
    if (info.isPredicate != isPredicate || info.bytes != bytes) {
      fail("'" + statementText + "' on " + operand.name + ", which has " +
           describe(info));
      return value;
    }
    if (!operand.negated)
      return value;
    if (!isPredicate)
      fail("expected no '!' before " + operand.name);
    return addPure("not.pred", {value});
  }
  case Operand::Integer: {
    uint64_t bits = operand.bits;
    if (type.kind == Type::Float) {
      fail("expected a floating-point number in '" + statementText + "'");
      break;
    }
    if (isPredicate)
      return getConstant(bits != 0, 4, true);
    if (bytes < 8) {
      uint64_t mask = (uint64_t(1) << (8 * bytes)) - 1;
      if (bits > mask && ~bits > mask >> 1)
        fail("'" + statementText + "' with a constant that does not fit " +
             std::to_string(8 * bytes) + " bits");
      bits &= mask;
    }
    return getConstant(bits, bytes);
  }
  case Operand::Float32:
  case Operand::Float64:
    if (isPredicate || type.isInteger() ||
        bytes != (operand.kind == Operand::Float32 ? 4u : 8u)) {
      fail("expected no floating-point number of this size in '" +
           statementText + "'");
      break;
    }
    return getConstant(operand.bits, bytes);
  case Operand::Symbol: {
    Space space;
    uint64_t address;
    if (!resolveSymbol(operand.name, space, address)) {
      fail("unknown variable '" + operand.name + "'");
      break;
    }
    if (bytes < 4 || (bytes == 4 && address >> 32))
      fail("expected 64 bits for the address of '" + operand.name + "'");
    return getConstant(address, bytes);
  }
  default:
    fail("expected a register or a constant as operand of '" + statementText +
         "'");
  }
  return getConstant(0, bytes, isPredicate);
}

Value Decoder::getOperand(const Operand &operand, std::string_view typeName) {
  return getOperand(operand, parseType(typeName));
}

Value Decoder::getResult(const Operand &operand, Type type) {
  bool isPredicate = type.kind == Type::Predicate;
  unsigned bytes = isPredicate ? 4 : type.bits == 8 ? 2 : type.bits / 8;
  if (operand.kind == Operand::Sink)
    return newRegister(bytes, isPredicate);
  if (operand.kind != Operand::Register || operand.negated) {
    fail("expected a register as result of '" + statementText + "'");
    return newRegister(bytes, isPredicate);
  }
  Value value = getOperand(operand, type);
  if (program.values[value].source != ValueInfo::Register)
    fail("expected a register that can be written, got " + operand.name);
  return value;
}

Value Decoder::getResult(const Operand &operand, std::string_view typeName) {
  return getResult(operand, parseType(typeName));
}

unsigned Decoder::getRegisterBits(const Operand &operand) {
  if (operand.kind != Operand::Register)
    return 0;
  const ValueInfo &info = program.values[getRegister(operand.name)];
  return info.isPredicate ? 1 : 8u * info.bytes;
}

/// Decodes the address [register + offset], [variable + offset] or [offset].
/// The register, or noValue, becomes the first source of `step`; the offset is
/// set in the detail of `step`.
void Decoder::getAddress(const Operand &operand, Step &step) {
  Detail &detail = step.detail;
  if (operand.kind != Operand::Address) {
    fail("expected an address in '" + statementText + "'");
    return;
  }
  detail.offset = operand.bits;
  Value base = noValue;
  if (!operand.name.empty() &&
      (operand.name[0] == '%' ||
       scope->function->registers.count(operand.name))) {
    base = getRegister(operand.name);
    detail.addressBytes = program.values[base].bytes;
    if (program.values[base].isPredicate || detail.addressBytes < 4)
      fail("expected an address of 32 or 64 bits, got " + operand.name);
  } else if (!operand.name.empty()) {
    Space space;
    uint64_t address;
    if (!resolveSymbol(operand.name, space, address))
      fail("unknown variable '" + operand.name + "'");
    else if (space != detail.space &&
             !(detail.space == Space::Generic && space == Space::Global) &&
             !(detail.space == Space::Generic && space == Space::Constant))
      fail("variable '" + operand.name + "' is not in the space of '" +
           statementText + "'");
    else
      detail.offset += address;
  }
  step.sources.insert(step.sources.begin(), base);
}

bool Decoder::expectOperands(const Statement &statement, size_t count) {
  if (statement.operands.size() == count)
    return true;
  fail("'" + statement.opcode + "' with " +
       std::to_string(statement.operands.size()) + " operands, expected " +
       std::to_string(count));
  return false;
}
