// SPDX-License-Identifier: Apache-2.0
#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/host/process_environment.hpp>

#include "engine.hpp"
#include "store_bootstrap.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink_torch {

std::unique_ptr<engine> make_engine(store_bootstrap& all, std::chrono::milliseconds deadline) {
  struct place {
    std::uint64_t host;
    std::uint64_t shares_memory;  // as the user wants
  };
  place const own{blink::host_id(),
                  blink::detail::environment_flag("BLINK_SHARED_MEMORY", true) ? 1U : 0U};
  std::vector<place> everywhere(static_cast<std::size_t>(all.process_count()));
  all.all_gather(&own, everywhere.data(), sizeof own);
  bool const share = std::all_of(everywhere.begin(), everywhere.end(), [&](place const& other) {
    return other.host == own.host && other.shares_memory != 0;
  });
  return share ? make_process_engine(all, deadline) : make_ucx_engine(all, deadline);
}

}  // namespace blink_torch
