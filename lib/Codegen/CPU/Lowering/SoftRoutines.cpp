//===- SoftRoutines.cpp - f64 and i64 arithmetic in integers --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A significand is an integer whose bit 62 has the weight 2^exponent of the
// number. The lowest 10 bits are dropped when the number is rounded; the last
// one is also set if lower bits were dropped before ("sticky").
//
//===----------------------------------------------------------------------===//

#include "Codegen/CPU/Lowering/SoftRoutines.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir::repro;

static constexpr uint64_t kSign = uint64_t(1) << 63, kMagnitude = kSign - 1;
static constexpr uint64_t kInfinity = uint64_t(0x7ff) << 52;
static constexpr uint64_t kNaN = kInfinity | uint64_t(1) << 51;
static constexpr uint64_t kHidden = uint64_t(1) << 52;
static constexpr unsigned kTop = 62, kDropped = kTop - 52;
static constexpr int64_t kBias = 1023;

namespace {
class Routine;

/// An integer of the routine that is being built, with the operators of an
/// unsigned integer of C++. Comparisons give an i1.
struct Word {
  Routine *routine;
  llvm::Value *value;

  Word constant(uint64_t number) const;
};

/// Builds the body of one routine.
class Routine {
public:
  Routine(llvm::Function *function)
      : function(function),
        b(llvm::BasicBlock::Create(function->getContext(), "", function)) {}

  Word argument(unsigned index) { return {this, function->getArg(index)}; }
  Word i64(uint64_t number) { return {this, b.getInt64(number)}; }
  void finish(Word result) { b.CreateRet(result.value); }
  /// Returns `result` from the routine if `condition` holds. `make` builds the
  /// result.
  template <typename Make>
  void finishIf(Word condition, Make make) {
    llvm::BasicBlock *then = block(), *next = block();
    b.CreateCondBr(condition.value, then, next);
    b.SetInsertPoint(then);
    finish(make());
    b.SetInsertPoint(next);
  }
  /// Runs `step` `count` times on the values, which start at `values`. `step`
  /// returns the next values.
  template <size_t count, typename Step>
  std::array<Word, count> repeat(Word times, std::array<Word, count> values,
                                 Step step) {
    llvm::BasicBlock *before = b.GetInsertBlock(), *body = block(),
                     *after = block();
    b.CreateBr(body);
    b.SetInsertPoint(body);
    auto carry = [&](Word start) {
      llvm::PHINode *phi = b.CreatePHI(start.value->getType(), 2);
      phi->addIncoming(start.value, before);
      return phi;
    };
    llvm::PHINode *left = carry(times);
    std::array<llvm::PHINode *, count> carried;
    std::array<Word, count> current;
    for (size_t i = 0; i < count; ++i) {
      carried[i] = carry(values[i]);
      current[i] = {this, carried[i]};
    }
    std::array<Word, count> next = step(current);
    llvm::Value *rest =
        b.CreateSub(left, llvm::ConstantInt::get(left->getType(), 1));
    llvm::BasicBlock *end = b.GetInsertBlock();
    left->addIncoming(rest, end);
    for (size_t i = 0; i < count; ++i)
      carried[i]->addIncoming(next[i].value, end);
    b.CreateCondBr(b.CreateIsNotNull(rest), body, after);
    b.SetInsertPoint(after);
    return next;
  }
  Word call(llvm::StringRef name, llvm::ArrayRef<Word> arguments) {
    llvm::SmallVector<llvm::Value *> values;
    for (Word argument : arguments)
      values.push_back(argument.value);
    llvm::Function *callee = getSoftRoutine(*function->getParent(), name);
    return {this, b.CreateCall(callee, values)};
  }

  llvm::Function *function;
  llvm::IRBuilder<> b;

private:
  llvm::BasicBlock *block() {
    return llvm::BasicBlock::Create(function->getContext(), "", function);
  }
};

/// A finite number that is not zero: the significand, and the exponent with its
/// bias as an i32, which is below 1 for a subnormal number.
struct Parts {
  Word exponent, significand;
};

/// An unsigned integer of 128 bits.
struct Wide {
  Word high, low;
};
} // namespace

Word Word::constant(uint64_t number) const {
  return {routine, llvm::ConstantInt::get(value->getType(), number,
                                          /*IsSigned=*/false,
                                          /*ImplicitTrunc=*/true)};
}

#define DEFINE_OPERATOR(SYMBOL, CREATE)                                        \
  static Word operator SYMBOL(Word x, Word y) {                                \
    return {x.routine, x.routine->b.CREATE(x.value, y.value)};                 \
  }                                                                            \
  [[maybe_unused]] static Word operator SYMBOL(Word x, uint64_t y) {           \
    return x SYMBOL x.constant(y);                                             \
  }
DEFINE_OPERATOR(+, CreateAdd)
DEFINE_OPERATOR(-, CreateSub)
DEFINE_OPERATOR(*, CreateMul)
DEFINE_OPERATOR(&, CreateAnd)
DEFINE_OPERATOR(|, CreateOr)
DEFINE_OPERATOR(^, CreateXor)
DEFINE_OPERATOR(<<, CreateShl)
DEFINE_OPERATOR(>>, CreateLShr)
DEFINE_OPERATOR(==, CreateICmpEQ)
DEFINE_OPERATOR(!=, CreateICmpNE)
DEFINE_OPERATOR(<, CreateICmpULT)
DEFINE_OPERATOR(>, CreateICmpUGT)
DEFINE_OPERATOR(>=, CreateICmpUGE)
#undef DEFINE_OPERATOR

static Word operator!(Word x) { return x == 0; }

static Word signedLess(Word x, Word y) {
  return {x.routine, x.routine->b.CreateICmpSLT(x.value, y.value)};
}
static Word signedLess(Word x, int64_t y) {
  return signedLess(x, x.constant(uint64_t(y)));
}
static Word select(Word condition, Word x, Word y) {
  return {x.routine,
          x.routine->b.CreateSelect(condition.value, x.value, y.value)};
}
static Word select(Word condition, Word x, uint64_t y) {
  return select(condition, x, x.constant(y));
}
static Word signedMin(Word x, Word y) { return select(signedLess(x, y), x, y); }
static Word signedMax(Word x, int64_t y) {
  return select(signedLess(x, y), x.constant(uint64_t(y)), x);
}
static Word resize(Word x, unsigned width) {
  llvm::IRBuilder<> &b = x.routine->b;
  return {x.routine, b.CreateZExtOrTrunc(x.value, b.getIntNTy(width))};
}
static Word countLeadingZeros(Word x) {
  llvm::IRBuilder<> &b = x.routine->b;
  return {x.routine, b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, x.value,
                                             b.getFalse())};
}

/// Shifts right by an i32 from 0 to 63. If a 1 bit is shifted out, sets the
/// last bit.
static Word shiftRightSticky(Word x, Word distance) {
  Word by = resize(distance, 64), shifted = x >> by;
  return shifted | resize(shifted << by != x, 64);
}

/// Returns the parts of a finite number that is not zero, given as a magnitude.
static Parts split(Word magnitude) {
  Word exponent = resize(magnitude >> 52, 32);
  Word zeros = countLeadingZeros(magnitude);
  Word fraction = magnitude & (kHidden - 1);
  Word isSubnormal = exponent == 0;
  return {
      select(isSubnormal, exponent.constant(12) - resize(zeros, 32), exponent),
      select(isSubnormal, magnitude << (zeros - 1),
             (fraction | kHidden) << kDropped)};
}

//===----------------------------------------------------------------------===//
// Rounding
//===----------------------------------------------------------------------===//

/// pack(sign, exponent, significand): the f64 of a number, to nearest even.
/// The exponent is an i32. Bit 62 of the significand is set, unless the
/// exponent is 1.
static void buildPack(Routine &r) {
  Word sign = r.argument(0), exponent = r.argument(1), x = r.argument(2);
  r.finishIf(!signedLess(exponent, 2047), [&] { return sign | kInfinity; });
  // Below the least normal number, lower bits are dropped.
  Word below = signedMax(exponent.constant(1) - exponent, 0);
  x = shiftRightSticky(x, signedMin(below, below.constant(63)));
  Word odd = (x >> kDropped) & 1;
  Word rounded = (x + ((1 << (kDropped - 1)) - 1) + odd) >> kDropped;
  // Adds the hidden bit to the exponent; rounding up may carry into it.
  r.finish(sign + (resize(signedMax(exponent, 1) - 1, 64) << 52) + rounded);
}

/// packSingle(sign, exponent, significand): likewise the bits of an f32, as an
/// i32. The exponent has the bias of f64, and bit 62 is set.
static void buildPackSingle(Routine &r) {
  Word sign = resize(r.argument(0) >> 32, 32), x = r.argument(2);
  Word exponent = r.argument(1) - (kBias - 127);
  r.finishIf(!signedLess(exponent, 255), [&] { return sign | 0x7f800000; });
  Word below = signedMax(exponent.constant(1) - exponent, 0);
  x = shiftRightSticky(x, signedMin(below, below.constant(63)));
  constexpr unsigned dropped = kTop - 23;
  Word odd = (x >> dropped) & 1;
  Word rounded = (x + ((uint64_t(1) << (dropped - 1)) - 1) + odd) >> dropped;
  Word high = (signedMax(exponent, 1) - 1) << 23;
  r.finish(sign + high + resize(rounded, 32));
}

static Word pack(Word sign, Word exponent, Word significand) {
  return sign.routine->call("pack", {sign, exponent, significand});
}

//===----------------------------------------------------------------------===//
// Sums and products
//===----------------------------------------------------------------------===//

static void buildAdd(Routine &r) {
  Word a = r.argument(0), b = r.argument(1);
  Word swaps = (a & kMagnitude) < (b & kMagnitude);
  Word x = select(swaps, b, a), y = select(swaps, a, b);
  Word ofX = x & kMagnitude, ofY = y & kMagnitude;
  Word signs = (x ^ y) & kSign;
  r.finishIf(ofX >= kInfinity, [&] {
    Word isNaN = (ofX > kInfinity) | ((ofY == kInfinity) & (signs != 0));
    return select(isNaN, r.i64(kNaN), x);
  });
  r.finishIf(ofY == 0, [&] { return select(ofX == 0, x & y, x); });
  auto getExponent = [](Word magnitude) {
    Word field = resize(magnitude >> 52, 32);
    return select(field == 0, field.constant(1), field);
  };
  auto getSignificand = [](Word magnitude) {
    Word fraction = magnitude & (kHidden - 1);
    return select(magnitude < kHidden, fraction, fraction | kHidden)
           << kDropped;
  };
  Word exponent = getExponent(ofX), apart = exponent - getExponent(ofY);
  Word sx = getSignificand(ofX);
  Word sy = shiftRightSticky(getSignificand(ofY),
                             signedMin(apart, apart.constant(63)));
  Word sign = x & kSign;
  r.finishIf(signs == 0, [&] {
    Word sum = sx + sy, carry = sum >> 63;
    return pack(sign, exponent + resize(carry, 32),
                (sum >> carry) | (sum & carry));
  });
  Word difference = sx - sy;
  r.finishIf(difference == 0, [&] { return r.i64(0); });
  Word zeros = resize(countLeadingZeros(difference), 32);
  Word by = signedMin(zeros - 1, exponent - 1);
  r.finish(pack(sign, exponent - by, difference << resize(by, 64)));
}

static Wide multiply(Word x, Word y) {
  Word x0 = x & UINT32_MAX, x1 = x >> 32, y0 = y & UINT32_MAX, y1 = y >> 32;
  Word low = x0 * y0, middle = x1 * y0 + (low >> 32);
  Word cross = x0 * y1 + (middle & UINT32_MAX);
  return {x1 * y1 + (middle >> 32) + (cross >> 32),
          cross << 32 | (low & UINT32_MAX)};
}

static void buildMul(Routine &r) {
  Word a = r.argument(0), b = r.argument(1);
  Word x = a & kMagnitude, y = b & kMagnitude, sign = (a ^ b) & kSign;
  Word isZero = (x == 0) | (y == 0);
  r.finishIf((x >= kInfinity) | (y >= kInfinity), [&] {
    Word isNaN = (x > kInfinity) | (y > kInfinity) | isZero;
    return select(isNaN, r.i64(kNaN), sign | kInfinity);
  });
  r.finishIf(isZero, [&] { return sign; });
  Parts px = split(x), py = split(y);
  // The high half of the product is in [2^61, 2^63).
  Wide product = multiply(px.significand << 1, py.significand);
  Word high = product.high | resize(product.low != 0, 64);
  Word isBelow = high < (uint64_t(1) << kTop);
  Word exponent = px.exponent + py.exponent - (kBias - 1);
  r.finish(pack(sign, exponent - resize(isBelow, 32),
                select(isBelow, high << 1, high)));
}

static Wide shiftLeft(Wide x, Word by) {
  // A shift by 64 is undefined, so `low` moves in two steps.
  Word within = by & 63, isFar = by >= 64;
  Word moved = x.low << within;
  Word carried = (x.low >> 1) >> ((within ^ 63) & 63);
  return {select(isFar, moved, (x.high << within) | carried),
          select(isFar, moved.constant(0), moved)};
}

static Wide shiftRightSticky(Wide x, Word by) {
  Word within = by & 63, isFar = by >= 64;
  Word out = ((x.high << 1) << ((within ^ 63) & 63)); // leaves `high`
  Word high = x.high >> within, low = (x.low >> within) | out;
  Word lost = x.low != ((x.low >> within) << within);
  Word isLost = select(isFar, (out | x.low) != 0, lost);
  low = select(isFar, high, low);
  return {select(isFar, high.constant(0), high), low | resize(isLost, 64)};
}

static void buildFma(Routine &r) {
  Word a = r.argument(0), b = r.argument(1), c = r.argument(2);
  Word x = a & kMagnitude, y = b & kMagnitude, z = c & kMagnitude;
  Word sign = (a ^ b) & kSign;
  // The exact sum of a finite product and an infinity or a NaN is the latter.
  Word factorsAreFinite = (x < kInfinity) & (y < kInfinity);
  r.finishIf(factorsAreFinite & (z >= kInfinity),
             [&] { return select(z > kInfinity, r.i64(kNaN), c); });
  Word isProductExact = !factorsAreFinite | (x == 0) | (y == 0);
  r.finishIf(isProductExact,
             [&] { return r.call("add", {r.call("mul", {a, b}), c}); });
  r.finishIf(z == 0, [&] { return r.call("mul", {a, b}); });
  Parts px = split(x), py = split(y), pz = split(z);
  // Normalized, bit 126 of a number of 128 bits has the weight 2^exponent.
  Wide product = multiply(px.significand << 1, py.significand << 1);
  Word exponent = px.exponent + py.exponent - (kBias - 1);
  Word isBelow = signedLess(product.high, 0) ^ 1;
  Wide p{
      select(isBelow, product.high, product.high >> 1),
      select(isBelow, product.low, (product.low >> 1) | (product.high << 63))};
  exponent = exponent - resize(isBelow, 32);
  Wide q{pz.significand, r.i64(0)};
  // The sticky bit is far below the bits that decide the rounding, unless a
  // subtraction cancels many leading bits. In that case the exponents differ by
  // at most one, and the shift drops no 1 bits.
  Word isLess = signedLess(exponent, pz.exponent) |
                ((exponent == pz.exponent) & (p.high < q.high));
  auto choose = [&](Word second, Word first) {
    return select(isLess, second, first);
  };
  Wide large{choose(q.high, p.high), choose(q.low, p.low)};
  Wide small{choose(p.high, q.high), choose(p.low, q.low)};
  Word greatest = choose(pz.exponent, exponent);
  Word apart = greatest - choose(exponent, pz.exponent);
  small = shiftRightSticky(small,
                           resize(signedMin(apart, apart.constant(127)), 64));
  Word resultSign = choose(c & kSign, sign);
  r.finishIf(((c ^ sign) & kSign) == 0, [&] {
    Word low = large.low + small.low;
    Word high = large.high + small.high + resize(low < large.low, 64);
    Word carry = high >> 63;
    Word sticky = resize(low != 0, 64);
    return pack(resultSign, greatest + resize(carry, 32),
                (high >> carry) | (high & carry) | sticky);
  });
  Word low = large.low - small.low;
  Word high = large.high - small.high - resize(large.low < small.low, 64);
  r.finishIf((high | low) == 0, [&] { return r.i64(0); });
  Word zeros =
      select(high == 0, countLeadingZeros(low) + 64, countLeadingZeros(high));
  Wide moved = shiftLeft({high, low}, zeros - 1);
  r.finish(pack(resultSign, greatest - resize(zeros - 1, 32),
                moved.high | resize(moved.low != 0, 64)));
}

//===----------------------------------------------------------------------===//
// Quotients and roots, bit by bit
//===----------------------------------------------------------------------===//

static void buildDiv(Routine &r) {
  Word a = r.argument(0), b = r.argument(1);
  Word x = a & kMagnitude, y = b & kMagnitude, sign = (a ^ b) & kSign;
  Word isNaN = (x > kInfinity) | (y > kInfinity) |
               ((x == y) & ((x == 0) | (x == kInfinity)));
  r.finishIf(isNaN, [&] { return r.i64(kNaN); });
  r.finishIf((x == kInfinity) | (y == 0), [&] { return sign | kInfinity; });
  r.finishIf((x == 0) | (y == kInfinity), [&] { return sign; });
  Parts px = split(x), py = split(y);
  Word isBelow = px.significand < py.significand;
  Word rest = select(isBelow, px.significand << 1, px.significand);
  Word divisor = py.significand;
  // The quotient is in [1, 2): 63 bits of it, and a sticky bit.
  auto [quotient, left] = r.repeat<2>(
      r.i64(kTop + 1), {r.i64(0), rest}, [&](std::array<Word, 2> values) {
        auto [quotient, rest] = values;
        Word fits = rest >= divisor;
        return std::array<Word, 2>{quotient << 1 | resize(fits, 64),
                                   (rest - select(fits, divisor, 0)) << 1};
      });
  Word exponent = px.exponent - py.exponent + kBias - resize(isBelow, 32);
  r.finish(pack(sign, exponent, quotient | resize(left != 0, 64)));
}

static void buildSqrt(Routine &r) {
  Word a = r.argument(0);
  r.finishIf((a & kMagnitude) == 0, [&] { return a; });
  r.finishIf(a == kInfinity, [&] { return a; });
  r.finishIf(a > kInfinity, [&] { return r.i64(kNaN); });
  Parts p = split(a);
  // With an even exponent, the root of 1.x has 1 bit before the point. Two bits
  // of the radicand give one bit of the root; 55 bits of it suffice.
  Word odd = (p.exponent + 1) & 1; // the bias is odd
  Word radicand = p.significand << resize(odd, 64);
  constexpr unsigned bits = 55;
  // Bits 63 and 62 come first.
  auto [root, rest, unused] =
      r.repeat<3>(r.i64(bits), {r.i64(0), r.i64(0), radicand},
                  [&](std::array<Word, 3> values) {
                    auto [root, rest, radicand] = values;
                    Word next = rest << 2 | radicand >> 62;
                    Word trial = root << 2 | 1;
                    Word fits = next >= trial;
                    return std::array<Word, 3>{root << 1 | resize(fits, 64),
                                               next - select(fits, trial, 0),
                                               radicand << 2};
                  });
  llvm::IRBuilder<> &b = r.b;
  Word half{&r, b.CreateAShr((p.exponent - kBias - odd).value, 1)};
  r.finish(pack(r.i64(0), half + kBias,
                root << (kTop + 1 - bits) | resize(rest != 0, 64)));
}

/// (S4) The exact remainder, with the sign of the dividend.
static void buildFmod(Routine &r) {
  Word a = r.argument(0), b = r.argument(1);
  Word x = a & kMagnitude, y = b & kMagnitude, sign = a & kSign;
  Word isNaN = (x >= kInfinity) | (y > kInfinity) | (y == 0);
  r.finishIf(isNaN, [&] { return r.i64(kNaN); });
  r.finishIf(x < y, [&] { return a; });
  r.finishIf(x == y, [&] { return sign; });
  Parts px = split(x), py = split(y);
  Word divisor = py.significand;
  auto [rest] = r.repeat<1>(px.exponent - py.exponent + 1, {px.significand},
                            [&](std::array<Word, 1> values) {
                              Word rest = values[0];
                              Word left =
                                  rest - select(rest >= divisor, divisor, 0);
                              return std::array<Word, 1>{left << 1};
                            });
  r.finishIf(rest == 0, [&] { return sign; });
  Word by = resize(countLeadingZeros(rest), 32) - 1;
  // The last step doubled the remainder, which is below the divisor.
  Word isTop = signedLess(rest, 0);
  Word moved = select(isTop, rest >> 1, rest << resize(by & 63, 64));
  r.finish(pack(sign, py.exponent - 1 - by, moved));
}

//===----------------------------------------------------------------------===//
// Comparisons
//===----------------------------------------------------------------------===//

static Word isUnordered(Word a, Word b) {
  return ((a & kMagnitude) > kInfinity) | ((b & kMagnitude) > kInfinity);
}

/// Returns a number whose order, as a signed integer, is that of the f64.
static Word getKey(Word a) {
  return select(signedLess(a, 0), a.constant(0) - (a & kMagnitude), a);
}

static void buildCompare(Routine &r, llvm::StringRef name) {
  Word a = r.argument(0), b = r.argument(1);
  r.finishIf(isUnordered(a, b),
             [&] { return Word{&r, r.b.getInt1(name == "unordered")}; });
  Word x = getKey(a), y = getKey(b);
  r.finish(name == "equal"       ? x == y
           : name == "less"      ? signedLess(x, y)
           : name == "lessEqual" ? signedLess(y, x) ^ 1
                                 : Word{&r, r.b.getFalse()});
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

static void buildExtend(Routine &r) {
  Word bits = resize(r.argument(0), 64);
  Word sign = (bits >> 31) << 63, magnitude = bits & INT32_MAX;
  r.finishIf(magnitude == 0, [&] { return sign; });
  constexpr uint64_t rebias = uint64_t(kBias - 127) << 52;
  r.finishIf(magnitude >= 0x7f800000, [&] {
    return select(magnitude > 0x7f800000, r.i64(kNaN), sign | kInfinity);
  });
  r.finishIf(magnitude >= 0x800000,
             [&] { return sign | ((magnitude << 29) + rebias); });
  // The magnitude of a subnormal number is its bits times 2^-149.
  Word zeros = countLeadingZeros(magnitude);
  Word fraction = (magnitude << (zeros - 11)) & (kHidden - 1);
  Word exponent = r.i64(kBias - 149 + 63) - zeros;
  r.finish(sign | exponent << 52 | fraction);
}

static void buildNarrow(Routine &r) {
  Word a = r.argument(0), sign = a & kSign, x = a & kMagnitude;
  Word sign32 = resize(sign >> 32, 32);
  r.finishIf(x >= kInfinity, [&] {
    return select(x > kInfinity, sign32.constant(0x7fc00000),
                  sign32 | 0x7f800000);
  });
  // A subnormal f64 is far below half of the least f32.
  r.finishIf(x < kHidden, [&] { return sign32; });
  Word significand = ((x & (kHidden - 1)) | kHidden) << kDropped;
  r.finish(r.call("packSingle", {sign, resize(x >> 52, 32), significand}));
}

static void buildFromInteger(Routine &r, bool isSigned, bool isSingle) {
  Word a = r.argument(0), sign = isSigned ? a & kSign : r.i64(0);
  auto zero = [&] { return isSingle ? resize(r.i64(0), 32) : r.i64(0); };
  r.finishIf(a == 0, zero);
  Word magnitude = select(sign != 0, a.constant(0) - a, a);
  Word zeros = countLeadingZeros(magnitude);
  Word top = magnitude << zeros; // bit 63 is set
  Word significand = (top >> 1) | (top & 1);
  r.finish(r.call(isSingle ? "packSingle" : "pack",
                  {sign, resize(r.i64(kBias + 63) - zeros, 32), significand}));
}

static void buildToInteger(Routine &r, bool isSigned) {
  Word a = r.argument(0), x = a & kMagnitude, isNegative = signedLess(a, 0);
  uint64_t most = isSigned ? kMagnitude : UINT64_MAX;
  r.finishIf((x > kInfinity) | (x < (uint64_t(kBias) << 52)),
             [&] { return r.i64(0); });
  uint64_t limit = uint64_t(kBias + (isSigned ? 63 : 64)) << 52;
  r.finishIf(x >= limit, [&] {
    return select(isNegative, r.i64(isSigned ? kSign : 0), most);
  });
  Word exponent = (x >> 52) - kBias; // from 0 to 63
  Word top = (x | kHidden) << 11;
  Word magnitude = top >> (exponent.constant(63) - exponent);
  r.finish(select(isNegative,
                  isSigned ? magnitude.constant(0) - magnitude : r.i64(0),
                  magnitude));
}

static void buildTrunc(Routine &r) {
  Word a = r.argument(0), x = a & kMagnitude;
  r.finishIf(x < (uint64_t(kBias) << 52), [&] { return a & kSign; });
  r.finishIf(x >= (uint64_t(kBias + 52) << 52), [&] { return a; });
  Word dropped = r.i64(kBias + 52) - (x >> 52); // from 1 to 52
  r.finish((a >> dropped) << dropped);
}

/// Rounds toward zero, and then moves by one if that went the wrong way.
static void buildFloor(Routine &r, bool isCeil) {
  Word a = r.argument(0), whole = r.call("trunc", {a});
  r.finishIf(isUnordered(a, a), [&] { return r.i64(kNaN); });
  Word isNegative = signedLess(a, 0);
  Word moves = (whole != a) & (isCeil ? isNegative ^ 1 : isNegative);
  r.finishIf(moves ^ 1, [&] { return whole; });
  uint64_t one = uint64_t(kBias) << 52 | (isCeil ? 0 : kSign);
  r.finish(r.call("add", {whole, r.i64(one)}));
}

/// Adding and subtracting 2^52 rounds a magnitude below it to an integer.
static void buildRoundEven(Routine &r) {
  Word a = r.argument(0), x = a & kMagnitude;
  constexpr uint64_t magic = uint64_t(kBias + 52) << 52;
  r.finishIf(x >= magic, [&] { return a; });
  Word sum = r.call("add", {x, r.i64(magic)});
  r.finish(r.call("add", {sum, r.i64(magic | kSign)}) | (a & kSign));
}

/// Rounds ties away from zero: adds the number before 1/2, and truncates.
static void buildRound(Routine &r) {
  Word a = r.argument(0);
  constexpr uint64_t beforeHalf = 0x3fdfffffffffffff;
  Word sum = r.call("add", {a, (a & kSign) | beforeHalf});
  r.finish(r.call("trunc", {sum}));
}

//===----------------------------------------------------------------------===//
// Division of integers
//===----------------------------------------------------------------------===//

static void buildDivision(Routine &r, bool isRemainder) {
  Word a = r.argument(0), b = r.argument(1);
  // The processor divides numbers of 32 bits.
  r.finishIf(((a | b) >> 32) == 0, [&] {
    Word x = resize(a, 32), y = resize(b, 32);
    Word quotient{&r, r.b.CreateUDiv(x.value, y.value)};
    return resize(isRemainder ? x - quotient * y : quotient, 64);
  });
  r.finishIf(a < b, [&] { return isRemainder ? a : r.i64(0); });
  Word by = countLeadingZeros(b) - countLeadingZeros(a);
  auto [quotient, rest, divisor] = r.repeat<3>(
      by + 1, {r.i64(0), a, b << by}, [&](std::array<Word, 3> values) {
        auto [quotient, rest, divisor] = values;
        Word fits = rest >= divisor;
        return std::array<Word, 3>{quotient << 1 | resize(fits, 64),
                                   rest - select(fits, divisor, 0),
                                   divisor >> 1};
      });
  r.finish(isRemainder ? rest : quotient);
}

static void build(Routine &r, llvm::StringRef name) {
  if (name == "pack")
    return buildPack(r);
  if (name == "packSingle")
    return buildPackSingle(r);
  if (name == "add")
    return buildAdd(r);
  if (name == "mul")
    return buildMul(r);
  if (name == "fma")
    return buildFma(r);
  if (name == "div")
    return buildDiv(r);
  if (name == "sqrt")
    return buildSqrt(r);
  if (name == "fmod")
    return buildFmod(r);
  if (name == "equal" || name == "less" || name == "lessEqual" ||
      name == "unordered")
    return buildCompare(r, name);
  if (name == "extend")
    return buildExtend(r);
  if (name == "narrow")
    return buildNarrow(r);
  if (name == "fromSigned" || name == "fromUnsigned")
    return buildFromInteger(r, name == "fromSigned", /*isSingle=*/false);
  if (name == "singleFromSigned" || name == "singleFromUnsigned")
    return buildFromInteger(r, name == "singleFromSigned", /*isSingle=*/true);
  if (name == "toSigned" || name == "toUnsigned")
    return buildToInteger(r, name == "toSigned");
  if (name == "trunc")
    return buildTrunc(r);
  if (name == "floor" || name == "ceil")
    return buildFloor(r, name == "ceil");
  if (name == "roundeven")
    return buildRoundEven(r);
  if (name == "round")
    return buildRound(r);
  if (name == "divide" || name == "remainder")
    return buildDivision(r, name == "remainder");
  llvm_unreachable("unknown routine");
}

static constexpr llvm::StringLiteral kPrefix = "repro_soft_";

bool mlir::repro::isSoftRoutine(const llvm::Function &function) {
  return function.getName().starts_with(kPrefix);
}

llvm::Function *mlir::repro::getSoftRoutine(llvm::Module &module,
                                            llvm::StringRef name) {
  std::string symbol = (kPrefix + name).str();
  if (llvm::Function *known = module.getFunction(symbol))
    return known;
  llvm::LLVMContext &context = module.getContext();
  llvm::Type *i64 = llvm::Type::getInt64Ty(context);
  llvm::Type *i32 = llvm::Type::getInt32Ty(context);
  bool isComparison = name == "equal" || name == "less" ||
                      name == "lessEqual" || name == "unordered";
  bool givesSingle =
      name == "narrow" || name == "packSingle" || name.starts_with("single");
  llvm::Type *result = isComparison  ? llvm::Type::getInt1Ty(context)
                       : givesSingle ? i32
                                     : i64;
  size_t count = llvm::StringSwitch<size_t>(name)
                     .Cases({"pack", "packSingle", "fma"}, 3)
                     .Cases({"add", "mul", "div", "fmod"}, 2)
                     .Cases({"divide", "remainder"}, 2)
                     .Default(isComparison ? 2 : 1);
  llvm::SmallVector<llvm::Type *> arguments(count,
                                            name == "extend" ? i32 : i64);
  if (name.starts_with("pack"))
    arguments[1] = i32;
  auto *function = llvm::Function::Create(
      llvm::FunctionType::get(result, arguments, /*isVarArg=*/false),
      llvm::Function::InternalLinkage, symbol, module);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  Routine routine(function);
  build(routine, name);
  return function;
}
