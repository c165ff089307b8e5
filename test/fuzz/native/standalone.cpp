//===- standalone.cpp - A fuzzer's main where libFuzzer is not installed --===//
//
// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// standalone SECONDS FILE...: runs the fuzzer on each file as it is, and then
// on mutations of the files. If the process dies, the file `crash` contains the
// input.
//
//===----------------------------------------------------------------------===//

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const std::string &input) {
  std::ofstream("crash", std::ios::binary) << input;
  // Copies the input to a buffer of its exact size, so that sanitizers detect
  // reads after its end.
  std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

static void change(std::string &input, const std::string &other,
                   std::mt19937_64 &random) {
  size_t at = random() % (input.size() + 1), count = 1 << random() % 5;
  static const uint64_t numbers[] = {
      0,          1,          7,          0x7f,       0xff,       0xffff,
      0x7fffffff, 0x80000000, 0xffffffff, 1ull << 62, 1ull << 63, ~0ull};
  switch (random() % 6) {
  case 0:
    if (at < input.size())
      input[at] ^= char(1 << random() % 8);
    break;
  case 1:
    input.erase(at, count);
    break;
  case 2:
    input.insert(at, input.substr(at, count));
    break;
  case 3: {
    uint64_t number = numbers[random() % std::size(numbers)];
    size_t width = size_t(1) << random() % 4;
    for (size_t i = 0; i < width && at + i < input.size(); ++i)
      input[at + i] = char(number >> (8 * i));
    break;
  }
  case 4:
    input.resize(at);
    break;
  default:
    input.replace(at, std::string::npos,
                  other.substr(random() % (other.size() + 1)));
  }
}

int main(int count, char **arguments) {
  std::vector<std::string> corpus;
  for (int i = 2; i < count; ++i) {
    std::ifstream file(arguments[i], std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file),
                        std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) {
    std::cerr << "usage: " << arguments[0] << " SECONDS FILE...\n";
    return 2;
  }
  for (const std::string &input : corpus)
    run(input);
  using Clock = std::chrono::steady_clock;
  auto end = Clock::now() + std::chrono::seconds(std::atoi(arguments[1]));
  std::mt19937_64 random(1);
  uint64_t runs = 0;
  for (; Clock::now() < end; ++runs) {
    std::string input = corpus[random() % corpus.size()];
    for (unsigned i = 0, e = 1 + random() % 4; i < e; ++i)
      change(input, corpus[random() % corpus.size()], random);
    run(input);
  }
  std::cout << corpus.size() << " files and " << runs << " mutations\n";
}
