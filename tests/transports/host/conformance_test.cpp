// SPDX-License-Identifier: Apache-2.0

#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>
#include <blink/transports/host/shared_segment.hpp>
#include <blink/transports/host/shared_state.hpp>
#include <blink/transports/host/slots.hpp>
#include <blink/transports/host/threads.hpp>
#include <blink/transports/host/transport_parts.hpp>

#include "support/transport_conformance.hpp"
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace conformance_test {

namespace {

constexpr int ranks = 3;

blink::schedule chain() {
  auto source = blink::chain_schedule(ranks, 0);
  source.link_bytes_per_second = {1e9};
  source.trees[0].reduce_route = {{}, {0}, {0}};
  return source;
}

template <class Transport>
blink::connection_layout small_layout() {
  blink::connection_layout result;
  result.reaches = blink::reaching_transport<Transport>;
  result.is_shaped = Transport::is_shaped;
  result.window = 3;
  result.slot_bytes = 200;
  return result;
}

/// The shared memory of threads of one process.
template <class Transport>
class one_memory {
 public:
  one_memory() : state_(ranks), plan_(chain(), small_layout<Transport>(), {}) {}
  blink::shared_state& shared(int) { return state_; }
  blink::prepared_schedule& prepared(int) { return plan_; }

 private:
  blink::shared_state state_;
  blink::prepared_schedule plan_;
};

/// Shared memory as processes have it: each rank maps it separately, at its own address.
template <class Transport>
class mapped_memory {
 public:
  mapped_memory() : segment_(blink::shared_segment::create(ranks, std::size_t{1} << 20)) {
    for (int rank = 0; rank < ranks; ++rank) {
      places_.push_back(std::make_unique<place>(segment_.path(), rank));
    }
  }
  blink::shared_state& shared(int rank) { return places_[static_cast<std::size_t>(rank)]->shared; }
  blink::prepared_schedule& prepared(int rank) {
    return places_[static_cast<std::size_t>(rank)]->prepared;
  }

 private:
  struct place {
    place(std::string const& path, int rank)
        : segment(blink::shared_segment::open(path)),
          shared(segment.state()),
          prepared(chain(), mapped_layout(segment, rank), {}) {}
    blink::shared_segment segment;
    blink::shared_state shared;
    blink::prepared_schedule prepared;
  };
  static blink::connection_layout mapped_layout(blink::shared_segment& segment, int rank) {
    auto layout = small_layout<Transport>();
    layout.only_rank = rank;
    layout.ranks_share =
        segment.find_or_make(1, blink::connection_tables::shared_bytes(chain(), layout));
    return layout;
  }
  blink::shared_segment segment_;
  std::vector<std::unique_ptr<place>> places_;
};

// The reduce connection of rank 1 in tree 0, on which rank 1 sends.
std::uint32_t connection_of_rank_1(blink::prepared_schedule const& prepared) {
  auto const [ends, count] = prepared.tables().ends(1);
  for (std::size_t k = 0; k < count; ++k) {
    if (ends[k].sends && ends[k].peer == 0) return ends[k].connection;
  }
  return UINT32_MAX;
}

/// Rank 1, which sends, and rank 0, which receives. `Pair` has `at(rank)`, the rank's transport.
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

/// Ranks 1 and 0 of a chain 0 <- 1 <- 2 in their first call. Rank 1 is an inner rank. So its
/// connection to rank 0 has slots also where ranks access each other's buffers.
template <class Transport, class Memory = one_memory<Transport>>
class pair_of_links : public both_ends<pair_of_links<Transport, Memory>> {
 public:
  using transport = Transport;

  pair_of_links() {
    for (int rank = 0; rank < ranks; ++rank) {
      blink::call_record record;
      record.parameters.schedule_hash = memory_.prepared(rank).hash();
      memory_.shared(rank).enter(rank, record);
    }
  }
  std::uint32_t connection() { return connection_of_rank_1(memory_.prepared(1)); }
  std::uint64_t window() { return memory_.prepared(0).tables().layout().window; }
  void abort() { memory_.shared(0).fail(0, blink::collective_error("enough", 0, -1, -1, -1)); }

 private:
  friend both_ends<pair_of_links>;
  transport at(int rank) {
    return transport(blink::transport_parts{&memory_.shared(rank), &memory_.prepared(rank),
                                            seen_[static_cast<std::size_t>(rank)].data(), 1, rank});
  }

  Memory memory_;
  std::array<std::array<std::uint64_t, ranks>, ranks> seen_{};
};

/// The same pair for the transports of kernels, which are always inside a call.
template <class Transport>
class pair_of_peer_links : public both_ends<pair_of_peer_links<Transport>> {
 public:
  using transport = Transport;

  std::uint32_t connection() { return connection_of_rank_1(plan_); }
  std::uint64_t window() { return plan_.tables().layout().window; }
  void abort() { blink::publish(abort_, 1); }

 private:
  friend both_ends<pair_of_peer_links>;
  transport at(int rank) {
    transport result{};
    result.connections = plan_.tables().connections();
    result.abort = &abort_;
    result.bytes_of_slot = plan_.tables().layout().slot_bytes;
    result.own_rank = rank;
    result.ranks = ranks;
    return result;
  }

  blink::prepared_schedule plan_{chain(), small_layout<Transport>(), {}};
  blink::counter abort_ = 0;
};

template <class Transport>
using pair_of_mappings = pair_of_links<Transport, mapped_memory<Transport>>;

}  // namespace

using namespace blink_test;

using fixtures =
    testing::Types<pair_of_links<blink::slot_transport>, pair_of_links<blink::threads_link>,
                   pair_of_links<blink::shaped_transport>, pair_of_mappings<blink::slot_transport>,
                   pair_of_mappings<blink::direct_transport>,
                   pair_of_mappings<blink::shaped_transport>,
                   pair_of_peer_links<blink::slot_peer_transport>,
                   pair_of_peer_links<blink::reaching_peer_transport>,
                   pair_of_peer_links<blink::shaped_peer_transport>>;
INSTANTIATE_TYPED_TEST_SUITE_P(all, transport_conformance, fixtures);

}  // namespace conformance_test
