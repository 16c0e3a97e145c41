// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/reducers/element_type.hpp>

namespace blink_torch {

/// A reduction of tensors.
struct reduction {
  blink::element_type type{};
  blink::operation what{};
};

}  // namespace blink_torch
