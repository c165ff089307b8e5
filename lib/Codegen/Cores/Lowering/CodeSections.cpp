//===- CodeSections.cpp - The code that kernels need ----------------------===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeSections.h"

#include "Codegen/CPU/Lowering/EmitObject.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir::repro;
using namespace mlir::repro::cores;
using llvm::object::SymbolRef;

llvm::Error CodeSections::add(llvm::StringRef object) {
  auto file = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(object, "object"));
  if (!file)
    return file.takeError();
  auto *elf = llvm::dyn_cast<llvm::object::ELFObjectFileBase>(file->get());
  if (!elf)
    return llvm::createStringError("expected an ELF object");
  llvm::DenseMap<uint64_t, unsigned> numbers;
  for (const llvm::object::SectionRef &section : elf->sections()) {
    numbers[section.getIndex()] = this->sections.size();
    this->sections.push_back(
        {section.getSize(), section.getAlignment().value(), {}, {}});
  }
  // Calls `use` with the flags, the name and the section of a symbol.
  auto visit = [&](const SymbolRef &symbol, auto use) -> llvm::Error {
    auto flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    auto name = symbol.getName();
    if (!name)
      return name.takeError();
    auto section = symbol.getSection();
    if (!section)
      return section.takeError();
    auto found = *section == elf->section_end()
                     ? numbers.end()
                     : numbers.find((*section)->getIndex());
    use(*flags, *name, found == numbers.end() ? nullptr : &found->second);
    return llvm::Error::success();
  };
  for (const SymbolRef &symbol : elf->symbols())
    if (llvm::Error error =
            visit(symbol, [&](uint32_t flags, llvm::StringRef name,
                              const unsigned *section) {
              if (section && (flags & SymbolRef::SF_Global))
                definitions.try_emplace(name, *section);
            }))
      return error;
  for (const llvm::object::SectionRef &section : elf->sections()) {
    auto relocated = section.getRelocatedSection();
    if (!relocated)
      return relocated.takeError();
    if (*relocated == elf->section_end())
      continue;
    Section &user = this->sections[numbers.lookup((*relocated)->getIndex())];
    for (const llvm::object::RelocationRef &place : section.relocations()) {
      if (place.getSymbol() == elf->symbol_end())
        continue;
      if (llvm::Error error = visit(
              *place.getSymbol(), [&](uint32_t flags, llvm::StringRef name,
                                      const unsigned *target) {
                if (flags & (SymbolRef::SF_Global | SymbolRef::SF_Undefined))
                  user.symbols.push_back(name.str());
                else if (target)
                  user.sections.push_back(*target);
              }))
        return error;
    }
  }
  return llvm::Error::success();
}

uint64_t CodeSections::getBytes(llvm::ArrayRef<llvm::StringRef> kernels) const {
  llvm::BitVector isNeeded(sections.size());
  llvm::SmallVector<unsigned> open;
  auto need = [&](unsigned section) {
    if (isNeeded.test(section))
      return;
    isNeeded.set(section);
    open.push_back(section);
  };
  // The runtime defines the other symbols.
  auto needSymbol = [&](llvm::StringRef symbol) {
    if (auto found = definitions.find(symbol); found != definitions.end())
      need(found->second);
  };
  for (llvm::StringRef kernel : kernels)
    needSymbol(getEntryName(kernel));
  uint64_t alignment = 1;
  while (!open.empty()) {
    const Section &section = sections[open.pop_back_val()];
    alignment = std::max(alignment, section.alignment);
    llvm::for_each(section.sections, need);
    llvm::for_each(section.symbols, needSymbol);
  }
  // A linker may place the sections in any order.
  uint64_t bytes = 0;
  for (unsigned section : isNeeded.set_bits())
    bytes += llvm::alignTo(sections[section].bytes, alignment);
  return bytes;
}
