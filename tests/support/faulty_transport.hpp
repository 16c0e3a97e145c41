// SPDX-License-Identifier: Apache-2.0
#pragma once

// A transport that fails at the n-th operation on a connection.

#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/slots.hpp>

#include <cstddef>
#include <cstdint>

namespace blink_test {

/// The failure of this rank, and its time. It is thread_local, because ranks may be threads or
/// processes.
struct fault_plan {
  long long operations_left = -1;  ///< -1: no failure
  void (*happen)() = nullptr;
};
inline thread_local fault_plan injected_fault;

inline void count_operation() {
  if (injected_fault.operations_left < 0 || injected_fault.operations_left-- > 0) return;
  injected_fault.happen();
}

/// Counts operations that change the state of a connection, before and after each.
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
