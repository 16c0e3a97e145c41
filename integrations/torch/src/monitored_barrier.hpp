// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>

namespace blink_torch {

/// A barrier that names the ranks that do not come, and leaves the group as it is. Rank 0 looks for
/// each rank in the store, and writes the result there.
///
/// number:        of the group's barriers of this kind
/// waits_for_all: true to name all missing ranks, false for the first one
/// Throws:        DistBackendError on all ranks that came
void monitored_barrier(c10d::Store& store, int rank, int size, std::uint64_t number,
                       std::chrono::milliseconds deadline, bool waits_for_all);

}  // namespace blink_torch
