// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine.hpp"
#include <ATen/ATen.h>

namespace blink_torch {

/// Adds up a sparse tensor (COO) of each rank, each with elements at any places. All ranks get the
/// sum, with its places in order.
///
/// Throws: blink::precondition_error if ranks have tensors of other shapes.
void sum_sparse(engine& by, at::Tensor data, int ranks);

}  // namespace blink_torch
