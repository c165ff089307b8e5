//===- Emulator.cpp - C API of the PTX emulator ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CAPI/Emulator.h"

#include "Emulator/Emulator.h"

using namespace repro_emulator;

static Memory &unwrap(ReproEmulatorMemory memory) {
  return *static_cast<Memory *>(memory.ptr);
}

static Module &unwrap(ReproEmulatorModule module) {
  return *static_cast<Module *>(module.ptr);
}

static std::string_view unwrap(MlirStringRef text) {
  return {text.data, text.length};
}

static MlirStringRef wrap(const std::string &text) {
  return {text.data(), text.size()};
}

static const Kernel &getKernel(ReproEmulatorModule module, intptr_t kernel) {
  return unwrap(module).getKernels()[size_t(kernel)];
}

ReproEmulatorMemory reproEmulatorMemoryCreate(void) { return {new Memory}; }

void reproEmulatorMemoryDestroy(ReproEmulatorMemory memory) {
  delete &unwrap(memory);
}

bool reproEmulatorMemoryAdd(ReproEmulatorMemory memory, void *address,
                            uint64_t bytes, MlirStringRef name) {
  return unwrap(memory).add(reinterpret_cast<uint64_t>(address), bytes,
                            std::string(unwrap(name)));
}

bool reproEmulatorMemoryRemove(ReproEmulatorMemory memory, void *address) {
  return unwrap(memory).remove(reinterpret_cast<uint64_t>(address));
}

ReproEmulatorModule reproEmulatorLoad(MlirStringRef ptx, MlirStringRef level,
                                      MlirStringCallback error,
                                      void *userData) {
  std::string message;
  std::unique_ptr<Module> module =
      Module::load(unwrap(ptx), unwrap(level), message);
  if (!module)
    error(wrap(message), userData);
  return {module.release()};
}

void reproEmulatorUnload(ReproEmulatorModule module) { delete &unwrap(module); }

void reproEmulatorLevels(MlirStringCallback callback, void *userData) {
  std::string levels;
  for (auto *table = getOperationTables(); *table; ++table)
    levels += (levels.empty() ? "" : ", ") + std::string((*table)->level);
  callback(wrap(levels), userData);
}

void reproEmulatorOpcodes(MlirStringCallback callback, void *userData) {
  const OperationTable &table = **getOperationTables();
  std::string opcodes;
  for (size_t i = 0; i < table.size; ++i)
    opcodes += (i ? ", " : "") + std::string(table.operations[i].opcode);
  callback(wrap(opcodes), userData);
}

MlirStringRef reproEmulatorGetTarget(ReproEmulatorModule module) {
  return wrap(unwrap(module).getTarget());
}

intptr_t reproEmulatorGetNumKernels(ReproEmulatorModule module) {
  return intptr_t(unwrap(module).getKernels().size());
}

MlirStringRef reproEmulatorGetKernelName(ReproEmulatorModule module,
                                         intptr_t kernel) {
  return wrap(getKernel(module, kernel).name);
}

intptr_t reproEmulatorFindKernel(ReproEmulatorModule module,
                                 MlirStringRef name) {
  const std::vector<Kernel> &kernels = unwrap(module).getKernels();
  for (size_t i = 0; i < kernels.size(); ++i)
    if (kernels[i].name == unwrap(name))
      return intptr_t(i);
  return -1;
}

intptr_t reproEmulatorGetNumParameters(ReproEmulatorModule module,
                                       intptr_t kernel) {
  return intptr_t(getKernel(module, kernel).parameters.size());
}

void reproEmulatorGetParameter(ReproEmulatorModule module, intptr_t kernel,
                               intptr_t index, uint64_t *offset,
                               uint64_t *bytes) {
  const Parameter &parameter =
      getKernel(module, kernel).parameters[size_t(index)];
  *offset = parameter.offset;
  *bytes = parameter.bytes;
}

uint64_t reproEmulatorGetParameterBytes(ReproEmulatorModule module,
                                        intptr_t kernel) {
  return getKernel(module, kernel).parameterBytes;
}

uint64_t reproEmulatorGetSharedBytes(ReproEmulatorModule module,
                                     intptr_t kernel) {
  return getKernel(module, kernel).sharedBytes;
}

ReproEmulatorStatus reproEmulatorLaunch(
    ReproEmulatorModule module, intptr_t kernel, const uint32_t grid[3],
    const uint32_t block[3], uint32_t sharedBytes, const void *parameters,
    uint64_t parameterBytes, ReproEmulatorMemory memory,
    ReproEmulatorOptions options, MlirStringCallback error, void *userData) {
  LaunchSize size = {
      {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, sharedBytes};
  LaunchOptions chosen = {options.threads, options.checked,
                          Order(options.order), options.seed,
                          std::string(unwrap(options.matrixUnit))};
  Fault fault = unwrap(module).launch(
      size_t(kernel), size,
      {static_cast<const char *>(parameters), size_t(parameterBytes)},
      unwrap(memory), chosen);
  if (fault)
    error(wrap(fault.message), userData);
  return ReproEmulatorStatus(fault.status);
}

ReproEmulatorStatus reproEmulatorCount(
    ReproEmulatorModule module, intptr_t kernel, const uint32_t grid[3],
    const uint32_t block[3], uint32_t sharedBytes, const void *parameters,
    uint64_t parameterBytes, ReproEmulatorMemory memory, const uint64_t *blocks,
    intptr_t numBlocks, uint64_t most, ReproEmulatorCountCallbacks callbacks) {
  LaunchSize size = {
      {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, sharedBytes};
  Counts counts;
  Fault fault = unwrap(module).count(
      size_t(kernel), size,
      {static_cast<const char *>(parameters), size_t(parameterBytes)},
      unwrap(memory), {blocks, blocks + numBlocks}, most, counts);
  if (fault)
    callbacks.error(wrap(fault.message), callbacks.userData);
  for (const InstructionCount &each : counts.instructions)
    callbacks.instruction(
        {each.line, each.runs, each.sectors, each.newSectors, each.wavefronts},
        callbacks.userData);
  for (const BufferCount &each : counts.buffers)
    callbacks.buffer({wrap(each.name), each.begin, each.end, each.newSectors,
                      each.isRead, each.isWritten},
                     callbacks.userData);
  return ReproEmulatorStatus(fault.status);
}
