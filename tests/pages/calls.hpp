// SPDX-License-Identifier: Apache-2.0
// Calls of a rank that is a thread. See scripts/check_pages.
#include <blink/collectives.hpp>
#include <blink/collectives/prepared_tuning.hpp>
#include <blink/collectives/tune.hpp>
#include <blink/schedule/tuning_file.hpp>

#include <cstddef>
#include <vector>

inline void block(blink::thread_ranks::communicator_type& comm, std::vector<float>& data,
                  std::vector<float> const& in, std::vector<float>& out, std::size_t count,
                  blink::schedule const& trees, int root, blink::max reducer) {
  {
#include BLOCK
  }
}
