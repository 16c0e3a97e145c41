// SPDX-License-Identifier: Apache-2.0
// A function over any communicator. See scripts/check_pages.
#include <blink/collectives.hpp>

#include <vector>

#include BLOCK

inline void use(blink::thread_ranks::communicator_type& comm, std::vector<float>& data) {
  average(comm, data);
}
