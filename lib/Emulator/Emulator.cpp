//===- Emulator.cpp - Runs PTX text on the host ---------------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulator/Emulator.h"

#include "Emulator/BlockRunner.h"
#include "Emulator/Decoder.h"
#include "Runtime/FloatEnvironment.h"
#include "Runtime/ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

using namespace repro_emulator;

bool Memory::add(uint64_t begin, uint64_t bytes, std::string name,
                 bool writable) {
  if (bytes == 0)
    return true;
  auto after = std::find_if(regions.begin(), regions.end(),
                            [&](auto &region) { return region.end > begin; });
  if (begin + bytes < begin ||
      (after != regions.end() && after->begin < begin + bytes))
    return false;
  regions.insert(after, {begin, begin + bytes, std::move(name), writable});
  return true;
}

bool Memory::remove(uint64_t begin) {
  auto found = std::find_if(regions.begin(), regions.end(), [&](auto &region) {
    return region.begin == begin;
  });
  if (found == regions.end())
    return false;
  regions.erase(found);
  return true;
}

Module::Module() = default;
Module::~Module() = default;

std::unique_ptr<Module>
Module::load(std::string_view ptx, std::string_view level, std::string &error) {
  std::unique_ptr<Module> result(new Module);
  for (auto *table = getOperationTables(); *table; ++table)
    if (level.empty() || level == (*table)->level)
      result->operations = *table;
  if (!result->operations) {
    error = "this machine does not run level '" + std::string(level) + "'";
    return nullptr;
  }
  SourceModule source;
  error = parsePtx(ptx, source);
  if (!error.empty())
    return nullptr;
  result->target = source.target;
  for (const Variable &variable : source.variables) {
    if (variable.space == Space::Shared)
      continue;
    ModuleVariable place;
    place.name = variable.name;
    place.bytes = variable.bytes;
    place.writable = variable.space == Space::Global;
    place.storage =
        std::make_unique<char[]>(variable.bytes + variable.alignment);
    uint64_t begin = reinterpret_cast<uint64_t>(place.storage.get());
    place.begin =
        place.storage.get() +
        (variable.alignment - begin % variable.alignment) % variable.alignment;
    if (!variable.initial.empty())
      std::memcpy(place.begin, variable.initial.data(), variable.bytes);
    result->variables.push_back(std::move(place));
  }
  OpcodeMap opcodes;
  for (size_t i = 0; i < result->operations->size; ++i)
    opcodes.emplace(result->operations->operations[i].opcode,
                    &result->operations->operations[i]);
  for (const Function &function : source.functions) {
    if (!function.entry || !function.defined)
      continue;
    Kernel kernel;
    error =
        Decoder(source, opcodes, result->variables).decode(function, kernel);
    if (!error.empty()) {
      error += " (in kernel '" + function.name + "')";
      return nullptr;
    }
    result->kernels.push_back(std::move(kernel));
  }
  return result;
}

static std::string describe(const uint32_t *extents) {
  return "(" + std::to_string(extents[0]) + ", " + std::to_string(extents[1]) +
         ", " + std::to_string(extents[2]) + ")";
}

/// Returns an error message if a kernel cannot be launched with this size and
/// these parameters; otherwise an empty string.
static std::string checkLaunch(const Kernel &kernel, const LaunchSize &size,
                               std::string_view parameters) {
  constexpr uint64_t mostThreads = 1024, mostSharedBytes = 227 * 1024;
  const uint32_t *block = size.block, *grid = size.grid;
  uint64_t threads = uint64_t(block[0]) * block[1] * block[2];
  if (!threads || block[0] > 1024 || block[1] > 1024 || block[2] > 64 ||
      threads > mostThreads)
    return "expected a block of 1 to 1024 threads, got " + describe(block);
  if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7fffffff ||
      grid[1] > 65535 || grid[2] > 65535)
    return "expected a grid from (1, 1, 1) to (2147483647, 65535, 65535), "
           "got " +
           describe(grid);
  uint64_t blocks = uint64_t(grid[0]) * grid[1];
  if (blocks > UINT32_MAX / grid[2])
    return "expected fewer than 2^32 blocks, got a grid of " + describe(grid);
  if (kernel.requiredBlock[0] &&
      !std::equal(block, block + 3, kernel.requiredBlock))
    return "expected a block of " + describe(kernel.requiredBlock) +
           " (.reqntid), got " + describe(block);
  const uint32_t *most = kernel.greatestBlock;
  if (most[0] && threads > uint64_t(most[0]) * most[1] * most[2])
    return "expected at most " + describe(most) + " threads (.maxntid), got " +
           describe(block);
  if (parameters.size() != kernel.parameterBytes)
    return "expected " + std::to_string(kernel.parameterBytes) +
           " bytes of parameters, got " + std::to_string(parameters.size());
  if (kernel.sharedBytes + size.sharedBytes > mostSharedBytes)
    return "expected at most " + std::to_string(mostSharedBytes) +
           " bytes of shared memory, got " +
           std::to_string(kernel.sharedBytes + size.sharedBytes);
  return {};
}

/// Returns the matrix unit whose class or architecture is named `name`; null if
/// there is none. If the kernel multiplies an element type that this unit does
/// not support, or there is no unit, sets `wrong` to an error message.
static const MatrixUnit *chooseMatrixUnit(const Kernel &kernel,
                                          std::string_view name,
                                          std::string &wrong) {
  const MatrixUnit *unit = repro_target::findMatrixUnit(name);
  if (!unit)
    unit = repro_target::getMatrixUnitOf(name);
  for (unsigned i = 0; i < std::size(repro_target::matrixElementNames); ++i)
    if (kernel.matrixElements >> i & 1 &&
        (!unit || !unit->getRule(MatrixElement(i))))
      wrong = "expected a matrix unit that multiplies " +
              std::string(repro_target::matrixElementNames[i]) + ", got '" +
              std::string(name) + "'";
  return unit;
}

LaunchContext Module::makeContext(const Kernel &kernel, const LaunchSize &size,
                                  std::string_view parameters,
                                  const Memory &memory,
                                  const LaunchOptions &options,
                                  Fault &fault) const {
  std::string wrong = checkLaunch(kernel, size, parameters);
  const MatrixUnit *unit = chooseMatrixUnit(
      kernel, options.matrixUnit.empty() ? target : options.matrixUnit, wrong);
  if (!wrong.empty())
    fault = {Status::BadLaunch, "kernel '" + kernel.name + "': " + wrong};
  LaunchContext context{kernel,     *operations,         size, options,
                        parameters, memory.getRegions(), unit};
  for (const ModuleVariable &variable : variables) {
    uint64_t begin = reinterpret_cast<uint64_t>(variable.begin);
    context.regions.push_back(
        {begin, begin + variable.bytes, variable.name, variable.writable});
  }
  std::sort(context.regions.begin(), context.regions.end(),
            [](auto &a, auto &b) { return a.begin < b.begin; });
  return context;
}

Fault Module::count(size_t index, const LaunchSize &size,
                    std::string_view parameters, const Memory &memory,
                    const std::vector<uint64_t> &blocks, uint64_t most,
                    Counts &counts) {
  Fault fault;
  LaunchContext context =
      makeContext(kernels[index], size, parameters, memory, {}, fault);
  uint64_t all = uint64_t(size.grid[0]) * size.grid[1] * size.grid[2];
  for (uint64_t number : blocks)
    if (!fault && number >= all)
      fault = {Status::BadLaunch,
               "expected a block of the " + std::to_string(all) +
                   " of the grid, got " + std::to_string(number)};
  if (fault)
    return fault;
  std::lock_guard<std::mutex> lock(mutex);
  ::repro_runtime::FloatEnvironment environment;
  Counter counter(context.kernel, context.regions, most);
  context.counter = &counter;
  BlockRunner runner(context);
  for (uint64_t number : blocks)
    if ((fault = runner.run(number)))
      return fault;
  counts = counter.take();
  return fault;
}

Fault Module::launch(size_t index, const LaunchSize &size,
                     std::string_view parameters, const Memory &memory,
                     const LaunchOptions &options) {
  const Kernel &kernel = kernels[index];
  Fault fault;
  LaunchContext context =
      makeContext(kernel, size, parameters, memory, options, fault);
  if (fault)
    return fault;
  std::lock_guard<std::mutex> lock(mutex);
  ::repro_runtime::FloatEnvironment environment;
  RaceDetector globalAccesses;
  if (options.checked) {
    globalAccesses.reset(kernel.globalGranule, /*perBlock=*/false);
    context.globalAccesses = &globalAccesses;
  }

  uint64_t blocks = uint64_t(size.grid[0]) * size.grid[1] * size.grid[2];
  unsigned threads = options.checked ? 1 : std::max(1u, options.threads);
  threads = unsigned(std::min<uint64_t>(threads, blocks));
  if (threads > 1 && (!pool || pool->size() != options.threads))
    pool = std::make_unique<::repro_runtime::ThreadPool>(options.threads);

  // If the order of the threads is not lockstep, the blocks run in that order
  // too.
  uint64_t step = 1, start = 0;
  if (options.order == Order::Descending) {
    step = blocks - 1;
    start = blocks - 1;
  } else if (options.order == Order::Shuffled) {
    start = options.seed % blocks;
    step = (options.seed | 1) % blocks;
    while (std::gcd(step, blocks) != 1)
      ++step;
  }

  struct Work {
    const LaunchContext &context;
    uint64_t blocks, step, start;
    unsigned shares = 1;
    std::vector<std::unique_ptr<BlockRunner>> runners = {};
    std::mutex mutex = {};
    std::atomic<uint64_t> failedBlock = {UINT64_MAX};
    Fault fault = {};

    void run(unsigned share, unsigned thread) {
      uint64_t begin = blocks * share / shares;
      uint64_t end = blocks * (share + 1) / shares;
      std::unique_ptr<BlockRunner> &runner = runners[thread];
      if (!runner)
        runner = std::make_unique<BlockRunner>(context);
      for (uint64_t i = begin; i < end && i < failedBlock; ++i) {
        uint64_t number = (start + i * step) % blocks;
        Fault found = runner->run(number);
        if (!found)
          continue;
        // The reported fault is that of the block with the lowest number,
        // whichever host thread finds its fault first.
        std::lock_guard<std::mutex> lock(mutex);
        if (i < failedBlock) {
          failedBlock = i;
          fault = std::move(found);
        }
        return;
      }
    }
  };
  Work work{context, blocks, step, start};
  work.runners.resize(threads > 1 ? pool->size() : 1);
  if (threads == 1) {
    work.run(0, 0);
  } else {
    work.shares = unsigned(std::min<uint64_t>(blocks, threads * 8));
    pool->run(
        [](void *work, unsigned share, unsigned thread) {
          static_cast<Work *>(work)->run(share, thread);
        },
        &work, work.shares);
  }
  return std::move(work.fault);
}
