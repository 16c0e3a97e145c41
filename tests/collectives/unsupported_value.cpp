// SPDX-License-Identifier: Apache-2.0
// Not compiled: text that owns memory is no element.
#include <blink/collectives.hpp>

#include <string>
#include <vector>

void wrong(blink::thread_ranks::communicator_type& comm) {
  std::vector<std::string> texts(4);
  blink::all_reduce(comm, texts);
}
