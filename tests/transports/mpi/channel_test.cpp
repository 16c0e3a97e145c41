// SPDX-License-Identifier: Apache-2.0
// MPI as a message channel.

#include <blink/transports/mpi/channel.hpp>

#include "support/message_channel_conformance.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

// A folder may be compiled as one source.
namespace mpi_channel_test {

namespace {

class all_of_world {
 public:
  using channel = blink::mpi_channel;
  template <class Function>
  void run(Function const& function) {
    channel own(MPI_COMM_WORLD);
    function(own);
  }
};

}  // namespace

using namespace blink_test;

INSTANTIATE_TYPED_TEST_SUITE_P(mpi, message_channel_conformance, all_of_world);

}  // namespace mpi_channel_test
