//===- ProgramWriter.cpp - The bytes of a canonical program (H2) ----------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dialect/Repro/Identity/ProgramWriter.h"

#include "Dialect/Repro/Identity/CanonicalOps.h"
#include "Dialect/Repro/Identity/CanonicalProgram.h"
#include "Dialect/Repro/Identity/CanonicalShapes.h"
#include "Dialect/Repro/Identity/IndexSum.h"
#include "Dialect/Repro/Identity/StoredBlockFormat.h"
#include "Dialect/Repro/Identity/StoredFormat.h"
#include "Dialect/Repro/Identity/StoredNumbers.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/EndianStream.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::repro;

namespace {
/// Writes little-endian numbers and strings.
class BytesWriter {
public:
  explicit BytesWriter(raw_ostream &stream) : stream(stream) {}

protected:
  void writeBytes(StringRef bytes) { stream << bytes; }
  void writeNumber(uint64_t value, unsigned bytes = 8) {
    char buffer[8];
    llvm::support::endian::write64le(buffer, value);
    stream.write(buffer, bytes);
  }
  void writeString(StringRef text) {
    writeNumber(text.size());
    writeBytes(text);
  }

private:
  raw_ostream &stream;
};

/// Writes the body, which is the part that the identity hashes
/// (docs/verification/identity.md).
class BodyWriter : public BytesWriter {
public:
  using BytesWriter::BytesWriter;

  LogicalResult writeProgram(func::FuncOp main);

private:
  void writeNumbers(ArrayRef<int64_t> values) {
    writeNumber(values.size());
    for (int64_t value : values)
      writeNumber(value);
  }
  LogicalResult writeElementType(Operation *op, Type type);
  LogicalResult writeType(Operation *op, Type type);
  LogicalResult writeTypes(Operation *op, TypeRange types);
  void writeElement(const APInt &bits);
  template <typename Values, typename GetBits>
  void writeElements(Values values, bool isSplat, GetBits getBits);
  LogicalResult writeConstant(Operation *op, Attribute value);
  LogicalResult writeExpr(Operation *op, AffineExpr &expr);
  LogicalResult writeMaps(Operation *op, ArrayAttr maps);
  void writeBlockSum(FdpaAttr fdpa);
  void writeOrder(Attribute order);
  LogicalResult writeAttribute(Operation *op,
                               const CanonicalAttribute &attribute);
  LogicalResult writeOp(Operation *op);
  LogicalResult writeBlock(Operation *parent, Block &block);
  void define(Value value) { numbers.try_emplace(value, numbers.size()); }

  DenseMap<Value, uint64_t> numbers;
};
} // namespace

/// Writes the type's name as in (H1): ASCII, padded with NUL to 16 bytes.
LogicalResult BodyWriter::writeElementType(Operation *op, Type type) {
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
                  .Case([](Float6E3M2FNType) { return "f6E3M2FN"; })
                  .Case([](Float6E2M3FNType) { return "f6E2M3FN"; })
                  .Case([](Float4E2M1FNType) { return "f4E2M1FN"; })
                  .Case([](Float8E8M0FNUType) { return "f8E8M0FNU"; })
                  .Default([](Type) { return ""; });
  if (name.empty())
    return op->emitOpError("(H2) a canonical program has no type ") << type;
  name.append(16 - name.size(), '\0');
  writeBytes(name);
  return success();
}

LogicalResult BodyWriter::writeType(Operation *op, Type type) {
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

LogicalResult BodyWriter::writeTypes(Operation *op, TypeRange types) {
  writeNumber(types.size());
  for (Type type : types)
    if (failed(writeType(op, type)))
      return failure();
  return success();
}

void BodyWriter::writeElement(const APInt &bits) {
  writeNumber(bits.getZExtValue(), llvm::divideCeil(bits.getBitWidth(), 8));
}

/// (V4) Returns the bits of a float; for any NaN, those of the canonical NaN.
static APInt getCanonicalBits(const APFloat &value) {
  return (value.isNaN() ? APFloat::getQNaN(value.getSemantics()) : value)
      .bitcastToAPInt();
}

/// Writes all elements, or a single one if there are at least two and all are
/// equal.
template <typename Values, typename GetBits>
void BodyWriter::writeElements(Values values, bool isSplat, GetBits getBits) {
  bool isOne = llvm::size(values) > 1 &&
               (isSplat || llvm::all_of(values, [&](auto value) {
                  return getBits(value) == getBits(*values.begin());
                }));
  writeNumber(isOne, 1);
  for (auto value : values) {
    writeElement(getBits(value));
    if (isOne)
      break;
  }
}

/// Writes the elements of a constant in row-major order, without their type and
/// shape, which the type of the result states.
LogicalResult BodyWriter::writeConstant(Operation *op, Attribute value) {
  auto typed = dyn_cast<TypedAttr>(value);
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!typed || !(dense || isa<IntegerAttr, FloatAttr>(value)))
    return op->emitOpError("(H2) expected an integer, a float or dense "
                           "elements as constant");
  Type element = getElementTypeOrSelf(typed.getType());
  auto identity = [](const APInt &bits) { return bits; };
  if (auto integer = dyn_cast<IntegerAttr>(value))
    writeElements(ArrayRef(integer.getValue()), false, identity);
  else if (auto number = dyn_cast<FloatAttr>(value))
    writeElements(ArrayRef(number.getValue()), false, getCanonicalBits);
  else if (isa<FloatType>(element))
    writeElements(dense.getValues<APFloat>(), dense.isSplat(),
                  getCanonicalBits);
  else
    writeElements(dense.getValues<APInt>(), dense.isSplat(), identity);
  return success();
}

/// Writes `expr`, and replaces it by the expression that a reader will build.
LogicalResult BodyWriter::writeExpr(Operation *op, AffineExpr &expr) {
  FailureOr<IndexSum> sum =
      IndexSum::get([&] { return op->emitOpError("(H2) "); }, expr);
  if (failed(sum))
    return failure();
  writeBytes(sum->getBytes());
  expr = sum->build(op->getContext());
  return success();
}

LogicalResult BodyWriter::writeMaps(Operation *op, ArrayAttr maps) {
  SmallVector<AffineMap> written;
  writeNumber(maps.size());
  for (AffineMap map : maps.getAsValueRange<AffineMapAttr>()) {
    if (map.getNumSymbols())
      return op->emitOpError("(H2) expected maps without symbols");
    writeNumber(map.getNumDims());
    writeNumber(map.getNumResults());
    SmallVector<AffineExpr> exprs(map.getResults());
    for (AffineExpr &expr : exprs)
      if (failed(writeExpr(op, expr)))
        return failure();
    written.push_back(
        AffineMap::get(map.getNumDims(), 0, exprs, op->getContext()));
  }
  // If the maps are unchanged, the verifier has already checked them.
  if (Builder(op->getContext()).getAffineMapArrayAttr(written) == maps)
    return success();
  return verifyMaps(op, written);
}

/// Writes the attributes that define how an accumulator adds the products of a
/// block.
void BodyWriter::writeBlockSum(FdpaAttr fdpa) {
  writeNumber(fdpa.getTerms());
  writeNumber(fdpa.getFraction().value_or(0));
  writeNumber(*getStoredNumber(fdpa.getRound()));
  writeNumber(fdpa.getFloor());
  writeNumber(fdpa.getLate());
}

void BodyWriter::writeOrder(Attribute order) {
  if (auto chunked = dyn_cast<OrderAttr>(order)) {
    writeNumber(0, 1);
    writeNumber(chunked.getChunk());
    writeNumber(chunked.getLanes());
    writeNumber(chunked.getRun());
    writeNumber(*getStoredNumber(chunked.getTotals()));
    return;
  }
  if (auto exact = dyn_cast<ExactAttr>(order)) {
    writeNumber(3, 1);
    writeNumber(exact.getDigits());
    return;
  }
  if (auto fdpa = dyn_cast<FdpaAttr>(order)) {
    writeNumber(4, 1);
    writeBlockSum(fdpa);
    writeNumber(fdpa.getChunk());
    writeNumber(*getStoredNumber(fdpa.getStart()));
    return;
  }
  writeNumber(isa<AnyOrderAttr>(order) ? 1 : 2, 1);
}

LogicalResult BodyWriter::writeAttribute(Operation *op,
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
  if (attribute.form == AttributeForm::optionalInteger) {
    SmallVector<int64_t> numbers;
    if (value)
      numbers.push_back(cast<IntegerAttr>(value).getInt());
    writeNumbers(numbers);
    return success();
  }
  if (!value)
    return wrongForm();
  switch (attribute.form) {
  case AttributeForm::integer: {
    auto number = dyn_cast<IntegerAttr>(value);
    if (!number)
      return wrongForm();
    writeNumber(number.getInt());
    return success();
  }
  case AttributeForm::integerPredicate:
  case AttributeForm::floatPredicate:
  case AttributeForm::kind:
  case AttributeForm::combine:
  case AttributeForm::direction:
  case AttributeForm::distribution:
  case AttributeForm::blockStep: {
    std::optional<uint64_t> number = getStoredNumber(attribute.form, value);
    if (!number)
      return wrongForm();
    writeNumber(*number);
    return success();
  }
  case AttributeForm::integers: {
    auto wide = dyn_cast<DenseI64ArrayAttr>(value);
    if (!wide)
      return wrongForm();
    writeNumbers(wide.asArrayRef());
    return success();
  }
  case AttributeForm::segments: {
    auto narrow = dyn_cast<DenseI32ArrayAttr>(value);
    if (!narrow)
      return wrongForm();
    writeNumbers(llvm::to_vector_of<int64_t>(narrow.asArrayRef()));
    return success();
  }
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
  case AttributeForm::accumulator: {
    auto fdpa = cast<FdpaAttr>(value);
    writeBlockSum(fdpa);
    writeNumber(fdpa.getGroup());
    return success();
  }
  case AttributeForm::blockFormat: {
    auto format = cast<BlockFormatAttr>(value);
    writeNumbers(getStoredNumbers(format));
    return writeElementType(op, format.getElement());
  }
  case AttributeForm::constant:
    return writeConstant(op, value);
  case AttributeForm::optionalInteger:
  case AttributeForm::none:
  case AttributeForm::text:
    break;
  }
  return success();
}

LogicalResult BodyWriter::writeOp(Operation *op) {
  StringRef name = getStoredName(op);
  const CanonicalOp *entry = lookupCanonicalOp(name);
  if (!entry)
    return op->emitOpError("(H2) is not an operation of a canonical program");
  writeString(name);
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

LogicalResult BodyWriter::writeBlock(Operation *parent, Block &block) {
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

LogicalResult BodyWriter::writeProgram(func::FuncOp main) {
  writeBytes(kBodyMagic);
  auto numState = main->getAttrOfType<IntegerAttr>("repro.num_state");
  if (!numState)
    return main.emitOpError("(H2) expected the attribute 'repro.num_state'");
  writeNumber(numState.getInt());
  if (failed(writeTypes(main, main.getResultTypes())))
    return failure();
  return writeBlock(main, main.getBody().front());
}

//===----------------------------------------------------------------------===//
// Sections other than the body
//===----------------------------------------------------------------------===//

namespace {
/// Writes a section that the identity does not cover.
class SectionWriter : public BytesWriter {
public:
  using BytesWriter::BytesWriter;

  LogicalResult writeNames(func::FuncOp main);
  LogicalResult writeMessages(func::FuncOp main);
  LogicalResult writeOrigins(func::FuncOp main);

private:
  LogicalResult writeText(Operation *op, StringRef text);
};
} // namespace

LogicalResult SectionWriter::writeText(Operation *op, StringRef text) {
  if (!llvm::json::isUTF8(text))
    return op->emitOpError("expected names, messages and locations in UTF-8");
  writeString(text);
  return success();
}

static StringRef getName(DictionaryAttr attributes) {
  auto name = attributes ? attributes.getAs<StringAttr>("repro.name") : nullptr;
  return name ? name.getValue() : StringRef();
}

/// Writes the section of names; writes nothing if no argument or result has a
/// name.
LogicalResult SectionWriter::writeNames(func::FuncOp main) {
  SmallVector<StringRef> arguments, results;
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    arguments.push_back(getName(main.getArgAttrDict(i)));
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    results.push_back(getName(main.getResultAttrDict(i)));
  auto isEmpty = [](StringRef name) { return name.empty(); };
  if (llvm::all_of(arguments, isEmpty) && llvm::all_of(results, isEmpty))
    return success();
  for (ArrayRef<StringRef> names : {ArrayRef(arguments), ArrayRef(results)}) {
    writeNumber(names.size());
    for (StringRef name : names)
      if (failed(writeText(main, name)))
        return failure();
  }
  return success();
}

/// Writes the section of messages; writes nothing if there is no assertion.
LogicalResult SectionWriter::writeMessages(func::FuncOp main) {
  SmallVector<cf::AssertOp> asserts;
  main.getBody().walk<WalkOrder::PreOrder>(
      [&](cf::AssertOp op) { asserts.push_back(op); });
  if (asserts.empty())
    return success();
  writeNumber(asserts.size());
  for (cf::AssertOp op : asserts)
    if (failed(writeText(op, op.getMsg())))
      return failure();
  return success();
}

/// Writes the section of origins; writes nothing if no operation has a source
/// name or line.
LogicalResult SectionWriter::writeOrigins(func::FuncOp main) {
  llvm::MapVector<StringRef, uint32_t> texts;
  SmallVector<std::array<uint32_t, 4>> origins;
  auto number = [&](StringRef text) {
    return texts.try_emplace(text, texts.size() + 1).first->second;
  };
  main.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    std::array<uint32_t, 4> &origin = origins.emplace_back();
    op->getLoc()->walk([&](Location part) {
      if (auto named = dyn_cast<NameLoc>(part); named && !origin[0])
        origin[0] = number(named.getName().getValue());
      auto line = dyn_cast<FileLineColLoc>(part);
      if (!line)
        return WalkResult::advance();
      origin[1] = number(line.getFilename().getValue());
      origin[2] = line.getLine();
      origin[3] = line.getColumn();
      return WalkResult::interrupt();
    });
  });
  if (texts.empty())
    return success();
  writeNumber(texts.size());
  for (StringRef text : llvm::make_first_range(texts))
    if (failed(writeText(main, text)))
      return failure();
  for (const std::array<uint32_t, 4> &origin : origins)
    for (uint32_t part : origin)
      writeNumber(part, 4);
  return success();
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

static func::FuncOp getMain(ModuleOp module) {
  return *module.getOps<func::FuncOp>().begin();
}

LogicalResult repro::writeBody(ModuleOp module, raw_ostream &stream) {
  if (failed(verifyCanonicalProgram(module)))
    return failure();
  return BodyWriter(stream).writeProgram(getMain(module));
}

LogicalResult repro::writeProgram(ModuleOp module, raw_ostream &stream) {
  stream << kFileMagic;
  llvm::support::endian::write(stream, kFileVersion, llvm::endianness::little);
  auto writeSection = [&](Section section, auto write) -> LogicalResult {
    std::string contents;
    llvm::raw_string_ostream buffer(contents);
    if (failed(write(buffer)))
      return failure();
    if (contents.empty())
      return success();
    llvm::support::endian::Writer writer(stream, llvm::endianness::little);
    writer.write(uint32_t(section));
    writer.write(uint64_t(contents.size()));
    stream << contents;
    return success();
  };
  if (failed(writeSection(Section::body, [&](raw_ostream &buffer) {
        return writeBody(module, buffer);
      })))
    return failure();
  func::FuncOp main = getMain(module);
  for (auto [section, write] :
       {std::pair(Section::names, &SectionWriter::writeNames),
        std::pair(Section::messages, &SectionWriter::writeMessages),
        std::pair(Section::origins, &SectionWriter::writeOrigins)})
    if (failed(writeSection(section, [&](raw_ostream &buffer) {
          SectionWriter writer(buffer);
          return (writer.*write)(main);
        })))
      return failure();
  return success();
}
