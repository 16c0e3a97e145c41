// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as what programs of blink leave for its command (libFuzzer). The first byte, or
// BLINK_FUZZ_ONLY=N, chooses: the output of a probe of GPUs, whose machine is then fitted, or
// records of calls.

#include <blink/core/error.hpp>
#include <blink/topology/write_json.hpp>

#include "tools/gpu_probe.hpp"
#include "tools/recorded_calls.hpp"
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

void fit(std::string const& text) {
  auto const probe = blink::tools::read_gpu_probe(text, "input");
  for (auto const* rates : {&probe.peer, &probe.host}) {
    auto const machine = blink::tools::fit_gpus(*rates, probe.bus_ids);
    blink::validate(machine);
    (void)blink::write_json(machine);
    (void)blink::tools::in_order_of(machine, *rates, probe.bus_ids);
  }
}

void sum_up(std::string const& text) {
  static std::string const name = "/dev/shm/blink_fuzz." + std::to_string(getpid());
  std::FILE* const file = std::fopen(name.c_str(), "w");
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
  auto const calls = blink::tools::read_records({name});
  (void)blink::tools::clock_of_hosts(calls);
  (void)blink::tools::verdict_of(calls, blink::tools::summary_of(calls));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  std::string const text(reinterpret_cast<char const*>(data) + 1, size - 1);
  static char const* const only = std::getenv("BLINK_FUZZ_ONLY");
  try {
    (only != nullptr ? std::strtol(only, nullptr, 10) : data[0] % 2) == 0 ? fit(text)
                                                                          : sum_up(text);
  } catch (blink::error const&) {  // the right answer to most bytes
  }
  return 0;
}
