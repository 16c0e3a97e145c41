// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/device_tree.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The links of a machine that is written as a topology file of NCCL, and what no such file can
/// state. The base of what writes the elements.
class nccl_written_links {
 protected:
  explicit nccl_written_links(topology const& machine) : machine_(machine), tree_(machine) {}

  static std::size_t index(int at) { return static_cast<std::size_t>(at); }
  [[nodiscard]] node const& node_at(int at) const { return machine_.nodes[index(at)]; }
  [[nodiscard]] bool is_rank(int at) const { return node_at(at).kind == node_kind::rank; }
  [[nodiscard]] bool has_kind(link_kind kind) const {
    for (auto const& l : machine_.links) {
      if (l.kind == kind) return true;
    }
    return false;
  }
  [[nodiscard]] rational rate(std::int64_t capacity) const { return machine_.in_units(capacity); }

  [[noreturn]] void refuse(int at, std::string const& why) const {
    throw input_error("machine " + in_quotes(machine_.name) + ": node " +
                      std::to_string(node_at(at).id) + " " + why +
                      ", expected what a topology file of NCCL can state");
  }
  [[noreturn]] void refuse_link(int a, int b, link_kind kind, std::string const& why) const {
    auto const [low, high] = std::minmax(a, b);
    auto const [forth, back] = tree_.between(low, high, kind);
    throw input_error("machine " + in_quotes(machine_.name) + ": link " +
                      std::to_string(node_at(low).id) + "-" + std::to_string(node_at(high).id) +
                      " (" + std::string(to_text(kind)) + ", " + rate(forth).to_text() +
                      " and back " + rate(back).to_text() + " GB/s): " + why +
                      ", expected what a topology file of NCCL can state");
  }

  /// Refuses what has no place in such a file.
  void expect_stateable() const {
    if (machine_.unit != "GB/s") {
      throw input_error("machine " + in_quotes(machine_.name) + ": its unit is " +
                        in_quotes(machine_.unit) + ", expected GB/s");
    }
    for (std::size_t n = 0; n < machine_.nodes.size(); ++n) {
      if (machine_.nodes[n].copies || machine_.nodes[n].reduces) {
        refuse(static_cast<int>(n), "copies or reduces");
      }
    }
    bool const has_both = has_kind(link_kind::xgmi) && has_kind(link_kind::nvlink);
    for (auto const& l : machine_.links) {
      if (has_both && l.kind == link_kind::nvlink) {
        refuse_link(l.tail, l.head, l.kind, "an NVLink beside XGMI");
      }
      if (l.latency_seconds != 0 && l.kind != link_kind::network) {
        refuse_link(l.tail, l.head, l.kind, "its latency has no attribute");
      }
    }
  }

  /// Marks a link as written. Returns its rate, which is that of both directions.
  rational take(int a, int b, link_kind kind) {
    auto const [forth, back] = tree_.between(a, b, kind);
    if (forth != back) refuse_link(a, b, kind, "its directions differ");
    mark_written(a, b, kind);
    return rate(forth);
  }

  void mark_written(int a, int b, link_kind kind) {
    written_.insert(device_tree::ends_of(a, b, kind));
  }
  [[nodiscard]] bool is_written(int a, int b, link_kind kind) const {
    return written_.contains(device_tree::ends_of(a, b, kind));
  }
  /// Fails for a link that no element stands for.
  void expect_all_written() const {
    for (auto const& [which, both] : tree_.links()) {
      auto const [a, b, kind] = which;
      if (!is_written(a, b, kind)) refuse_link(a, b, kind, "no element stands for such a link");
    }
  }

  topology const& machine_;
  device_tree tree_;

 private:
  std::set<device_tree::ends> written_;
};

}}}  // namespace blink::BLINK_ABI::detail
