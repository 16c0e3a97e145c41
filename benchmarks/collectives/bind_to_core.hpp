// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <cstddef>

namespace blink_bench {

/// The cores that the calling thread may use.
[[nodiscard]] inline cpu_set_t allowed_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  return allowed;
}

/// Binds the calling thread to a core; ranks rotate over the allowed cores. Without it the system
/// may place several ranks on one core and leave another one idle.
///
/// allowed: queried before any thread is bound, if threads are bound more than once
inline void bind_to_core(int rank, cpu_set_t const& allowed = allowed_cores()) {
  if (CPU_COUNT(&allowed) == 0) return;
  int position = rank % CPU_COUNT(&allowed);
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || position-- > 0) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    ::sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

}  // namespace blink_bench
