// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan.hpp>

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The sum of the trees' weights on each link, by (from, to) node ids.
///
/// Throws: overflow_error if a sum has no 64-bit numbers.
[[nodiscard]] inline std::map<std::pair<int, int>, rational> link_loads(
    std::vector<tree> const& trees) {
  std::map<std::pair<int, int>, rational> result;
  for (auto const& t : trees) {
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      for (auto const& e : *phase) {
        for (std::size_t i = 0; i + 1 < e.path.size(); ++i) {
          result[{e.path[i], e.path[i + 1]}] += t.weight;
        }
      }
    }
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
