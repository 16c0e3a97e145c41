// SPDX-License-Identifier: Apache-2.0
// Must not compile: input and output have different element types.
#include <blink/collectives.hpp>

#include <vector>

void wrong(blink::thread_ranks::communicator_type& comm) {
  std::vector<float> const input(4);
  std::vector<double> output(4);
  blink::all_reduce(comm, input, output);
}
