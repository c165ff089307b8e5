//===- SoftArithmetic.cpp - Arithmetic without instructions ---------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Lowering/SoftArithmetic.h"

#include "Codegen/CPU/Lowering/SoftRoutines.h"

#include "mlir/Support/LLVM.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/LowerMemIntrinsics.h"

using namespace mlir;
using namespace mlir::repro;

namespace {
/// Replaces one instruction.
class Expansion {
public:
  Expansion(llvm::Instruction &instruction) : i(instruction), b(&instruction) {}

  /// Returns the value that replaces the instruction, or null if the target has
  /// the instruction.
  llvm::Value *expand();

private:
  llvm::Value *expandIntrinsic(llvm::IntrinsicInst &call);
  llvm::Value *expandComparison(llvm::FCmpInst &comparison);
  llvm::Value *expandDivision(bool isSigned, bool isRemainder);
  /// Rounds an f32 to an integer, which is still an f32.
  llvm::Value *roundSingle(llvm::Intrinsic::ID rounding);
  /// (S2) minimum and maximum of f64.
  llvm::Value *choose(bool isMaximum);

  llvm::Value *operand(unsigned index) { return i.getOperand(index); }
  bool isDouble(llvm::Value *value) { return value->getType()->isDoubleTy(); }
  llvm::Value *call(StringRef routine, ArrayRef<llvm::Value *> arguments) {
    return b.CreateCall(getSoftRoutine(*i.getModule(), routine), arguments);
  }
  llvm::Value *bits(llvm::Value *value) {
    return b.CreateBitCast(
        value, b.getIntNTy(value->getType()->getPrimitiveSizeInBits()));
  }
  llvm::Value *toDouble(llvm::Value *bits) {
    return b.CreateBitCast(bits, b.getDoubleTy());
  }
  /// Calls a routine on the bits of all arguments of the instruction that are
  /// f64. The result is an f64.
  llvm::Value *callOnDoubles(StringRef routine) {
    SmallVector<llvm::Value *> arguments;
    for (llvm::Value *each : i.operand_values())
      if (isDouble(each))
        arguments.push_back(bits(each));
    return toDouble(call(routine, arguments));
  }
  /// Widens an integer of at most 64 bits to an i64.
  llvm::Value *widen(llvm::Value *integer, bool isSigned) {
    return b.CreateIntCast(integer, b.getInt64Ty(), isSigned);
  }

  llvm::Instruction &i;
  llvm::IRBuilder<> b;
};
} // namespace

llvm::Value *Expansion::expandDivision(bool isSigned, bool isRemainder) {
  // Dividing wider integers is not part of any rule.
  if (i.getType()->getIntegerBitWidth() != 64)
    return nullptr;
  llvm::Value *x = operand(0), *y = operand(1);
  StringRef routine = isRemainder ? "remainder" : "divide";
  if (!isSigned)
    return call(routine, {x, y});
  llvm::Value *ofX = b.CreateAShr(x, 63), *ofY = b.CreateAShr(y, 63);
  auto negateIf = [&](llvm::Value *value, llvm::Value *mask) {
    return b.CreateSub(b.CreateXor(value, mask), mask);
  };
  llvm::Value *magnitude = call(routine, {negateIf(x, ofX), negateIf(y, ofY)});
  return negateIf(magnitude, isRemainder ? ofX : b.CreateXor(ofX, ofY));
}

llvm::Value *Expansion::expandComparison(llvm::FCmpInst &comparison) {
  llvm::Value *x = bits(operand(0)), *y = bits(operand(1));
  auto isNot = [&](llvm::Value *value) { return b.CreateNot(value); };
  switch (comparison.getPredicate()) {
  case llvm::FCmpInst::FCMP_OEQ:
    return call("equal", {x, y});
  case llvm::FCmpInst::FCMP_OGT:
    return call("less", {y, x});
  case llvm::FCmpInst::FCMP_OGE:
    return call("lessEqual", {y, x});
  case llvm::FCmpInst::FCMP_OLT:
    return call("less", {x, y});
  case llvm::FCmpInst::FCMP_OLE:
    return call("lessEqual", {x, y});
  case llvm::FCmpInst::FCMP_ONE:
    return b.CreateOr(call("less", {x, y}), call("less", {y, x}));
  case llvm::FCmpInst::FCMP_ORD:
    return isNot(call("unordered", {x, y}));
  case llvm::FCmpInst::FCMP_UNO:
    return call("unordered", {x, y});
  case llvm::FCmpInst::FCMP_UEQ:
    return isNot(b.CreateOr(call("less", {x, y}), call("less", {y, x})));
  case llvm::FCmpInst::FCMP_UGT:
    return isNot(call("lessEqual", {x, y}));
  case llvm::FCmpInst::FCMP_UGE:
    return isNot(call("less", {x, y}));
  case llvm::FCmpInst::FCMP_ULT:
    return isNot(call("lessEqual", {y, x}));
  case llvm::FCmpInst::FCMP_ULE:
    return isNot(call("less", {y, x}));
  case llvm::FCmpInst::FCMP_UNE:
    return isNot(call("equal", {x, y}));
  default:
    return b.getInt1(comparison.getPredicate() == llvm::FCmpInst::FCMP_TRUE);
  }
}

llvm::Value *Expansion::roundSingle(llvm::Intrinsic::ID rounding) {
  // All f32 of at least 2^23 are integers; NaNs compare false.
  constexpr double least = 1 << 23;
  llvm::Value *x = operand(0);
  llvm::Type *f32 = x->getType();
  llvm::Value *magnitude = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  llvm::Value *limit = llvm::ConstantFP::get(f32, least);
  llvm::Value *isSmall = b.CreateFCmpOLT(magnitude, limit);
  llvm::Value *result;
  if (rounding == llvm::Intrinsic::roundeven) {
    result = b.CreateFSub(b.CreateFAdd(magnitude, limit), limit);
  } else {
    // 1/2 is too much: the sum with the number before 1/2 would be rounded
    // to 1.
    llvm::Value *whole = x;
    if (rounding == llvm::Intrinsic::round)
      whole =
          b.CreateFAdd(x, b.CreateBinaryIntrinsic(
                              llvm::Intrinsic::copysign,
                              llvm::ConstantFP::get(f32, 0x1.fffffep-2), x));
    llvm::Value *integer = b.CreateIntrinsic(llvm::Intrinsic::fptosi_sat,
                                             {b.getInt32Ty(), f32}, {whole});
    result = b.CreateSIToFP(integer, f32);
    llvm::Value *one = llvm::ConstantFP::get(f32, 1),
                *none = llvm::ConstantFP::get(f32, 0);
    if (rounding == llvm::Intrinsic::floor)
      result = b.CreateFSub(
          result, b.CreateSelect(b.CreateFCmpOGT(result, x), one, none));
    else if (rounding == llvm::Intrinsic::ceil)
      result = b.CreateFAdd(
          result, b.CreateSelect(b.CreateFCmpOLT(result, x), one, none));
  }
  result = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, result, x);
  return b.CreateSelect(isSmall, result, x);
}

llvm::Value *Expansion::choose(bool isMaximum) {
  llvm::Value *x = bits(operand(0)), *y = bits(operand(1));
  llvm::Value *isLess = isMaximum ? call("less", {y, x}) : call("less", {x, y});
  // The bits decide between two zeros: -0 is less than +0.
  llvm::Value *ofZeros = isMaximum ? b.CreateAnd(x, y) : b.CreateOr(x, y);
  llvm::Value *chosen = b.CreateSelect(isLess, x, y);
  chosen = b.CreateSelect(call("equal", {x, y}), ofZeros, chosen);
  llvm::Value *nan = bits(llvm::ConstantFP::getNaN(b.getDoubleTy()));
  return toDouble(b.CreateSelect(call("unordered", {x, y}), nan, chosen));
}

llvm::Value *Expansion::expandIntrinsic(llvm::IntrinsicInst &intrinsic) {
  llvm::Intrinsic::ID id = intrinsic.getIntrinsicID();
  switch (id) {
  case llvm::Intrinsic::fma:
    return isDouble(&i) ? callOnDoubles("fma") : nullptr;
  case llvm::Intrinsic::sqrt:
    return isDouble(&i) ? callOnDoubles("sqrt") : nullptr;
  case llvm::Intrinsic::floor:
    return isDouble(&i) ? callOnDoubles("floor") : roundSingle(id);
  case llvm::Intrinsic::ceil:
    return isDouble(&i) ? callOnDoubles("ceil") : roundSingle(id);
  case llvm::Intrinsic::trunc:
    return isDouble(&i) ? callOnDoubles("trunc") : roundSingle(id);
  case llvm::Intrinsic::round:
    return isDouble(&i) ? callOnDoubles("round") : roundSingle(id);
  case llvm::Intrinsic::rint:
  case llvm::Intrinsic::nearbyint:
  case llvm::Intrinsic::roundeven:
    return isDouble(&i) ? callOnDoubles("roundeven")
                        : roundSingle(llvm::Intrinsic::roundeven);
  case llvm::Intrinsic::minimum:
  case llvm::Intrinsic::maximum:
    return isDouble(&i) ? choose(id == llvm::Intrinsic::maximum) : nullptr;
  case llvm::Intrinsic::fptosi_sat:
  case llvm::Intrinsic::fptoui_sat: {
    bool isSigned = id == llvm::Intrinsic::fptosi_sat;
    llvm::Value *x = operand(0);
    unsigned width = i.getType()->getIntegerBitWidth();
    if (!isDouble(x) && width <= 32)
      return nullptr;
    llvm::Value *wide = isDouble(x) ? bits(x) : call("extend", {bits(x)});
    // The range of fewer bits lies within that of i64.
    llvm::Value *integer =
        call(isSigned || width < 64 ? "toSigned" : "toUnsigned", {wide});
    if (width == 64)
      return integer;
    auto clamp = [&](llvm::Intrinsic::ID bound, const APInt &value) {
      integer = b.CreateBinaryIntrinsic(bound, integer, b.getInt(value));
    };
    APInt most = isSigned ? APInt::getSignedMaxValue(width).sext(64)
                          : APInt::getMaxValue(width).zext(64);
    APInt least =
        isSigned ? APInt::getSignedMinValue(width).sext(64) : APInt(64, 0);
    clamp(llvm::Intrinsic::smin, most);
    clamp(llvm::Intrinsic::smax, least);
    return b.CreateTrunc(integer, i.getType());
  }
  default:
    return nullptr;
  }
}

llvm::Value *Expansion::expand() {
  switch (i.getOpcode()) {
  case llvm::Instruction::FAdd:
    return isDouble(&i) ? callOnDoubles("add") : nullptr;
  case llvm::Instruction::FSub: {
    if (!isDouble(&i))
      return nullptr;
    llvm::Value *negated =
        b.CreateXor(bits(operand(1)), APInt::getSignMask(64));
    return toDouble(call("add", {bits(operand(0)), negated}));
  }
  case llvm::Instruction::FMul:
    return isDouble(&i) ? callOnDoubles("mul") : nullptr;
  case llvm::Instruction::FDiv:
    return isDouble(&i) ? callOnDoubles("div") : nullptr;
  case llvm::Instruction::FCmp:
    return isDouble(operand(0)) ? expandComparison(cast<llvm::FCmpInst>(i))
                                : nullptr;
  case llvm::Instruction::FPExt:
    return isDouble(&i) ? toDouble(call("extend", {bits(operand(0))}))
                        : nullptr;
  case llvm::Instruction::FPTrunc:
    return isDouble(operand(0))
               ? b.CreateBitCast(call("narrow", {bits(operand(0))}),
                                 i.getType())
               : nullptr;
  case llvm::Instruction::SIToFP:
  case llvm::Instruction::UIToFP: {
    bool isSigned = i.getOpcode() == llvm::Instruction::SIToFP;
    llvm::Value *integer = operand(0);
    if (isDouble(&i))
      return toDouble(call(isSigned ? "fromSigned" : "fromUnsigned",
                           {widen(integer, isSigned)}));
    if (integer->getType()->getIntegerBitWidth() <= 32)
      return nullptr;
    return b.CreateBitCast(
        call(isSigned ? "singleFromSigned" : "singleFromUnsigned",
             {widen(integer, isSigned)}),
        i.getType());
  }
  case llvm::Instruction::UDiv:
    return expandDivision(/*isSigned=*/false, /*isRemainder=*/false);
  case llvm::Instruction::SDiv:
    return expandDivision(/*isSigned=*/true, /*isRemainder=*/false);
  case llvm::Instruction::URem:
    return expandDivision(/*isSigned=*/false, /*isRemainder=*/true);
  case llvm::Instruction::SRem:
    return expandDivision(/*isSigned=*/true, /*isRemainder=*/true);
  case llvm::Instruction::Call:
    if (auto *intrinsic = dyn_cast<llvm::IntrinsicInst>(&i))
      return expandIntrinsic(*intrinsic);
    if (llvm::Function *callee = cast<llvm::CallInst>(i).getCalledFunction();
        callee && callee->getName() == "repro_fmod")
      return toDouble(call("fmod", {bits(operand(0)), bits(operand(1))}));
    return nullptr;
  default:
    return nullptr;
  }
}

/// Replaces a copy, a move or a fill of memory by a loop.
static void expandMemoryCall(llvm::MemIntrinsic &call,
                             const llvm::TargetTransformInfo &costs) {
  if (auto *copy = dyn_cast<llvm::MemCpyInst>(&call))
    llvm::expandMemCpyAsLoop(copy, costs);
  else if (auto *move = dyn_cast<llvm::MemMoveInst>(&call))
    llvm::expandMemMoveAsLoop(move, costs);
  else
    llvm::expandMemSetAsLoop(cast<llvm::MemSetInst>(&call));
  call.eraseFromParent();
}

void mlir::repro::expandSoftArithmetic(llvm::Module &module) {
  // Routines are added to the module while functions are rewritten.
  SmallVector<llvm::Function *> functions;
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      functions.push_back(&function);
  llvm::TargetTransformInfo costs(module.getDataLayout());
  for (llvm::Function *function : functions)
    for (llvm::Instruction *each : llvm::to_vector(
             llvm::make_pointer_range(llvm::instructions(*function)))) {
      if (auto *memory = dyn_cast<llvm::MemIntrinsic>(each)) {
        expandMemoryCall(*memory, costs);
      } else if (llvm::Value *replacement = Expansion(*each).expand()) {
        each->replaceAllUsesWith(replacement);
        each->eraseFromParent();
      }
    }
}

void mlir::repro::shareSoftRoutines(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (!isSoftRoutine(function))
      continue;
    function.setLinkage(llvm::GlobalValue::LinkOnceODRLinkage);
    function.setVisibility(llvm::GlobalValue::HiddenVisibility);
    function.setComdat(module.getOrInsertComdat(function.getName()));
  }
}
