// SPDX-License-Identifier: Apache-2.0
// Calls of a rank that is a process. See scripts/check_pages.
#include <blink/collectives.hpp>
#include <blink/collectives/point_to_point.hpp>
#include <blink/transports/host/process_messengers.hpp>
#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/registered_memory.hpp>
#include <blink/transports/host/shared_memory_resource.hpp>

#include <cstddef>
#include <memory_resource>
#include <vector>

inline void block(blink::direct_process_communicator& comm, std::vector<float>& data,
                  std::size_t count) {
  {
#include BLOCK
  }
}
