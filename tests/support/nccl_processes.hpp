// SPDX-License-Identifier: Apache-2.0
#pragma once

// Communicators over an emulated NCCL, in threads that act as processes. Each has its own devices
// and memory.

#include <blink/transports/nccl/nccl_options.hpp>
#include <blink/transports/nccl/nccl_ranks.hpp>

#include "device_case.hpp"
#include "emulated_devices.hpp"
#include "emulated_nccl.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace blink_test {

using emulated_nccl_ranks = blink::basic_nccl_ranks<emulated_devices, emulated_nccl>;

/// Options for tests whose buffers are vectors.
inline blink::nccl_options nccl_options_in_vectors() {
  blink::nccl_options options;
  options.checks_places = false;
  options.slot_bytes = 512;
  return options;
}

/// One process: its devices, its NCCL communicators, and its blink communicator.
struct nccl_process {
  nccl_process(emulated_fabric& fabric, int its_number, int first, int count,
               emulated_nccl::options what = {})
      : number(its_number),
        first_rank(first),
        ranks(count),
        machine({.devices = count}),
        calls(fabric, machine, first, what) {
    for (int rank = first; rank < first + count; ++rank) communicators.push_back(rank);
  }
  emulated_nccl_ranks& make_ranks(blink::nccl_options const& options) {
    return *(all_ranks =
                 std::make_unique<emulated_nccl_ranks>(machine, calls, communicators, options));
  }
  template <class T>
  [[nodiscard]] device_case<T> case_of(collective_case const& what,
                                       blink::schedule const& trees) const {
    return {what, trees, first_rank, ranks};
  }

  int number;
  int first_rank;
  int ranks;
  emulated_devices machine;
  emulated_nccl calls;
  std::vector<int> communicators;
  std::unique_ptr<emulated_nccl_ranks> all_ranks;  // destroyed first
};

/// The text that `body(mine)` returned or threw, by process.
///
/// ranks: number of ranks in each process
template <class Body>
std::vector<std::string> run_nccl_processes(emulated_fabric& fabric, std::vector<int> const& ranks,
                                            Body const& body, emulated_nccl::options what = {}) {
  std::vector<std::string> texts(ranks.size());
  {
    std::vector<std::jthread> all;
    int first = 0;
    for (std::size_t number = 0; number < ranks.size(); ++number) {
      all.emplace_back([&, number, first] {
        nccl_process mine(fabric, static_cast<int>(number), first, ranks[number], what);
        try {
          texts[number] = body(mine);
        } catch (std::exception const& failure) {
          texts[number] = failure.what();
        }
      });
      first += ranks[number];
    }
  }
  return texts;
}

}  // namespace blink_test
