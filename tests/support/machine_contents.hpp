// SPDX-License-Identifier: Apache-2.0
#pragma once

// Contents of machines as texts, for tests of readers, and changes of their input.

#include <blink/core/collective.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/topology.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace blink_test {

/// In the order of the nodes.
inline std::vector<std::string> labels_of(blink::topology const& machine) {
  std::vector<std::string> result;
  for (auto const& n : machine.nodes) result.push_back(n.label);
  return result;
}

/// Links that go both ways, as "0-1 xgmi 50" with positions of nodes and GB/s; sorted.
inline std::vector<std::string> pairs_of_links(blink::topology const& machine) {
  std::vector<std::string> result;
  for (auto const& l : machine.links) {
    if (l.tail > l.head) continue;
    result.push_back(std::to_string(l.tail) + "-" + std::to_string(l.head) + " " +
                     std::string(to_text(l.kind)) + " " + machine.in_units(l.capacity).to_text());
  }
  std::sort(result.begin(), result.end());
  EXPECT_EQ(2 * result.size(), machine.links.size());
  return result;
}

/// A line each.
inline std::string remarks_of(blink::topology const& machine) {
  std::string result;
  for (auto const& remark : machine.remarks) result += remark + "\n";
  return result;
}

/// The rate of the plan of planner `exact`.
inline blink::rational best_rate(blink::topology const& machine, blink::collective kind) {
  return blink::make_plan(machine, {kind, {}, blink::planned_by::exact}).rate;
}

/// The text with its first `from` replaced, which must be there.
inline std::string replaced(std::string text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// The contents of a file.
inline std::string text_of(std::string const& path) {
  return blink::detail::file_text(path, "a file of the test");
}

}  // namespace blink_test
