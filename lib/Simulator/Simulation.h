//===- Simulation.h - The events of one step --------------------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_SIMULATOR_SIMULATION_H
#define REPRO_SIMULATOR_SIMULATION_H

#include "Simulator/AccessChecker.h"
#include "Simulator/Simulator.h"

#include <deque>
#include <optional>
#include <queue>

namespace repro_simulator {

/// One step of a plan.
class Simulation {
public:
  Simulation(const CorePlan &plan, const mlir::repro::ManyCore &machine,
             const std::vector<KernelEntry> &kernels, const PlanIndex &index,
             Network &network, char *const *buffers, bool checksAccesses,
             Report &report);

  Outcome run(const std::function<bool()> &isInterrupted, Error &error);

private:
  struct FreeMemory {
    void operator()(char *memory) const;
  };
  using Clock = std::shared_ptr<const VectorClock>;
  /// A kernel's writes to scratch memory leave no useful values.
  enum class AccessKind { Read, Write, Scratch };

  struct Counter {
    std::vector<Clock> additions; ///< what is known at each
    uint32_t value = 0;           ///< those that have arrived
    uint32_t known = 0;           ///< those that the core knows
  };

  struct Transfer {
    uint32_t program, op;
    uint32_t actor = 0;     ///< of the vector clocks
    uint32_t moment = 0;    ///< of the actor
    uint32_t remaining = 0; ///< flows and destinations
    bool isComplete = false;
    Time begin = 0;
  };

  /// Bytes of a transfer on their way through a tree of links.
  struct Flow {
    uint32_t transfer;
    uint64_t bytes;
    const Route *route;
    /// When the last byte arrives at each node of the route.
    std::vector<Time> tails;
  };

  struct CoreState {
    std::unique_ptr<char, FreeMemory> memory;
    uint32_t op = 0;
    enum { Ready, Blocked, Ended, Failed } state = Ready;
    Time blockedAt = 0;
    std::vector<uint32_t> transfers; ///< by number in the program
    std::deque<uint32_t> queue;      ///< transfers without an engine
    uint32_t engines = 0;            ///< busy ones
    Time enginesAt = 0;              ///< since when at least one is busy
    std::map<uint32_t, Counter> counters;

    // For the checks of accesses.
    VectorClock clock;
    uint32_t actor = 0;
    std::vector<uint32_t> freeActors; ///< for transfers
    std::optional<AccessChecker> accesses;
  };

  struct Event {
    enum Kind {
      Resume,   ///< a: program
      Head,     ///< a: flow, b: node of its route
      Arrive,   ///< a: flow, b: destination
      Complete, ///< a: transfer without bytes
      Add,      ///< a: program, b: counter
    };
    Time time;
    uint64_t number;
    Kind kind;
    uint32_t a, b;

    bool operator<(const Event &other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  void push(Time time, Event::Kind kind, uint32_t a, uint32_t b = 0);
  void handle(const Event &event);

  // The operations of a program. Each returns whether the next one follows at
  // the same time.
  void resume(uint32_t program);
  bool start(uint32_t program, const Copy &copy);
  bool start(uint32_t program, const Wait &wait);
  bool start(uint32_t program, const Run &run);
  bool start(uint32_t program, const Send &send);
  bool start(uint32_t program, const Release &release);
  bool start(uint32_t program, const Acquire &acquire);
  bool start(uint32_t program, const Check &check);
  /// Continues the program after a duration in which it does not wait.
  bool spend(uint32_t program, Interval::Kind kind, Time duration);
  bool block(uint32_t program);
  /// Notes the message in an error word; returns whether there is one.
  bool noteWord(const char *word);
  void unblock(uint32_t program);

  // Transfers.
  uint32_t beginTransfer(uint32_t program);
  void request(uint32_t transfer);
  void startEngine(uint32_t transfer);
  void addFlow(uint32_t transfer, uint64_t bytes, const Route &route,
               Time head);
  void advance(uint32_t flow, uint32_t node);
  void arrive(uint32_t flow, uint32_t destination);
  void complete(uint32_t transfer);
  void addFlows(uint32_t transfer, const Copy &copy, Time head);
  void move(uint32_t program, uint32_t op, const Copy &copy);

  void add(uint32_t program, uint32_t counter);

  // Memories.
  char *getMemory(uint32_t program, const Place &place);
  AccessChecker *getAccesses(uint32_t program, Memory memory, uint32_t index);
  uint64_t getAddress(const Place &place) const;

  // Checks of accesses; without effect if they are off.
  /// Checks an access of an operation that knows `known`, by default what the
  /// program knows.
  void access(uint32_t program, Memory memory, uint32_t index, uint64_t offset,
              uint64_t bytes, AccessKind kind, const Access &by,
              const VectorClock *known = nullptr);
  Access byProgram(uint32_t program) const;
  /// Returns what the program knows, and what it will know after `transfer`.
  Clock publish(uint32_t program, const Transfer *transfer);

  void fail(const Error &error);
  void record(Interval::Kind kind, uint32_t program, uint32_t op, Time begin,
              Time end);
  Error describeDeadlock() const;
  Error findUndefinedOutput() const;

  Time fromCycles(double cycles) const {
    return fromSeconds(cycles / machine.clockHz);
  }

  const CorePlan &plan;
  const mlir::repro::ManyCore &machine;
  const std::vector<KernelEntry> &kernels;
  const PlanIndex &index;
  Network &network;
  char *const *buffers;
  bool checksAccesses;
  Report &report;

  std::priority_queue<Event> events;
  uint64_t numEvents = 0;
  Time now = 0;
  std::vector<CoreState> cores;
  std::vector<Transfer> transfers;
  std::vector<Flow> flows;
  std::unique_ptr<char, FreeMemory> arena;
  std::unique_ptr<char, FreeMemory> scratch; ///< of the simulator's kernels
  std::vector<AccessChecker> accesses;       ///< states, inputs, outputs, arena
  /// The first byte of each state, input, output, the arena and the constants
  /// in the DRAM.
  std::vector<uint64_t> addresses;
  Error wrong;             ///< the first error of the plan
  int64_t message = 0;     ///< (E1) the smallest one that failed, plus 1
  std::string stateWriter; ///< the first operation that wrote a state
};

} // namespace repro_simulator

#endif // REPRO_SIMULATOR_SIMULATION_H
