// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <memory>
#include <utility>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The memory that the job may use, as its control group says.
[[nodiscard]] inline std::size_t job_memory() {
  for (auto const* name :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> const file(std::fopen(name, "r"), std::fclose);
    unsigned long long limit = 0;
    if (file && std::fscanf(file.get(), "%llu", &limit) == 1 && limit > 0) return limit;
  }
  return std::numeric_limits<std::size_t>::max();
}

/// The default limit of the memory that ranks share: half of the machine's memory, because only
/// used parts take memory. Less where the system limits the memory of the job, the size of files or
/// the addresses of a process.
[[nodiscard]] inline std::size_t shared_memory_limit() {
  auto bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) / 2 *
               static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (auto const& [limit, part] : {std::pair(RLIMIT_FSIZE, 1U), std::pair(RLIMIT_AS, 4U)}) {
    struct rlimit most{};
    if (getrlimit(limit, &most) != 0 || most.rlim_cur == RLIM_INFINITY) continue;
    bytes = std::min(bytes, static_cast<std::size_t>(most.rlim_cur / part));
  }
  return std::min(bytes, job_memory() / 2);
}

}}}  // namespace blink::BLINK_ABI::detail
