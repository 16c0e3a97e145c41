// SPDX-License-Identifier: Apache-2.0
#pragma once

// Threads of one process as ranks that exchange messages through a `thread_network`.

#include <blink/running/call/communicator_options.hpp>
#include <blink/transports/messages/message_communicator.hpp>
#include <blink/transports/messages/message_transport.hpp>

#include "sanitizers.hpp"
#include "thread_channel.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace blink_test {

using thread_message_transport = blink::message_transport<thread_channel>;
using thread_communicator = blink::basic_message_communicator<thread_message_transport>;

/// The arguments of a communicator.
struct message_options {
  blink::communicator_options options{};
  std::size_t eager_limit = blink::default_eager_limit;
  std::size_t zero_copy_threshold = blink::usual_zero_copy_threshold;
  int ranks_of_host = 1;  ///< that share memory
};

/// Runs `function(rank)` on one thread for each rank, and waits for them. Exceptions are failures.
template <class Function>
void run_threads(int ranks, Function const& function) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&function, rank] {
      try {
        function(rank);
      } catch (std::exception const& problem) {
        ADD_FAILURE() << "rank " << rank << ": " << problem.what();
      }
    });
  }
}

/// Runs `function(comm)` on each rank of a communicator over `network`.
template <class Transport = thread_message_transport, class Function>
void run_over(thread_network& network, int ranks, message_options const& with,
              Function const& function) {
  run_threads(ranks, [&](int rank) {
    blink::basic_message_communicator<Transport> comm(thread_channel(network, rank), with.options,
                                                      with.eager_limit, with.zero_copy_threshold);
    function(comm);
  });
}

template <class Function>
void run_over_messages(int ranks, message_options const& with, Function const& function) {
  // Threads map shared memory at addresses of their own. So ThreadSanitizer cannot see that its
  // counters order what messages touch.
  thread_network network(ranks, has_thread_sanitizer ? 1 : with.ranks_of_host);
  run_over(network, ranks, with, function);
}

}  // namespace blink_test
