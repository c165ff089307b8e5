//===- Report.cpp - Measurements of a simulated step ----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Simulator/Report.h"

#include "llvm/Support/JSON.h"

#include <algorithm>

using namespace repro_simulator;

static constexpr const char *linkKinds[] = {"port out", "port in", "mesh",
                                            "chip", "channel"};
static constexpr const char *intervalKinds[] = {"run", "synchronize", "wait",
                                                "transfer"};

std::string repro_simulator::writeReport(const Report &report,
                                         const CorePlan &plan,
                                         double callSeconds) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream);
  auto seconds = [&](llvm::StringRef key, Time time) {
    json.attribute(key, toSeconds(time));
  };
  auto point = [&](llvm::StringRef key, int64_t x, int64_t y) {
    json.attributeArray(key, [&] {
      json.value(x);
      json.value(y);
    });
  };
  json.object([&] {
    json.attribute("seconds", callSeconds + toSeconds(report.time));
    json.attribute("call_seconds", callSeconds);
    json.attributeObject("bounds", [&] {
      seconds("compute", report.computeBound);
      seconds("dram", report.channelBound);
      seconds("bisection", report.bisectionBound);
    });
    json.attribute("bound_seconds",
                   callSeconds + toSeconds(std::max({report.computeBound,
                                                     report.channelBound,
                                                     report.bisectionBound})));
    json.attributeArray("cores", [&] {
      for (size_t i = 0; i < report.cores.size(); ++i)
        json.object([&] {
          const Report::CoreTimes &core = report.cores[i];
          point("at", plan.programs[i].core.x, plan.programs[i].core.y);
          seconds("run", core.running);
          seconds("synchronize", core.synchronizing);
          seconds("wait", core.waiting);
          seconds("transfer", core.transferring);
          seconds("end", core.end);
        });
    });
    json.attributeArray("kernels", [&] {
      for (size_t i = 0; i < report.kernels.size(); ++i)
        json.object([&] {
          json.attribute("name", plan.kernels[i].name);
          json.attribute("runs", report.kernels[i].runs);
          seconds("seconds", report.kernels[i].time);
        });
    });
    json.attributeArray("links", [&] {
      for (const Link &link : report.links)
        json.object([&] {
          json.attribute("kind", linkKinds[link.kind]);
          point("from", link.from[0], link.from[1]);
          if (link.kind == Link::Channel)
            json.attribute("channel", link.to[0]);
          else
            point("to", link.to[0], link.to[1]);
          json.attribute("bytes", link.bytes);
          seconds("busy", link.busy);
        });
    });
    if (report.hasTimeline)
      json.attributeArray("timeline", [&] {
        for (const Interval &interval : report.timeline)
          json.object([&] {
            json.attribute("kind", intervalKinds[interval.kind]);
            json.attribute("core", interval.program);
            json.attribute("op", interval.op);
            seconds("begin", interval.begin);
            seconds("end", interval.end);
          });
      });
  });
  return text;
}
