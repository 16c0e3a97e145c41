// SPDX-License-Identifier: Apache-2.0
#pragma once

// What PyTorch 1.13 and 2 name differently.

#include <c10/util/intrusive_ptr.h>
#include <torch/version.h>

#if TORCH_VERSION_MAJOR >= 2
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <optional>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

/// PyTorch from 2.15 on, whose groups have hooks for calls that complete or fail.
#if defined(C10D_BACKEND_HAS_HOOKS) && (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15)
#define BLINK_TORCH_HAS_HOOKS
#endif

namespace blink_torch {

#if TORCH_VERSION_MAJOR >= 2
using group_base = c10d::Backend;
template <class T>
using optional = std::optional<T>;
#else
using group_base = c10d::ProcessGroup;
template <class T>
using optional = c10::optional<T>;
#endif

using work = c10::intrusive_ptr<c10d::Work>;

}  // namespace blink_torch
