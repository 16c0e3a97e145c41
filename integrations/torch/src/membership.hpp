// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// A group whose ranks change. Ranks meet without a store, because the process that serves it may be
// the one that was lost.

namespace blink_torch {

/// The name of this process among those of its host, different for each call.
[[nodiscard]] std::string new_handle();

/// Makes the engine of the processes with these handles, whose ranks are their places in the list.
/// All of them call it.
///
/// own:    this process's handle
/// number: another one for each time that the same processes meet
/// deadline: of the meeting and of calls
/// Throws: blink::error if `own` is not in the list or a process does not come in time.
[[nodiscard]] std::unique_ptr<engine> meet(std::vector<std::string> const& handles,
                                           std::string const& own, std::int64_t number,
                                           std::chrono::milliseconds deadline);

}  // namespace blink_torch
