//===- Network.cpp - Links, routes and channels of a machine --------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simulator/Network.h"

#include <algorithm>

using namespace repro_simulator;

Network::Network(const ManyCore &machine)
    : machine(machine),
      routers({(machine.columns + machine.routerColumns - 1) /
                   machine.routerColumns,
               (machine.rows + machine.routerRows - 1) / machine.routerRows}),
      numChannels(unsigned(machine.channels.size() * machine.getChips())) {
  // Channels are numbered chip by chip; the other links on demand.
  for (unsigned i = 0; i < numChannels; ++i) {
    const ManyCore::Channel &channel =
        machine.channels[i % machine.channels.size()];
    links.push_back({Link::Channel, getChannelRouter(i), Point{int64_t(i), 0},
                     channel.bytesPerSecond * machine.dramEfficiency,
                     fromSeconds(channel.latencySeconds)});
  }
}

Network::Point Network::getChannelRouter(unsigned channel) const {
  int64_t chip = channel / int64_t(machine.channels.size());
  Point at = machine.channels[channel % machine.channels.size()].at;
  return machine.getRouter(
      {chip % machine.chipColumns * machine.columns + at[0],
       chip / machine.chipColumns * machine.rows + at[1]});
}

unsigned Network::findChannel(uint64_t address) const {
  uint64_t all = machine.channels.size() * uint64_t(machine.getChips());
  return unsigned(address / uint64_t(machine.interleaveBytes) % all);
}

Network::Point Network::getChipOf(Point router) const {
  return {router[0] / routers[0], router[1] / routers[1]};
}

/// The links to other chips are attached to the router in the middle.
Network::Point Network::getGateway(Point chip) const {
  return {chip[0] * routers[0] + routers[0] / 2,
          chip[1] * routers[1] + routers[1] / 2};
}

uint32_t Network::getLink(Link::Kind kind, Point from, Point to) {
  auto [found, isNew] = numbers.try_emplace(
      {kind, from[0], from[1], to[0], to[1]}, uint32_t(links.size()));
  if (isNew) {
    double rate = kind == Link::Chip
                      ? machine.chipBytesPerSecond
                      : machine.linkBytesPerCycle * machine.clockHz;
    links.push_back({kind, from, to, rate, getHopLatency(kind)});
  }
  return found->second;
}

Time Network::getHopLatency(Link::Kind kind) const {
  if (kind == Link::Chip)
    return fromSeconds(machine.chipLatencySeconds);
  return kind == Link::Mesh ? fromSeconds(machine.hopCycles / machine.clockHz)
                            : 0;
}

static int64_t sign(int64_t value) { return (value > 0) - (value < 0); }

template <typename Visit>
void Network::walk(Point from, Point to, Visit visit) const {
  auto walkMesh = [&](Point from, Point to) {
    // X before Y.
    for (int axis : {0, 1})
      while (from[axis] != to[axis]) {
        Point next = from;
        next[axis] += sign(to[axis] - from[axis]);
        visit(Link::Mesh, from, next);
        from = next;
      }
  };
  Point chip = getChipOf(from), last = getChipOf(to);
  if (chip == last)
    return walkMesh(from, to);
  walkMesh(from, getGateway(chip));
  while (chip != last) {
    Point step = {sign(last[0] - chip[0]), sign(last[1] - chip[1])};
    if (!machine.hasHexagonalLinks || step[0] != step[1])
      step[step[0] != 0] = 0;
    Point next = {chip[0] + step[0], chip[1] + step[1]};
    visit(Link::Chip, chip, next);
    chip = next;
  }
  walkMesh(getGateway(last), to);
}

/// Appends a link to the only path of the route.
void Network::append(Route &route, uint32_t link) const {
  if (route.nodes.empty())
    route.roots.push_back(0);
  else
    route.nodes.back().next.push_back(uint32_t(route.nodes.size()));
  route.nodes.push_back({link, Route::none, {}});
}

const Route &Network::routeToCores(Point from, const std::vector<Point> &to) {
  std::vector<Point> key = {from};
  key.insert(key.end(), to.begin(), to.end());
  auto [found, isNew] = routes.try_emplace(key);
  Route &route = found->second;
  if (!isNew)
    return route;
  // All paths from one router to another are equal, so shared links are a
  // common begin of paths, and the paths are a tree.
  std::map<uint32_t, uint32_t> nodes;
  for (size_t i = 0; i < to.size(); ++i) {
    if (!machine.hasMulticast)
      nodes.clear();
    uint32_t parent = Route::none;
    auto enter = [&](Link::Kind kind, Point begin, Point end) {
      uint32_t link = getLink(kind, begin, end);
      auto [node, isNew] =
          nodes.try_emplace(link, uint32_t(route.nodes.size()));
      if (isNew) {
        (parent == Route::none ? route.roots : route.nodes[parent].next)
            .push_back(node->second);
        route.nodes.push_back({link, Route::none, {}});
      }
      parent = node->second;
    };
    Point first = machine.getRouter(from), last = machine.getRouter(to[i]);
    enter(Link::PortOut, from, first);
    walk(first, last, enter);
    enter(Link::PortIn, last, to[i]);
    route.nodes[parent].destination = uint32_t(i);
  }
  return route;
}

const Route &Network::routeFromChannel(unsigned channel, Point to) {
  auto [found, isNew] = channelRoutes.try_emplace({channel, to, true});
  Route &route = found->second;
  if (!isNew)
    return route;
  Point last = machine.getRouter(to);
  append(route, channel);
  walk(getChannelRouter(channel), last,
       [&](Link::Kind kind, Point begin, Point end) {
         append(route, getLink(kind, begin, end));
       });
  append(route, getLink(Link::PortIn, last, to));
  route.nodes.back().destination = 0;
  return route;
}

const Route &Network::routeToChannel(Point from, unsigned channel) {
  auto [found, isNew] = channelRoutes.try_emplace({channel, from, false});
  Route &route = found->second;
  if (!isNew)
    return route;
  Point first = machine.getRouter(from);
  append(route, getLink(Link::PortOut, from, first));
  walk(first, getChannelRouter(channel),
       [&](Link::Kind kind, Point begin, Point end) {
         append(route, getLink(kind, begin, end));
       });
  append(route, channel);
  route.nodes.back().destination = 0;
  return route;
}

Time Network::getRouterLatency(Point from, Point to) const {
  Time latency = 0;
  walk(from, to,
       [&](Link::Kind kind, Point, Point) { latency += getHopLatency(kind); });
  return latency;
}

void Network::reset() {
  for (Link &link : links)
    link.freeAt = link.busy = link.bytes = 0;
}

Time Network::getChannelBound() const {
  Time most = 0;
  for (unsigned i = 0; i < numChannels; ++i)
    most = std::max(most, links[i].busy);
  return most;
}

Time Network::getBisectionBound() const {
  // A cut: the axis, the chip, the place in the chip and the direction.
  std::map<std::array<int64_t, 5>, Time> busy;
  for (const Link &link : links) {
    if (link.kind != Link::Mesh)
      continue;
    int axis = link.from[0] == link.to[0];
    Point chip = getChipOf(link.from);
    busy[{axis, chip[0], chip[1], std::min(link.from[axis], link.to[axis]),
          link.from[axis] < link.to[axis]}] += link.busy;
  }
  Time most = 0;
  for (const auto &[cut, sum] : busy)
    most = std::max(most, sum / uint64_t(routers[1 - cut[0]]));
  return most;
}
