// SPDX-License-Identifier: Apache-2.0
// Must not compile: strings own memory and are no elements.
#include <blink/collectives.hpp>

#include <string>
#include <vector>

void wrong(blink::thread_ranks::communicator_type& comm) {
  std::vector<std::string> texts(4);
  blink::all_reduce(comm, texts);
}
