//===- Machines.cpp - Built-in descriptions of machines -------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target/DescriptionReader.h"
#include "Target/MachineReader.h"
#include "Target/ManyCore.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace mlir::repro;

namespace {
struct Description {
  StringLiteral name, text;
};

/// The machines that the files in lib/Target/machines describe.
struct Machines {
  std::vector<Level> levels, microcontrollers;
  std::vector<Architecture> architectures;
  std::vector<ManyCore> manyCores;

  Machines();

private:
  template <typename T>
  void add(const Description &description, std::vector<T> &machines) {
    std::string error;
    T machine;
    machine.name = machine.description = description.name.str();
    if (failed(readMachine(description.text, machine, error)))
      refuse(description, error);
    machines.push_back(std::move(machine));
  }
  void addManyCore(const Description &description) {
    std::string error;
    FailureOr<ManyCore> machine =
        readManyCore(description.text, manyCores, error);
    if (failed(machine))
      refuse(description, error);
    machine->name = description.name.str();
    manyCores.push_back(std::move(*machine));
  }
  [[noreturn]] static void refuse(const Description &description,
                                  const Twine &error) {
    llvm::report_fatal_error("machine " + Twine(description.name) + ": " +
                             error);
  }
};
} // namespace

static constexpr Description descriptions[] = {
#include "lib/Target/Machines.inc"
};

Machines::Machines() {
  for (const Description &description : descriptions) {
    std::string kind = readMachineKind(description.text);
    if (kind == "cpu")
      add(description, levels);
    else if (kind == "microcontroller")
      add(description, microcontrollers);
    else if (kind == "gpu")
      add(description, architectures);
    else if (kind == "cores")
      addManyCore(description);
    else
      refuse(description, "unknown kind '" + kind + "'");
  }
}

static const Machines &getMachines() {
  static const Machines machines;
  return machines;
}

template <typename T>
static FailureOr<T> get(ArrayRef<T> machines, StringRef kind,
                        StringRef nameOrPath, std::string &error) {
  if (nameOrPath.ends_with(".json"))
    return readMachineFile(nameOrPath, machines, error);
  if (const T *machine = findByName(machines, nameOrPath))
    return *machine;
  error = ("unknown " + kind + " '" + nameOrPath + "', expected one of " +
           listNames(machines))
              .str();
  return failure();
}

ArrayRef<Level> mlir::repro::getLevels() { return getMachines().levels; }

const Level *mlir::repro::findLevel(StringRef name) {
  return findByName(getLevels(), name);
}

FailureOr<Level> mlir::repro::getLevel(StringRef nameOrPath,
                                       std::string &error) {
  if (const Level *level =
          findByName<Level>(getMachines().microcontrollers, nameOrPath))
    return *level;
  return get(getLevels(), "CPU level", nameOrPath, error);
}

std::string mlir::repro::listLevels() { return listNames(getLevels()); }

ArrayRef<Architecture> mlir::repro::getArchitectures() {
  return getMachines().architectures;
}

FailureOr<Architecture> mlir::repro::getArchitecture(StringRef description,
                                                     std::string &error) {
  StringRef nameOrPath = description;
  bool hasTensorCores = nameOrPath.consume_back(tensorCoresSuffix);
  FailureOr<Architecture> architecture =
      get(getArchitectures(), "architecture", nameOrPath, error);
  if (succeeded(architecture) && hasTensorCores) {
    architecture->description = description.str();
    architecture->matrixUnit =
        ::repro_target::getMatrixUnitOf(architecture->name);
    if (!architecture->matrixUnit) {
      error = "the architecture " + architecture->name +
              " has no class of tensor cores";
      return failure();
    }
  }
  return architecture;
}

std::string mlir::repro::listArchitectures() {
  return listNames(getArchitectures());
}

ArrayRef<ManyCore> mlir::repro::getManyCores() {
  return getMachines().manyCores;
}

FailureOr<ManyCore> mlir::repro::getManyCore(StringRef description,
                                             std::string &error) {
  auto [name, text] = description.rsplit('\n');
  if (!text.starts_with("{") || description.ends_with(".json"))
    return get(getManyCores(), "machine of many cores", description, error);
  FailureOr<ManyCore> machine = readManyCore(text, error);
  if (failed(machine))
    return fail(error, name + ": " + error);
  machine->name = name.str();
  return machine;
}

std::string mlir::repro::listManyCores() { return listNames(getManyCores()); }

bool mlir::repro::runsOnHost(const Level &level) {
  const Level &host = getHostLevel();
  return level.machine == host.machine &&
         level.vectorWidth <= host.vectorWidth &&
         (!level.hasByteDots || host.hasByteDots);
}

const Level &mlir::repro::getHostLevel() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto has = [&](std::initializer_list<StringRef> names) {
    return llvm::all_of(names,
                        [&](StringRef name) { return features.lookup(name); });
  };
#if defined(__aarch64__)
  return *findLevel(has({"dotprod"}) ? "aarch64-dotprod" : "aarch64");
#elif !defined(__x86_64__)
#error "no file of lib/Target/machines describes the processors of this host"
#else
  if (!has({"avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe"}))
    return *findLevel("x86-64-v2");
  if (!has({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}))
    return *findLevel("x86-64-v3");
  return *findLevel(has({"avx512vnni"}) ? "x86-64-v4-vnni" : "x86-64-v4");
#endif
}
