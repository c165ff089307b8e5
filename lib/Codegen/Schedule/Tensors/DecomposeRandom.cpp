//===- DecomposeRandom.cpp - Random numbers as integer arithmetic ---------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pass repro-decompose-random (Passes.td), run by lib/Pipelines/Schedule.cpp:
// rewrites each `repro.random` as a `linalg.generic` of integer arithmetic with
// the bits of (R1) and (R2).
//
//===----------------------------------------------------------------------===//

#include "Codegen/Schedule/Tensors/Passes.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::repro {
#define GEN_PASS_DEF_REPRODECOMPOSERANDOM
#include "lib/Codegen/Schedule/Tensors/Passes.h.inc"
} // namespace mlir::repro

using namespace mlir;
using namespace mlir::repro;

namespace {

struct DecomposeRandom
    : public repro::impl::ReproDecomposeRandomBase<DecomposeRandom> {
  void runOnOperation() override;
};

/// Builds i32 and i64 arithmetic in the body of an operation.
struct Words {
  ImplicitLocOpBuilder &b;

  Value i32(uint32_t value) {
    return arith::ConstantOp::create(
        b, b.getIntegerAttr(b.getI32Type(), APInt(32, value)));
  }
  Value i64(uint64_t value) {
    return arith::ConstantOp::create(
        b, b.getIntegerAttr(b.getI64Type(), APInt(64, value)));
  }
  Value low(Value wide) {
    return arith::TruncIOp::create(b, b.getI32Type(), wide);
  }
  Value high(Value wide) {
    return low(arith::ShRUIOp::create(b, wide, i64(32)));
  }
  Value widen(Value word) {
    return arith::ExtUIOp::create(b, b.getI64Type(), word);
  }
  Value exclusiveOr(Value x, Value y) { return arith::XOrIOp::create(b, x, y); }
};

} // namespace

/// (R1) Returns the four words of Philox4x32-10 for a counter and a key.
static SmallVector<Value, 4> philox(Words w, SmallVector<Value, 4> counter,
                                    Value key0, Value key1) {
  constexpr uint32_t multipliers[] = {0xD2511F53, 0xCD9E8D57};
  constexpr uint32_t bumps[] = {0x9E3779B9, 0xBB67AE85};
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    // Computes the two halves of each product separately: if both came from one
    // i64 product, all vectors would have half the lanes.
    auto low = [&](int which) -> Value {
      return arith::MulIOp::create(w.b, counter[2 * which],
                                   w.i32(multipliers[which]));
    };
    auto high = [&](int which) {
      return w.high(arith::MulIOp::create(w.b, w.widen(counter[2 * which]),
                                          w.i64(multipliers[which])));
    };
    counter = {w.exclusiveOr(w.exclusiveOr(high(1), counter[1]), key0), low(1),
               w.exclusiveOr(w.exclusiveOr(high(0), counter[3]), key1), low(0)};
    key0 = arith::AddIOp::create(w.b, key0, w.i32(bumps[0]));
    key1 = arith::AddIOp::create(w.b, key1, w.i32(bumps[1]));
  }
  return counter;
}

static void decompose(RandomOp op) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  auto type = cast<RankedTensorType>(op.getOutputs()[0].getType());
  Value seed = op.getInputs()[0], step = op.getInputs()[1];
  AffineMap map = b.getMultiDimIdentityMap(type.getRank());
  SmallVector<utils::IteratorType> iterators(type.getRank(),
                                             utils::IteratorType::parallel);
  Value empty =
      tensor::EmptyOp::create(b, type.getShape(), type.getElementType());
  auto generic = linalg::GenericOp::create(
      b, TypeRange{type}, ValueRange{}, ValueRange{empty}, ArrayRef(map),
      iterators, [&](OpBuilder &nested, Location loc, ValueRange) {
        ImplicitLocOpBuilder b(loc, nested);
        Words w{b};
        Value position = arith::ConstantIndexOp::create(b, 0);
        for (int64_t dim = 0; dim < type.getRank(); ++dim) {
          Value extent =
              arith::ConstantIndexOp::create(b, type.getDimSize(dim));
          Value index = linalg::IndexOp::create(b, dim);
          position = arith::AddIOp::create(
              b, arith::MulIOp::create(b, position, extent), index);
        }
        position = arith::IndexCastOp::create(b, b.getI64Type(), position);
        Value block = arith::ShRUIOp::create(b, position, w.i64(2));
        SmallVector<Value, 4> words = philox(
            w, {w.low(block), w.high(block), w.i32(op.getSite()), w.low(step)},
            w.low(seed), w.high(seed));
        Value which = arith::AndIOp::create(b, w.low(position), w.i32(3));
        Value bits = words[3];
        for (int i = 2; i >= 0; --i) {
          Value isIt = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, which,
                                             w.i32(i));
          bits = arith::SelectOp::create(b, isIt, words[i], bits);
        }
        // (R2) Converts the bits to the distribution.
        if (op.getDistribution() == Distribution::uniform) {
          Value kept = arith::ShRUIOp::create(b, bits, w.i32(8));
          Value number = arith::UIToFPOp::create(b, b.getF32Type(), kept);
          Value unit =
              arith::ConstantOp::create(b, b.getF32FloatAttr(0x1p-24f));
          bits = arith::MulFOp::create(b, number, unit);
        }
        linalg::YieldOp::create(b, bits);
      });
  op->replaceAllUsesWith(generic->getResults());
}

void DecomposeRandom::runOnOperation() {
  SmallVector<RandomOp> work;
  getOperation().walk([&](RandomOp op) { work.push_back(op); });
  for (RandomOp op : work) {
    if (!op.hasPureTensorSemantics()) {
      op.emitOpError("expected tensors");
      return signalPassFailure();
    }
    decompose(op);
    op.erase();
  }
}
