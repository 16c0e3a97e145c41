// SPDX-License-Identifier: Apache-2.0
#pragma once

// Processes that agree through memory of the host, each with its `host_processes`.

#include <blink/running/call/call_description.hpp>
#include <blink/transports/host/host_processes.hpp>
#include <blink/transports/host/segment_bootstrap.hpp>

#include "support/forked_ranks.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace blink_test {

/// Runs `body(all, process)` in `processes` processes. Returns the text that it returned or threw,
/// by process.
template <class Body>
std::vector<std::string> with_host_processes(int processes, std::chrono::milliseconds deadline,
                                             Body const& body) {
  forked_ranks forked(processes);
  forked.start([&](int process) {
    blink::segment_bootstrap bootstrap(forked.path(), process, std::chrono::seconds(20));
    blink::host_processes all(bootstrap, deadline);
    return std::string(body(all, process));
  });
  std::vector<std::string> texts;
  for (auto const& end : forked.finish()) texts.push_back(end.text);
  return texts;
}

inline blink::call_description call_of(std::uint64_t count) {
  constexpr auto kind = static_cast<std::uint64_t>(blink::collective::all_reduce);
  return {{.kind = kind, .schedule_hash = 1, .count = count, .element_bytes = 4, .types = 7},
          "float"};
}

}  // namespace blink_test
