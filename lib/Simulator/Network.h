//===- Network.h - Links, routes and channels of a machine ------*- C++ -*-===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The network of a machine as a list of links with rates. A transfer flows
// through a tree of links: its head enters a link when the link is free, and
// the link is busy with the transfer's bytes from then on.
//
//===----------------------------------------------------------------------===//

#ifndef REPRO_SIMULATOR_NETWORK_H
#define REPRO_SIMULATOR_NETWORK_H

#include "Simulator/SimulatedTime.h"
#include "Target/ManyCore.h"

#include <map>
#include <tuple>

namespace repro_simulator {

/// A part of the machine that carries one transfer at a time.
struct Link {
  enum Kind {
    PortOut, ///< from a core to its router
    PortIn,  ///< from a router to a core
    Mesh,    ///< between the routers of a chip
    Chip,    ///< between two chips
    Channel, ///< of DRAM
  };
  using Point = mlir::repro::ManyCore::Point;

  Kind kind;
  /// Cores, routers, chips, or the router and the number of a channel.
  Point from, to;
  double bytesPerSecond;
  Time latency;

  // Counted during a simulation.
  Time freeAt = 0, busy = 0;
  uint64_t bytes = 0;

  /// Returns how long the link is busy with a transfer.
  Time occupy(uint64_t bytes) const {
    return fromSeconds(double(bytes) / bytesPerSecond);
  }
};

/// The way of a transfer: a tree of links. The parent of a node precedes it.
struct Route {
  static constexpr uint32_t none = ~0u;
  struct Node {
    uint32_t link;
    uint32_t destination = none; ///< the number of the core that receives here
    std::vector<uint32_t> next;
  };
  std::vector<Node> nodes;
  std::vector<uint32_t> roots;
};

class Network {
public:
  using ManyCore = mlir::repro::ManyCore;
  using Point = ManyCore::Point;

  explicit Network(const ManyCore &machine);

  /// Returns the links from a core to others: one tree if the routers multicast
  /// transfers, else one path per destination.
  const Route &routeToCores(Point from, const std::vector<Point> &to);
  /// Returns the path from a channel to a core, or from a core to a channel.
  const Route &routeFromChannel(unsigned channel, Point to);
  const Route &routeToChannel(Point from, unsigned channel);

  /// Returns the time of a message without bytes from a core to another core,
  /// or to a channel.
  Time getLatency(Point from, Point to) const {
    return getRouterLatency(machine.getRouter(from), machine.getRouter(to));
  }
  Time getChannelLatency(Point from, unsigned channel) const {
    return getRouterLatency(machine.getRouter(from), getChannelRouter(channel));
  }

  /// Returns the channel that holds a byte of the DRAM.
  unsigned findChannel(uint64_t address) const;

  /// Forgets the transfers.
  void reset();

  /// The busiest channel, and the busiest cut of a chip between two columns or
  /// two rows: no schedule of the same transfers is faster.
  Time getChannelBound() const;
  Time getBisectionBound() const;

  std::vector<Link> links;

private:
  /// A router as a point of the grid of all routers.
  Point getChannelRouter(unsigned channel) const;
  Point getGateway(Point chip) const;
  Point getChipOf(Point router) const;
  uint32_t getLink(Link::Kind kind, Point from, Point to);
  Time getHopLatency(Link::Kind kind) const;
  Time getRouterLatency(Point from, Point to) const;
  /// Calls `visit` with each link between two routers.
  template <typename Visit>
  void walk(Point from, Point to, Visit visit) const;
  void append(Route &route, uint32_t link) const;

  const ManyCore &machine;
  Point routers; ///< of a chip, in columns and rows
  unsigned numChannels;
  std::map<std::array<int64_t, 5>, uint32_t> numbers;
  std::map<std::vector<Point>, Route> routes;
  /// By channel, core, and whether the channel is the begin.
  std::map<std::tuple<unsigned, Point, bool>, Route> channelRoutes;
};

} // namespace repro_simulator

#endif // REPRO_SIMULATOR_NETWORK_H
