// SPDX-License-Identifier: Apache-2.0

#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>
#include <blink/transports/host/link_parts.hpp>
#include <blink/transports/host/shared_segment.hpp>
#include <blink/transports/host/slots.hpp>
#include <blink/transports/host/threads.hpp>
#include <blink/transports/host/world_state.hpp>

#include "support/transport_conformance.hpp"
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

// Rooms may be compiled as one source.
namespace conformance_test {

namespace {

constexpr int ranks = 3;

blink::schedule chain() {
  auto plan = blink::chain_schedule(ranks, 0);
  plan.link_bytes_per_second = {1e9};
  plan.trees[0].reduce_route = {{}, {0}, {0}};
  return plan;
}

template <class Link>
blink::wire_layout small_layout() {
  blink::wire_layout result;
  result.reaches = blink::reaching_transport<Link>;
  result.is_shaped = Link::is_shaped;
  result.window = 3;
  result.slot_bytes = 200;
  return result;
}

/// What threads of one process share.
template <class Link>
class one_memory {
 public:
  one_memory() : world_(ranks), plan_(chain(), small_layout<Link>(), {}) {}
  blink::world_state& world(int) { return world_; }
  blink::prepared_schedule& plan(int) { return plan_; }

 private:
  blink::world_state world_;
  blink::prepared_schedule plan_;
};

/// The same as processes have it: each rank maps the shared memory for itself, at its own address.
template <class Link>
class mapped_memory {
 public:
  mapped_memory() : segment_(blink::shared_segment::create(ranks, std::size_t{1} << 20)) {
    for (int rank = 0; rank < ranks; ++rank) {
      places_.push_back(std::make_unique<place>(segment_.path(), rank));
    }
  }
  blink::world_state& world(int rank) { return places_[static_cast<std::size_t>(rank)]->world; }
  blink::prepared_schedule& plan(int rank) { return places_[static_cast<std::size_t>(rank)]->plan; }

 private:
  struct place {
    place(std::string const& path, int rank)
        : segment(blink::shared_segment::open(path)),
          world(segment.state()),
          plan(chain(), mapped_layout(segment, rank), {}) {}
    blink::shared_segment segment;
    blink::world_state world;
    blink::prepared_schedule plan;
  };
  static blink::wire_layout mapped_layout(blink::shared_segment& segment, int rank) {
    auto layout = small_layout<Link>();
    layout.only_rank = rank;
    layout.ranks_share = segment.find_or_make(1, blink::wire_tables::shared_bytes(chain(), layout));
    return layout;
  }
  blink::shared_segment segment_;
  std::vector<std::unique_ptr<place>> places_;
};

// The reduce wire of rank 1 in tree 0: it is the one it sends on.
std::uint32_t wire_of_rank_1(blink::prepared_schedule const& plan) {
  auto const [ends, count] = plan.tables().ends(1);
  for (std::size_t k = 0; k < count; ++k) {
    if (ends[k].sends && ends[k].peer == 0) return ends[k].wire;
  }
  return UINT32_MAX;
}

/// Rank 1, which sends, and rank 0, which receives; `Pair` has `at(rank)`, its link.
template <class Pair>
class both_ends {
 public:
  int sender_rank() { return 1; }
  int receiver_rank() { return 0; }
  template <class Function>
  void at_sender(Function const& function) {
    function(own().at(1));
  }
  template <class Function>
  void at_receiver(Function const& function) {
    function(own().at(0));
  }
  template <class Sending, class Receiving>
  void together(Sending const& send, Receiving const& receive) {
    std::jthread const sending([&] { send(own().at(1)); });
    receive(own().at(0));
  }

 private:
  Pair& own() { return static_cast<Pair&>(*this); }
};

/// Ranks 1 and 0 of a chain 0 <- 1 <- 2 inside their first call. Rank 1 is an inner rank, so that
/// its wire to rank 0 has slots also where ranks reach each other.
template <class Link, class Memory = one_memory<Link>>
class pair_of_links : public both_ends<pair_of_links<Link, Memory>> {
 public:
  using link = Link;

  pair_of_links() {
    for (int rank = 0; rank < ranks; ++rank) {
      blink::call_record record;
      record.terms.plan = memory_.plan(rank).fingerprint();
      memory_.world(rank).enter(rank, record);
    }
  }
  std::uint32_t wire() { return wire_of_rank_1(memory_.plan(1)); }
  std::uint64_t window() { return memory_.plan(0).tables().layout().window; }
  void abort() { memory_.world(0).fail(0, blink::collective_error("enough", 0, -1, -1, -1)); }

 private:
  friend both_ends<pair_of_links>;
  link at(int rank) {
    return link(blink::link_parts{&memory_.world(rank), &memory_.plan(rank),
                                  seen_[static_cast<std::size_t>(rank)].data(), 1, rank});
  }

  Memory memory_;
  std::array<std::array<std::uint64_t, ranks>, ranks> seen_{};
};

/// The same for links of kernels, which are always inside of a call.
template <class Link>
class pair_of_peer_links : public both_ends<pair_of_peer_links<Link>> {
 public:
  using link = Link;

  std::uint32_t wire() { return wire_of_rank_1(plan_); }
  std::uint64_t window() { return plan_.tables().layout().window; }
  void abort() { blink::publish(abort_, 1); }

 private:
  friend both_ends<pair_of_peer_links>;
  link at(int rank) {
    link result{};
    result.wires = plan_.tables().wires();
    result.abort = &abort_;
    result.bytes_of_slot = plan_.tables().layout().slot_bytes;
    result.own_rank = rank;
    result.ranks = ranks;
    return result;
  }

  blink::prepared_schedule plan_{chain(), small_layout<Link>(), {}};
  blink::counter abort_ = 0;
};

template <class Link>
using pair_of_mappings = pair_of_links<Link, mapped_memory<Link>>;

}  // namespace

using namespace blink_test;

using fixtures =
    testing::Types<pair_of_links<blink::slot_link>, pair_of_links<blink::threads_link>,
                   pair_of_links<blink::shaped_link>, pair_of_mappings<blink::slot_link>,
                   pair_of_mappings<blink::direct_link>, pair_of_mappings<blink::shaped_link>,
                   pair_of_peer_links<blink::slot_peer_link>,
                   pair_of_peer_links<blink::reaching_peer_link>,
                   pair_of_peer_links<blink::shaped_peer_link>>;
INSTANTIATE_TYPED_TEST_SUITE_P(all, transport_conformance, fixtures);

}  // namespace conformance_test
