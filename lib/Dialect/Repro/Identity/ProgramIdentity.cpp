//===- ProgramIdentity.cpp - The hash of a canonical program (H2) ---------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/ProgramIdentity.h"

#include "Dialect/Repro/Identity/CanonicalOps.h"
#include "Dialect/Repro/Identity/CanonicalProgram.h"
#include "dialects/Repro/IR/Repro.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/BLAKE3.h"

using namespace mlir;
using namespace mlir::repro;

namespace {
/// Writes the bytes of docs/identity.md. Every number is little-endian.
class Writer {
public:
  LogicalResult writeProgram(func::FuncOp main);
  ProgramHash finish() { return blake.final<32>(); }

private:
  void writeBytes(StringRef bytes) { blake.update(bytes); }
  void writeNumber(uint64_t value, unsigned bytes = 8) {
    uint8_t buffer[8];
    for (unsigned i = 0; i < bytes; ++i)
      buffer[i] = uint8_t(value >> (8 * i));
    blake.update(ArrayRef<uint8_t>(buffer, bytes));
  }
  void writeString(StringRef text) {
    writeNumber(text.size());
    writeBytes(text);
  }
  void writeNumbers(ArrayRef<int64_t> values) {
    writeNumber(values.size());
    for (int64_t value : values)
      writeNumber(value);
  }
  LogicalResult writeElementType(Operation *op, Type type);
  LogicalResult writeType(Operation *op, Type type);
  LogicalResult writeTypes(Operation *op, TypeRange types);
  void writeInteger(const APInt &value, Type type);
  void writeFloat(const APFloat &value);
  LogicalResult writeConstant(Operation *op, Attribute value);
  void writeExpr(AffineExpr expr);
  LogicalResult writeMaps(Operation *op, ArrayAttr maps);
  void writeOrder(Attribute order);
  LogicalResult writeAttribute(Operation *op,
                               const CanonicalAttribute &attribute);
  LogicalResult writeOp(Operation *op);
  LogicalResult writeBlock(Operation *parent, Block &block);
  void define(Value value) { numbers.try_emplace(value, numbers.size()); }

  llvm::BLAKE3 blake;
  DenseMap<Value, uint64_t> numbers;
};
} // namespace

/// The type name as in (H1): ASCII, padded with NUL to 16 bytes.
LogicalResult Writer::writeElementType(Operation *op, Type type) {
  SmallString<16> name;
  llvm::raw_svector_ostream stream(name);
  if (auto integer = dyn_cast<IntegerType>(type);
      integer && integer.isSignless())
    stream << 'i' << integer.getWidth();
  else if (isa<IndexType>(type))
    stream << "index";
  else
    stream << llvm::TypeSwitch<Type, StringRef>(type)
                  .Case([](Float64Type) { return "f64"; })
                  .Case([](Float32Type) { return "f32"; })
                  .Case([](BFloat16Type) { return "bf16"; })
                  .Case([](Float16Type) { return "f16"; })
                  .Case([](Float8E4M3FNType) { return "f8E4M3FN"; })
                  .Case([](Float8E5M2Type) { return "f8E5M2"; })
                  .Default([](Type) { return ""; });
  if (name.empty())
    return op->emitOpError("(H2) a canonical program has no type ") << type;
  name.append(16 - name.size(), '\0');
  writeBytes(name);
  return success();
}

LogicalResult Writer::writeType(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor) {
    writeNumber(0, 1);
    return writeElementType(op, type);
  }
  if (!tensor.hasStaticShape() || tensor.getEncoding())
    return op->emitOpError(
               "(H2) expected a tensor of static shape without encoding, got ")
           << type;
  writeNumber(1, 1);
  if (failed(writeElementType(op, tensor.getElementType())))
    return failure();
  writeNumbers(tensor.getShape());
  return success();
}

LogicalResult Writer::writeTypes(Operation *op, TypeRange types) {
  writeNumber(types.size());
  for (Type type : types)
    if (failed(writeType(op, type)))
      return failure();
  return success();
}

void Writer::writeInteger(const APInt &value, Type type) {
  unsigned bits = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  writeNumber(bits <= 64 ? value.getZExtValue() : 0, (bits + 7) / 8);
}

/// (H1), (V4): the bits of the float, of a NaN the canonical ones.
void Writer::writeFloat(const APFloat &value) {
  APInt bits = (value.isNaN() ? APFloat::getQNaN(value.getSemantics()) : value)
                   .bitcastToAPInt();
  writeNumber(bits.getZExtValue(), bits.getBitWidth() / 8);
}

/// (H1): element type, rank and dimensions, elements in row-major order.
LogicalResult Writer::writeConstant(Operation *op, Attribute value) {
  auto typed = dyn_cast<TypedAttr>(value);
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!typed || !(dense || isa<IntegerAttr, FloatAttr>(value)))
    return op->emitOpError("(H2) expected an integer, a float or dense "
                           "elements as constant");
  Type element = getElementTypeOrSelf(typed.getType());
  ArrayRef<int64_t> shape;
  if (dense)
    shape = dense.getType().getShape();
  if (failed(writeElementType(op, element)))
    return failure();
  writeNumber(shape.size(), 4);
  for (int64_t extent : shape)
    writeNumber(extent);
  if (auto integer = dyn_cast<IntegerAttr>(value))
    writeInteger(integer.getValue(), element);
  else if (auto number = dyn_cast<FloatAttr>(value))
    writeFloat(number.getValue());
  else if (isa<FloatType>(element))
    for (const APFloat &item : dense.getValues<APFloat>())
      writeFloat(item);
  else
    for (const APInt &item : dense.getValues<APInt>())
      writeInteger(item, element);
  return success();
}

void Writer::writeExpr(AffineExpr expr) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    writeNumber(0, 1);
    writeNumber(constant.getValue());
    return;
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    writeNumber(1, 1);
    writeNumber(dim.getPosition());
    return;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    writeNumber(2, 1);
    break;
  case AffineExprKind::Mul:
    writeNumber(3, 1);
    break;
  case AffineExprKind::Mod:
    writeNumber(4, 1);
    break;
  case AffineExprKind::FloorDiv:
    writeNumber(5, 1);
    break;
  default:
    writeNumber(6, 1);
    break;
  }
  writeExpr(binary.getLHS());
  writeExpr(binary.getRHS());
}

LogicalResult Writer::writeMaps(Operation *op, ArrayAttr maps) {
  writeNumber(maps.size());
  for (AffineMap map : maps.getAsValueRange<AffineMapAttr>()) {
    if (map.getNumSymbols())
      return op->emitOpError("(H2) expected maps without symbols");
    writeNumber(map.getNumDims());
    writeNumber(map.getNumResults());
    for (AffineExpr expr : map.getResults())
      writeExpr(expr);
  }
  return success();
}

void Writer::writeOrder(Attribute order) {
  if (auto chunked = dyn_cast<OrderAttr>(order)) {
    writeNumber(0, 1);
    writeNumber(chunked.getChunk());
    writeNumber(chunked.getLanes());
    writeNumber(chunked.getRun());
    writeNumber(uint64_t(chunked.getTotals()));
    return;
  }
  if (auto exact = dyn_cast<ExactAttr>(order)) {
    writeNumber(3, 1);
    writeNumber(exact.getDigits());
    return;
  }
  writeNumber(isa<AnyOrderAttr>(order) ? 1 : 2, 1);
}

LogicalResult Writer::writeAttribute(Operation *op,
                                     const CanonicalAttribute &attribute) {
  if (attribute.form == AttributeForm::none ||
      attribute.form == AttributeForm::text)
    return success();
  Attribute value = op->getInherentAttr(attribute.name).value_or(Attribute());
  auto wrongForm = [&]() {
    return op->emitOpError("(H2) attribute '")
           << attribute.name << "' is " << value
           << ", which the identity cannot write";
  };
  if (!value)
    return wrongForm();
  switch (attribute.form) {
  case AttributeForm::integer: {
    std::optional<int64_t> number =
        llvm::TypeSwitch<Attribute, std::optional<int64_t>>(value)
            .Case([](IntegerAttr attr) { return attr.getInt(); })
            .Case<ArgKindAttr, CombineAttr, SortDirectionAttr,
                  DistributionAttr>(
                [](auto attr) { return int64_t(attr.getValue()); })
            .Default([](Attribute) { return std::nullopt; });
    if (!number)
      return wrongForm();
    writeNumber(*number);
    return success();
  }
  case AttributeForm::integers:
    if (auto wide = dyn_cast<DenseI64ArrayAttr>(value)) {
      writeNumbers(wide.asArrayRef());
      return success();
    }
    if (auto narrow = dyn_cast<DenseI32ArrayAttr>(value)) {
      writeNumbers(llvm::to_vector_of<int64_t>(narrow.asArrayRef()));
      return success();
    }
    return wrongForm();
  case AttributeForm::reassociation: {
    auto groups = cast<ArrayAttr>(value);
    writeNumber(groups.size());
    for (Attribute group : groups) {
      SmallVector<int64_t> dims;
      for (APInt dim : cast<ArrayAttr>(group).getAsValueRange<IntegerAttr>())
        dims.push_back(dim.getSExtValue());
      writeNumbers(dims);
    }
    return success();
  }
  case AttributeForm::maps:
    return writeMaps(op, cast<ArrayAttr>(value));
  case AttributeForm::iterators: {
    auto iterators = cast<ArrayAttr>(value);
    writeNumber(iterators.size());
    for (Attribute type : iterators)
      writeNumber(cast<linalg::IteratorTypeAttr>(type).getValue() ==
                      utils::IteratorType::reduction,
                  1);
    return success();
  }
  case AttributeForm::order:
    writeOrder(value);
    return success();
  case AttributeForm::constant:
    return writeConstant(op, value);
  case AttributeForm::none:
  case AttributeForm::text:
    break;
  }
  return success();
}

LogicalResult Writer::writeOp(Operation *op) {
  const CanonicalOp *entry = lookupCanonicalOp(op->getName());
  if (!entry)
    return op->emitOpError("(H2) is no operation of a canonical program");
  writeString(op->getName().getStringRef());
  if (failed(writeTypes(op, op->getResultTypes())))
    return failure();
  writeNumber(op->getNumOperands());
  for (Value operand : op->getOperands())
    writeNumber(numbers.lookup(operand));
  for (const CanonicalAttribute &attribute : entry->attributes)
    if (failed(writeAttribute(op, attribute)))
      return failure();
  for (Value result : op->getResults())
    define(result);
  writeNumber(op->getNumRegions());
  for (Region &region : op->getRegions()) {
    if (failed(writeBlock(op, region.front())))
      return failure();
  }
  return success();
}

LogicalResult Writer::writeBlock(Operation *parent, Block &block) {
  if (failed(writeTypes(parent, block.getArgumentTypes())))
    return failure();
  for (Value argument : block.getArguments())
    define(argument);
  writeNumber(block.getOperations().size());
  for (Operation &op : block)
    if (failed(writeOp(&op)))
      return failure();
  return success();
}

LogicalResult Writer::writeProgram(func::FuncOp main) {
  writeBytes(StringRef("repro-program-v1\0", 17));
  auto numState = main->getAttrOfType<IntegerAttr>("repro.num_state");
  if (!numState)
    return main.emitOpError("(H2) expected the attribute 'repro.num_state'");
  writeNumber(numState.getInt());
  if (failed(writeTypes(main, main.getResultTypes())))
    return failure();
  return writeBlock(main, main.getBody().front());
}

FailureOr<ProgramHash> repro::hashProgram(ModuleOp module) {
  if (failed(verifyCanonicalProgram(module)))
    return failure();
  Writer writer;
  if (failed(writer.writeProgram(*module.getOps<func::FuncOp>().begin())))
    return failure();
  return writer.finish();
}
