//===- ManyCoreReader.cpp - Reads machines of many cores ------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target/DescriptionReader.h"
#include "Target/MachineReader.h"
#include "Target/ManyCore.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <variant>

using namespace mlir;
using namespace mlir::repro;

namespace {
/// A number of a machine and its permitted range. Whole numbers and truth
/// values have members of types that tell them apart.
struct Number {
  StringLiteral section, key;
  std::variant<int64_t ManyCore::*, double ManyCore::*, bool ManyCore::*>
      member;
  double least = 0, most = 0;
};
} // namespace

static constexpr double mostCycles = 1e6;
static constexpr double mostSeconds = 10;
static constexpr double mostRate = 1e15;
static constexpr int64_t mostBytes = 1ll << 50;
static constexpr int64_t mostMemory = 1ll << 60; ///< of all chips
static constexpr size_t mostChannels = 64;
static constexpr int64_t mostCores = 1 << 20;

static constexpr Number numbers[] = {
    {"grid", "columns", &ManyCore::columns, 1, 1024},
    {"grid", "rows", &ManyCore::rows, 1, 1024},
    {"core", "clock_hz", &ManyCore::clockHz, 1e3, 1e11},
    {"core", "code_bytes", &ManyCore::codeBytes, 1024, 1 << 30},
    {"core", "data_bytes", &ManyCore::dataBytes, 1024, 1 << 30},
    {"core", "banks", &ManyCore::banks, 1, 1024},
    {"group", "columns", &ManyCore::groupColumns, 1, 1024},
    {"group", "rows", &ManyCore::groupRows, 1, 1024},
    {"group", "bytes", &ManyCore::groupBytes, 0, 1 << 30},
    {"cycles", "fma", &ManyCore::fmaCycles, 0, mostCycles},
    {"cycles", "add", &ManyCore::addCycles, 0, mostCycles},
    {"cycles", "divide", &ManyCore::divideCycles, 0, mostCycles},
    {"cycles", "square_root", &ManyCore::squareRootCycles, 0, mostCycles},
    {"cycles", "compare", &ManyCore::compareCycles, 0, mostCycles},
    {"cycles", "load", &ManyCore::loadCycles, 0, mostCycles},
    {"cycles", "store", &ManyCore::storeCycles, 0, mostCycles},
    {"cycles", "integer", &ManyCore::integerCycles, 0, mostCycles},
    {"cycles", "long_integer", &ManyCore::longIntegerCycles, 0, mostCycles},
    {"cycles", "double", &ManyCore::doubleCycles, 0, mostCycles},
    {"cycles", "convert", &ManyCore::convertCycles, 0, mostCycles},
    {"cycles", "loop", &ManyCore::loopCycles, 0, mostCycles},
    {"cycles", "run", &ManyCore::runCycles, 0, mostCycles},
    {"cycles", "release", &ManyCore::releaseCycles, 0, mostCycles},
    {"cycles", "acquire", &ManyCore::acquireCycles, 0, mostCycles},
    {"matrix", "rows", &ManyCore::matrixRows, 0, 1024},
    {"matrix", "columns", &ManyCore::matrixColumns, 0, 1024},
    {"matrix", "depth", &ManyCore::matrixDepth, 0, 1024},
    {"matrix", "passes", &ManyCore::matrixPasses, 0, 64},
    {"matrix", "operand_bits", &ManyCore::matrixOperandBits, 0, 64},
    {"matrix", "accumulator_bits", &ManyCore::matrixAccumulatorBits, 0, 64},
    {"matrix", "floats", &ManyCore::hasFloatMatrices},
    {"network", "router_columns", &ManyCore::routerColumns, 1, 1024},
    {"network", "router_rows", &ManyCore::routerRows, 1, 1024},
    {"network", "payload_bytes", &ManyCore::payloadBytes, 0, 4096},
    {"network", "hop_cycles", &ManyCore::hopCycles, 0, mostCycles},
    {"network", "link_bytes_per_cycle", &ManyCore::linkBytesPerCycle, 0, 4096},
    {"network", "multicast", &ManyCore::hasMulticast},
    {"dram", "bytes", &ManyCore::dramBytes, 0, mostBytes},
    {"dram", "interleave_bytes", &ManyCore::interleaveBytes, 0, mostBytes},
    {"dma", "engines", &ManyCore::dmaEngines, 1, 64},
    {"dma", "alignment", &ManyCore::dmaAlignment, 1, 4096},
    {"dma", "setup_cycles", &ManyCore::dmaSetupCycles, 0, mostCycles},
    {"chips", "columns", &ManyCore::chipColumns, 1, 1024},
    {"chips", "rows", &ManyCore::chipRows, 1, 1024},
    {"chips", "hexagonal", &ManyCore::hasHexagonalLinks},
    {"chips", "link_bytes_per_second", &ManyCore::chipBytesPerSecond, 0,
     mostRate},
    {"chips", "link_latency_seconds", &ManyCore::chipLatencySeconds, 0,
     mostSeconds},
    {"calibration", "call_seconds", &ManyCore::callSeconds, 0, mostSeconds},
    {"calibration", "matrix_efficiency", &ManyCore::matrixEfficiency, 1e-3, 1},
    {"calibration", "dram_efficiency", &ManyCore::dramEfficiency, 1e-3, 1},
};

/// Returns a short text of a number for an error message.
static std::string show(double number) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (number == std::floor(number) && std::abs(number) <= 0x1p53)
    stream << int64_t(number);
  else
    stream << llvm::format("%g", number);
  return text;
}

/// Reads a number within the bounds. `isWhole` excludes fractions.
static FailureOr<double> readNumber(const llvm::json::Value &entry,
                                    const Twine &place, double least,
                                    double most, bool isWhole,
                                    std::string &error) {
  FailureOr<const llvm::json::Value *> value = readEntry(entry, place, error);
  if (failed(value))
    return failure();
  std::optional<double> given = (*value)->getAsNumber();
  if (given && *given >= least && *given <= most &&
      (!isWhole || (*value)->getAsInteger()))
    return *given;
  return fail(error, place + "expected " +
                         (isWhole ? "a whole number" : "a number") + " from " +
                         show(least) + " to " + show(most) + ", got " +
                         (given ? show(*given) : "no number"));
}

/// Reads a point of the grid of a chip, whose extents are known.
static FailureOr<ManyCore::Point> readPoint(const llvm::json::Value &value,
                                            const Twine &place,
                                            const ManyCore &machine,
                                            std::string &error) {
  const llvm::json::Array *array = value.getAsArray();
  if (array && array->size() == 2) {
    std::optional<int64_t> x = (*array)[0].getAsInteger();
    std::optional<int64_t> y = (*array)[1].getAsInteger();
    if (x && y && *x >= 0 && *y >= 0 && *x < machine.columns &&
        *y < machine.rows)
      return ManyCore::Point{*x, *y};
  }
  return fail(error, place + "expected a column and a row of the grid of " +
                         Twine(machine.columns) + " x " + Twine(machine.rows));
}

static LogicalResult readNumbers(const llvm::json::Object &description,
                                 ManyCore &machine, std::string &error) {
  for (const Number &number : numbers) {
    std::string place = (number.section + "." + number.key + ": ").str();
    const llvm::json::Value &entry =
        *description.getObject(number.section)->get(number.key);
    if (auto *truth = std::get_if<bool ManyCore::*>(&number.member)) {
      FailureOr<const llvm::json::Value *> value =
          readEntry(entry, place, error);
      if (failed(value))
        return failure();
      std::optional<bool> given = (*value)->getAsBoolean();
      if (!given)
        return fail(error, place + "expected true or false");
      machine.**truth = *given;
      continue;
    }
    auto *whole = std::get_if<int64_t ManyCore::*>(&number.member);
    FailureOr<double> given = readNumber(entry, place, number.least,
                                         number.most, whole != nullptr, error);
    if (failed(given))
      return failure();
    if (whole)
      machine.**whole = int64_t(*given);
    else
      machine.*std::get<double ManyCore::*>(number.member) = *given;
  }
  return success();
}

static LogicalResult readAbsent(const llvm::json::Object &description,
                                ManyCore &machine, std::string &error) {
  StringRef place = "grid.absent: ";
  FailureOr<const llvm::json::Value *> value =
      readEntry(*description.getObject("grid")->get("absent"), place, error);
  if (failed(value))
    return failure();
  const llvm::json::Array *points = (*value)->getAsArray();
  if (!points)
    return fail(error, place + "expected an array of points");
  for (const llvm::json::Value &each : *points) {
    FailureOr<ManyCore::Point> point = readPoint(each, place, machine, error);
    if (failed(point))
      return failure();
    machine.absent.push_back(*point);
  }
  llvm::sort(machine.absent);
  if (llvm::unique(machine.absent) != machine.absent.end())
    return fail(error, place + "expected each point once");
  if (machine.getCores() == 0)
    return fail(error, place + "expected at least one core that is not absent");
  return success();
}

static LogicalResult readChannels(const llvm::json::Object &description,
                                  ManyCore &machine, std::string &error) {
  const llvm::json::Array *channels =
      description.getObject("dram")->getArray("channels");
  if (!channels || channels->size() > mostChannels)
    return fail(error, "dram.channels: expected an array of at most " +
                           Twine(mostChannels) + " channels");
  for (size_t i = 0; i < channels->size(); ++i) {
    std::string place = ("dram.channels[" + Twine(i) + "]").str();
    const llvm::json::Object *object = (*channels)[i].getAsObject();
    if (!object)
      return fail(error, place + ": expected an object");
    constexpr StringRef keys[] = {"at", "bytes_per_second", "latency_seconds"};
    if (failed(checkKeys(*object, place + ": ", keys, keys, error)))
      return failure();
    FailureOr<const llvm::json::Value *> at =
        readEntry(*object->get("at"), place + ".at: ", error);
    if (failed(at))
      return failure();
    FailureOr<ManyCore::Point> point =
        readPoint(**at, place + ".at: ", machine, error);
    if (failed(point))
      return failure();
    FailureOr<double> rate = readNumber(*object->get("bytes_per_second"),
                                        place + ".bytes_per_second: ", 1,
                                        mostRate, /*isWhole=*/false, error);
    if (failed(rate))
      return failure();
    FailureOr<double> latency = readNumber(
        *object->get("latency_seconds"), place + ".latency_seconds: ", 0,
        mostSeconds, /*isWhole=*/false, error);
    if (failed(latency))
      return failure();
    machine.channels.push_back({*point, *rate, *latency});
  }
  return success();
}

/// Checks that the numbers agree with each other.
static LogicalResult check(const ManyCore &machine, std::string &error) {
  auto divides = [&](StringRef key, int64_t part, int64_t whole) {
    if (whole % part == 0)
      return true;
    error = (key + ": expected a divisor of the grid's extent " + Twine(whole) +
             ", got " + Twine(part))
                .str();
    return false;
  };
  if (!divides("group.columns", machine.groupColumns, machine.columns) ||
      !divides("group.rows", machine.groupRows, machine.rows) ||
      !divides("network.router_columns", machine.routerColumns,
               machine.columns) ||
      !divides("network.router_rows", machine.routerRows, machine.rows))
    return failure();
  if (machine.getCores() > mostCores)
    return fail(error, "chips: expected at most " + Twine(mostCores) +
                           " cores, got " + Twine(machine.getCores()));
  if (machine.dramBytes > mostMemory / machine.getChips())
    return fail(error, "dram.bytes: expected at most " + Twine(mostMemory) +
                           " bytes of all chips, got " +
                           Twine(machine.dramBytes) + " of each of " +
                           Twine(machine.getChips()) + " chips");
  if (!llvm::isPowerOf2_64(machine.dmaAlignment))
    return fail(error, "dma.alignment: expected a power of two, got " +
                           Twine(machine.dmaAlignment));
  if (machine.dataBytes % machine.dmaAlignment != 0)
    return fail(error, "core.data_bytes: expected a multiple of "
                       "dma.alignment = " +
                           Twine(machine.dmaAlignment) + ", got " +
                           Twine(machine.dataBytes));
  int64_t sizes[] = {machine.matrixRows,        machine.matrixColumns,
                     machine.matrixDepth,       machine.matrixPasses,
                     machine.matrixOperandBits, machine.matrixAccumulatorBits};
  size_t zeros = llvm::count(sizes, 0);
  if (zeros != 0 && zeros != std::size(sizes))
    return fail(error, "matrix: expected no number that is 0, or 0 for all "
                       "numbers of a machine without the array");
  if ((machine.dramBytes == 0) != machine.channels.empty())
    return fail(error, "dram: expected bytes and channels, or 0 bytes and no "
                       "channels");
  if (!machine.channels.empty() &&
      (machine.interleaveBytes == 0 ||
       machine.interleaveBytes % machine.dmaAlignment != 0))
    return fail(error, "dram.interleave_bytes: expected a positive multiple of "
                       "dma.alignment = " +
                           Twine(machine.dmaAlignment) + ", got " +
                           Twine(machine.interleaveBytes));
  bool hasNetwork = !machine.channels.empty() || machine.getChips() > 1 ||
                    machine.columns * machine.rows >
                        machine.routerColumns * machine.routerRows;
  if (hasNetwork &&
      (machine.payloadBytes == 0 || machine.linkBytesPerCycle < 1e-6))
    return fail(error, "network: expected positive payload_bytes and "
                       "link_bytes_per_cycle");
  if (machine.getChips() > 1 && machine.chipBytesPerSecond < 1)
    return fail(error, "chips.link_bytes_per_second: expected a positive "
                       "number for several chips");
  return success();
}

/// Replaces the entries of `description` by those of `changes`.
static void merge(llvm::json::Object &description,
                  const llvm::json::Object &changes) {
  for (const auto &[key, value] : changes) {
    llvm::json::Object *section = description.getObject(key);
    const llvm::json::Object *changed = value.getAsObject();
    if (section && changed && !section->get("source"))
      merge(*section, *changed);
    else
      description[key] = value;
  }
}

FailureOr<ManyCore> mlir::repro::readManyCore(StringRef text,
                                              ArrayRef<ManyCore> machines,
                                              std::string &error) {
  FailureOr<llvm::json::Object> description = parseObject(text, error);
  if (failed(description))
    return failure();
  if (const llvm::json::Value *extends = description->get("extends")) {
    StringRef name = extends->getAsString().value_or("");
    const ManyCore *base = findByName(machines, name);
    if (!base)
      return fail(error, "extends: expected one of " + listNames(machines) +
                             ", got " + quote(name));
    llvm::json::Object changes = std::move(*description);
    changes.erase("extends");
    llvm::json::Value complete = llvm::cantFail(llvm::json::parse(base->text));
    description = std::move(*complete.getAsObject());
    merge(*description, changes);
  }

  // The keys of each section, in the order of the table.
  SmallVector<StringRef> top = {"kind"};
  llvm::StringMap<SmallVector<StringRef>> keys;
  for (const Number &number : numbers) {
    if (!llvm::is_contained(top, number.section))
      top.push_back(number.section);
    keys[number.section].push_back(number.key);
  }
  keys["grid"].push_back("absent");
  keys["dram"].push_back("channels");
  if (failed(checkKeys(*description, "", top, top, error)))
    return failure();
  if (description->getString("kind") != "cores")
    return fail(error, "kind: expected 'cores'");
  for (StringRef section : ArrayRef<StringRef>(top).drop_front()) {
    const llvm::json::Object *object = description->getObject(section);
    if (!object)
      return fail(error, section + ": expected an object");
    if (failed(checkKeys(*object, section + ": ", keys[section], keys[section],
                         error)))
      return failure();
  }

  ManyCore machine;
  if (failed(readNumbers(*description, machine, error)) ||
      failed(readAbsent(*description, machine, error)) ||
      failed(readChannels(*description, machine, error)) ||
      failed(check(machine, error)))
    return failure();
  llvm::raw_string_ostream(machine.text)
      << llvm::json::Value(std::move(*description));
  // Core plans contain this text, which must be readable like a file.
  if (machine.text.size() > mostFileBytes)
    return fail(error, "expected at most " + Twine(mostFileBytes) +
                           " bytes with the numbers of the machine in "
                           "'extends', got " +
                           Twine(machine.text.size()));
  return machine;
}

FailureOr<ManyCore> mlir::repro::readManyCore(StringRef text,
                                              std::string &error) {
  return readManyCore(text, {}, error);
}

FailureOr<ManyCore> mlir::repro::readMachineFile(StringRef path,
                                                 ArrayRef<ManyCore> machines,
                                                 std::string &error) {
  std::string reason;
  FailureOr<std::string> text = readFileText(path, reason);
  FailureOr<ManyCore> machine = failure();
  if (succeeded(text))
    machine = readManyCore(*text, machines, reason);
  if (failed(machine))
    return fail(error, path + ": " + reason);
  machine->name = path.str();
  return machine;
}
