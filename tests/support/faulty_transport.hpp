// SPDX-License-Identifier: Apache-2.0
#pragma once

// A transport of which something happens to the rank at the n-th operation on a connection.

#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/slots.hpp>

#include <cstddef>
#include <cstdint>

namespace blink_test {

/// What happens to this rank, and when: thread_local, so that ranks may be threads or processes.
struct fault_plan {
  long long operations_left = -1;  ///< -1: nothing happens
  void (*happen)() = nullptr;
};
inline thread_local fault_plan fault;

inline void count_operation() {
  if (fault.operations_left < 0 || fault.operations_left-- > 0) return;
  fault.happen();
}

/// Counts what changes the state of a connection, before and after.
template <class Transport>
class faulty : public Transport {
 public:
  using Transport::Transport;

  void post(std::uint32_t connection, std::uint64_t message, std::size_t bytes) const {
    count_operation();
    Transport::post(connection, message, bytes);
    count_operation();
  }
  void consume(std::uint32_t connection, std::uint64_t message) const {
    count_operation();
    Transport::consume(connection, message);
    count_operation();
  }
};
static_assert(blink::transport<faulty<blink::slot_transport>>);
static_assert(blink::reaching_transport<faulty<blink::direct_transport>>);

}  // namespace blink_test
