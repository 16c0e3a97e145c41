// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine.hpp"
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// A group whose ranks change. Ranks of one host meet without a store, because the process that
// serves it may be the one that was lost.

namespace blink_torch {

/// The name of this process among those of its host, different for each call.
[[nodiscard]] std::string new_handle();

/// Makes the engine of the processes with these handles, whose ranks are their places in the list.
/// All of them call it.
///
/// own:      this process's handle
/// number:   another one for each time that the same processes meet
/// store:    for processes of several hosts
/// deadline: of the meeting and of calls
/// Throws:   blink::error if `own` is not in the list, a process does not come in time, or the
///           store fails.
[[nodiscard]] std::unique_ptr<engine> meet(std::vector<std::string> const& handles,
                                           std::string const& own, std::int64_t number,
                                           c10::intrusive_ptr<c10d::Store> const& store,
                                           std::chrono::milliseconds deadline);

}  // namespace blink_torch
