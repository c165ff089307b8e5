//===- SymbolicProgram.cpp - Programs with symbolic sizes -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/SymbolicProgram.h"

#include "Dialect/Repro/Identity/StoredFormat.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/Endian.h"

using namespace mlir;
using namespace mlir::repro;

static constexpr StringLiteral kSymbols = "repro.symbols";
static constexpr StringLiteral kBounds = "repro.bounds";
static constexpr StringLiteral kExtents = "repro.extents";

bool repro::isSymbolic(func::FuncOp main) { return main->hasAttr(kSymbols); }

/// Whether `map` maps `numSymbols` symbols to as many extents as `type` has;
/// false if `type` is null.
static bool areExtents(AffineMap map, RankedTensorType type,
                       unsigned numSymbols) {
  return type && map.getNumDims() == 0 && map.getNumSymbols() == numSymbols &&
         map.getNumResults() == type.getRank();
}

FailureOr<SymbolicSignature> repro::readSymbolicSignature(func::FuncOp main) {
  auto names = main->getAttrOfType<ArrayAttr>(kSymbols);
  auto bounds = main->getAttrOfType<DenseI64ArrayAttr>(kBounds);
  if (main.isExternal() || !main.getBody().hasOneBlock())
    return main.emitError("expected a function of one block with symbols");
  if (!names || !bounds || size_t(bounds.size()) != 2 * names.size())
    return main.emitError("expected strings as '")
           << kSymbols << "' and two numbers for each as '" << kBounds << "'";
  SymbolicSignature signature;
  llvm::StringSet<> known;
  for (auto [number, attribute] : llvm::enumerate(names)) {
    auto name = dyn_cast<StringAttr>(attribute);
    if (!name || name.empty() || !known.insert(name.getValue()).second)
      return main.emitError("expected symbols with different names, got ")
             << attribute;
    int64_t least = bounds[2 * number], most = bounds[2 * number + 1];
    if (least < 1 || most < least || most > kGreatestSize)
      return main.emitError("expected bounds of symbol ")
             << attribute << " from 1 to " << kGreatestSize << ", got " << least
             << " to " << most;
    signature.symbols.push_back({name.str(), least, most});
  }
  for (auto [number, type] : llvm::enumerate(main.getArgumentTypes())) {
    auto map = main.getArgAttrOfType<AffineMapAttr>(number, kExtents);
    auto tensor = dyn_cast<RankedTensorType>(type);
    signature.extents.push_back(map ? map.getValue() : AffineMap());
    if (map ? !areExtents(map.getValue(), tensor, names.size())
            : tensor && !tensor.hasStaticShape())
      return main.emitError("argument #")
             << number << " of type " << type << ": expected '" << kExtents
             << "', a map from " << names.size()
             << " symbols to its extents, got " << Attribute(map);
  }
  return signature;
}

void repro::eraseSymbolicSignature(func::FuncOp main) {
  main->removeAttr(kSymbols);
  main->removeAttr(kBounds);
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    main.removeArgAttr(i, kExtents);
}

//===----------------------------------------------------------------------===//
// (H4)
//===----------------------------------------------------------------------===//

namespace {
/// Hashes the encoding of a symbolic program that docs/verification/identity.md
/// defines.
class SymbolicHash {
public:
  void hashBytes(StringRef bytes) { blake.update(bytes); }
  void hashNumber(uint64_t value, unsigned bytes = 8) {
    char buffer[8];
    llvm::support::endian::write64le(buffer, value);
    hashBytes(StringRef(buffer, bytes));
  }
  void hashString(StringRef text) {
    hashNumber(text.size());
    hashBytes(text);
  }
  template <typename Printed>
  void hashText(Printed value) {
    std::string text;
    llvm::raw_string_ostream(text) << value;
    hashString(text);
  }
  template <typename Values>
  void hashNumbers(Values values) {
    hashNumber(values.size());
    for (int64_t value : values)
      hashNumber(value);
  }
  void hashType(Type type);
  void hashTypes(TypeRange types) {
    hashNumber(types.size());
    for (Type type : types)
      hashType(type);
  }
  void hashExpr(AffineExpr expr);
  void hashMap(AffineMap map);
  void hashElements(DenseIntOrFPElementsAttr elements);
  void hashAttribute(Attribute attribute);
  void hashAttributes(Operation *op);
  void hashOp(Operation *op);
  void hashBlock(Block &block);
  ProgramHash finish() { return blake.final<32>(); }

private:
  llvm::BLAKE3 blake;
  DenseMap<Value, uint64_t> numbers;
};
} // namespace

/// Hashes a type. For a tensor, hashes the element type and the extents; a
/// dynamic extent counts as 2^63.
void SymbolicHash::hashType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  hashNumber(bool(tensor), 1);
  if (!tensor)
    return hashText(type);
  hashText(tensor.getElementType());
  hashNumbers(tensor.getShape());
}

/// Returns the number that the encoding has for a type of index expression.
static unsigned getNumber(AffineExprKind kind) {
  switch (kind) {
  case AffineExprKind::Constant:
    return 0;
  case AffineExprKind::DimId:
    return 1;
  case AffineExprKind::SymbolId:
    return 2;
  case AffineExprKind::Add:
    return 3;
  case AffineExprKind::Mul:
    return 4;
  case AffineExprKind::Mod:
    return 5;
  case AffineExprKind::FloorDiv:
    return 6;
  case AffineExprKind::CeilDiv:
    return 7;
  }
  llvm_unreachable("a kind of affine expression");
}

void SymbolicHash::hashExpr(AffineExpr expr) {
  hashNumber(getNumber(expr.getKind()), 1);
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return hashNumber(constant.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return hashNumber(dim.getPosition());
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return hashNumber(symbol.getPosition());
  auto binary = cast<AffineBinaryOpExpr>(expr);
  hashExpr(binary.getLHS());
  hashExpr(binary.getRHS());
}

void SymbolicHash::hashMap(AffineMap map) {
  hashNumber(map.getNumDims());
  hashNumber(map.getNumSymbols());
  hashNumber(map.getNumResults());
  for (AffineExpr expr : map.getResults())
    hashExpr(expr);
}

/// Hashes the bits of the elements in whole bytes; a splat has one element.
void SymbolicHash::hashElements(DenseIntOrFPElementsAttr elements) {
  hashType(elements.getType());
  hashNumber(elements.isSplat(), 1);
  auto hashBits = [&](const APInt &bits) {
    for (unsigned at = 0; at < bits.getBitWidth(); at += 64) {
      unsigned width = std::min(64u, bits.getBitWidth() - at);
      hashNumber(bits.extractBitsAsZExtValue(width, at),
                 llvm::divideCeil(width, 8));
    }
  };
  auto hashAll = [&](auto values, auto getBits) {
    for (auto value : values) {
      hashBits(getBits(value));
      if (elements.isSplat())
        break;
    }
  };
  if (isa<FloatType>(elements.getElementType()))
    hashAll(elements.getValues<APFloat>(),
            [](const APFloat &value) { return value.bitcastToAPInt(); });
  else
    hashAll(elements.getValues<APInt>(),
            [](const APInt &value) { return value; });
}

void SymbolicHash::hashAttribute(Attribute attribute) {
  llvm::TypeSwitch<Attribute>(attribute)
      .Case([&](IntegerAttr number) {
        hashNumber(0, 1);
        hashType(number.getType());
        hashNumber(number.getValue().getSExtValue());
      })
      .Case([&](FloatAttr number) {
        hashNumber(1, 1);
        hashType(number.getType());
        hashNumber(number.getValue().bitcastToAPInt().getZExtValue());
      })
      .Case([&](StringAttr text) {
        hashNumber(2, 1);
        hashString(text.getValue());
      })
      .Case([&](ArrayAttr array) {
        hashNumber(3, 1);
        hashNumber(array.size());
        for (Attribute each : array)
          hashAttribute(each);
      })
      .Case<DenseBoolArrayAttr, DenseI32ArrayAttr, DenseI64ArrayAttr>(
          [&](auto array) {
            hashNumber(4, 1);
            hashNumbers(array.asArrayRef());
          })
      .Case([&](AffineMapAttr map) {
        hashNumber(5, 1);
        hashMap(map.getValue());
      })
      .Case([&](DenseIntOrFPElementsAttr elements) {
        hashNumber(6, 1);
        hashElements(elements);
      })
      .Default([&](Attribute other) {
        hashNumber(7, 1);
        hashText(other);
      });
}

/// Hashes the attributes that are part of a program: all attributes of an
/// unregistered operation, the inherent ones of other operations, but not the
/// text of an assertion.
void SymbolicHash::hashAttributes(Operation *op) {
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (!op->isRegistered() ||
        (op->getInherentAttr(attribute.getName()) && !isa<cf::AssertOp>(op)))
      attributes.push_back(attribute);
  hashNumber(attributes.size());
  for (NamedAttribute attribute : attributes) {
    hashString(attribute.getName().getValue());
    hashAttribute(attribute.getValue());
  }
}

void SymbolicHash::hashOp(Operation *op) {
  hashString(op->getName().getStringRef());
  hashTypes(op->getResultTypes());
  hashNumber(op->getNumOperands());
  for (Value operand : op->getOperands())
    hashNumber(numbers.lookup(operand));
  hashAttributes(op);
  for (Value result : op->getResults())
    numbers.try_emplace(result, numbers.size());
  hashNumber(op->getNumRegions());
  for (Region &region : op->getRegions()) {
    hashNumber(llvm::range_size(region));
    for (Block &block : region)
      hashBlock(block);
  }
}

void SymbolicHash::hashBlock(Block &block) {
  hashTypes(block.getArgumentTypes());
  for (Value argument : block.getArguments())
    numbers.try_emplace(argument, numbers.size());
  hashNumber(block.getOperations().size());
  for (Operation &op : block)
    hashOp(&op);
}

FailureOr<ProgramHash> repro::hashSymbolicProgram(ModuleOp module) {
  auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
  if (functions.size() != 1)
    return module.emitError("(H4) expected one function, got ")
           << functions.size();
  func::FuncOp main = functions.front();
  FailureOr<SymbolicSignature> signature = readSymbolicSignature(main);
  if (failed(signature))
    return failure();
  auto numState = main->getAttrOfType<IntegerAttr>("repro.num_state");
  if (!numState)
    return main.emitError("(H4) expected the attribute 'repro.num_state'");
  SymbolicHash hash;
  hash.hashBytes(kSymbolicMagic);
  hash.hashNumber(signature->symbols.size());
  for (const Symbol &symbol : signature->symbols) {
    hash.hashNumber(symbol.least);
    hash.hashNumber(symbol.most);
  }
  hash.hashNumber(numState.getInt());
  for (AffineMap map : signature->extents) {
    hash.hashNumber(bool(map), 1);
    if (map)
      hash.hashMap(map);
  }
  hash.hashBlock(main.getBody().front());
  return hash.finish();
}
