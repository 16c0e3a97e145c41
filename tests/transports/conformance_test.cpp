// SPDX-License-Identifier: Apache-2.0

#include <blink/collectives/default_schedules.hpp>
#include <blink/transports/link_parts.hpp>
#include <blink/transports/prepared_schedule.hpp>
#include <blink/transports/shaped.hpp>
#include <blink/transports/slots.hpp>
#include <blink/transports/threads.hpp>
#include <blink/transports/world_state.hpp>

#include "support/transport_conformance.hpp"
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <type_traits>

namespace {

/// Ranks 1 and 0 of a chain 0 <- 1 <- 2 inside their first call. Rank 1 is an inner rank, so that
/// its wire to rank 0 has slots also where ranks reach each other.
template <class Link>
class pair_of_links {
 public:
  using link = Link;

  pair_of_links() : world_(3), plan_(chain(), layout(), {}) {
    for (int rank = 0; rank < 3; ++rank) {
      blink::call_signature signature;
      signature.plan = plan_.fingerprint();
      world_.enter(rank, {signature, nullptr, nullptr});
    }
  }
  link sender() { return at(1); }
  link receiver() { return at(0); }
  // The reduce wire of rank 1 in tree 0: it is the one it sends on.
  std::uint32_t wire() {
    auto const [ends, count] = plan_.tables().ends(1);
    for (std::size_t k = 0; k < count; ++k) {
      if (ends[k].sends && ends[k].peer == 0) return ends[k].wire;
    }
    return UINT32_MAX;
  }
  std::uint64_t window() { return plan_.tables().layout().window; }
  void abort() { world_.fail(0, blink::collective_error("enough", 0, -1, -1, -1)); }

 private:
  static blink::schedule chain() {
    auto plan = blink::chain_schedule(3, 0);
    plan.link_bytes_per_second = {1e9};
    plan.trees[0].reduce_route = {{}, {0}, {0}};
    return plan;
  }
  static blink::wire_layout layout() {
    blink::wire_layout result;
    result.reaches = Link::reaches;
    result.is_shaped = Link::is_shaped;
    result.window = 3;
    result.slot_bytes = 200;
    return result;
  }
  link at(int rank) {
    return link(
        blink::link_parts{&world_, &plan_, seen_[static_cast<std::size_t>(rank)].data(), 1, rank});
  }

  blink::world_state world_;
  blink::prepared_schedule plan_;
  std::array<std::array<bool, 3>, 3> seen_{};
};

}  // namespace

namespace blink_test {

using fixtures = testing::Types<pair_of_links<blink::slot_link>, pair_of_links<blink::threads_link>,
                                pair_of_links<blink::shaped_link>>;
INSTANTIATE_TYPED_TEST_SUITE_P(all, transport_conformance, fixtures);

}  // namespace blink_test
