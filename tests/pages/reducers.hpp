// SPDX-License-Identifier: Apache-2.0
// Calls with reducers. See scripts/check_pages.
#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/reducers.hpp>

#include <vector>

struct point {
  double x, y;
};

inline void block(blink::thread_ranks::communicator_type& comm,
                  std::vector<blink::bfloat16> const& in, std::vector<blink::bfloat16>& out,
                  std::vector<point>& points) {
#include BLOCK
}
