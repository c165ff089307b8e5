//===- DramLayout.cpp - The tensors of a plan in the DRAM -----------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DramLayout.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::repro;
using namespace mlir::repro::cores;

std::vector<DramTensor> cores::listTensors(launch::PlanOp plan,
                                           const ManyCore &machine) {
  std::vector<DramTensor> tensors;
  int64_t address = 0;
  auto add = [&](Value buffer, StringRef kind) {
    std::string name;
    if (auto argument = dyn_cast<BlockArgument>(buffer))
      if (argument.getArgNumber() < plan.getNames().size())
        name = cast<StringAttr>(plan.getNames()[argument.getArgNumber()]).str();
    int64_t bytes = launch::getBufferBytes(cast<MemRefType>(buffer.getType()));
    tensors.push_back({buffer, name, kind, address, bytes});
    address = llvm::alignTo(address + bytes, machine.getDramAlignment());
  };
  for (BlockArgument state : plan.getStates())
    add(state, "state");
  for (BlockArgument input : plan.getInputs())
    add(input, "input");
  for (BlockArgument output : plan.getOutputs())
    add(output, "output");
  add(plan.getArena(), "temporary");
  for (auto constant : plan.getBody().getOps<launch::ConstantOp>())
    add(constant, "constant");
  return tensors;
}

int64_t cores::getFreeDram(launch::PlanOp plan, const ManyCore &machine) {
  std::vector<DramTensor> tensors = listTensors(plan, machine);
  int64_t needed = tensors.back().address + tensors.back().bytes;
  int64_t available = machine.dramBytes * machine.getChips();
  return needed < available
             ? llvm::alignDown(available - needed, machine.getDramAlignment())
             : 0;
}

LogicalResult cores::verifyDram(launch::PlanOp plan, const ManyCore &machine) {
  std::vector<DramTensor> tensors = listTensors(plan, machine);
  int64_t needed = tensors.back().address + tensors.back().bytes;
  int64_t available = machine.dramBytes * machine.getChips();
  if (needed <= available)
    return success();
  const DramTensor &largest =
      *llvm::max_element(tensors, [](const DramTensor &a, const DramTensor &b) {
        return a.bytes < b.bytes;
      });
  int64_t chips = llvm::divideCeil(needed, machine.dramBytes);
  InFlightDiagnostic diagnostic =
      plan.emitError("expected a program whose tensors fit into the ")
      << available << " bytes of DRAM of '" << machine.name << "': they take "
      << needed << " bytes, of which ";
  if (largest.name.empty())
    diagnostic << "all "
               << (largest.kind == "constant" ? "of a constant"
                                              : "temporaries");
  else
    diagnostic << "'" << largest.name << "'";
  return diagnostic << " take " << largest.bytes
                    << "; use a machine of at least " << chips << " chips ("
                    << chips * (machine.getCores() / machine.getChips())
                    << " cores)";
}
