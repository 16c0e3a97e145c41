// SPDX-License-Identifier: Apache-2.0
#pragma once

// From calls that all ranks have made to work in their streams.

#include <blink/collective.hpp>
#include <blink/transports/cuda/device_collectives.hpp>
#include <blink/transports/cuda/device_handles.hpp>
#include <blink/transports/cuda/device_world_options.hpp>
#include <blink/transports/cuda/rank_buffers.hpp>

#include "element_types.hpp"
#include "errors.hpp"
#include "platform.hpp"
#include "reduce_elements.hpp"
#include "request.hpp"
#include "routes.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink_nccl {

/// A send and the receive that it belongs to.
template <platform P>
struct transfer {
  request<P>* send;
  request<P>* receive;
  int sender;
  int receiver;
};

/// Puts the calls of a communicator into the streams that its ranks gave. One thread at a time.
template <platform P>
class issuer {
 public:
  explicit issuer(blink::device_world_options const& options)
      : device_of_(options.devices), world_(P::devices(), options), routes_(world_) {}

  [[nodiscard]] world_t<P>& world() { return world_; }

  /// by_rank: parts of one call, which agree
  /// Throws:  precondition_error for wrong buffers; refusal, collective_error, device_error.
  void run(std::vector<request<P>*> const& by_rank) {
    auto const& first = *by_rank[0];
    auto& plan = routes_.along(first.kind, first.root);
    std::vector<place> places;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      places.push_back({device_of_[rank], by_rank[rank]->stream});
    }
    expect_one_graph(first.name, places);
    auto const main = join(places);
    if (blink::has_reduce_phase(first.kind)) {
      reduce(plan, by_rank, main);
    } else {
      move(plan, by_rank, main);
    }
    part(places, main);
  }

  /// Copies each piece by the engine of its sender; pieces of other pairs of devices run beside it.
  ///
  /// Throws: refusal if only some of the streams are captured into a graph; device_error.
  void copy(std::vector<transfer<P>> const& all) {
    auto& driver = P::devices();
    std::vector<place> places;
    for (auto const& one : all) {
      places.push_back(sender_of(one));
      places.push_back(receiver_of(one));
    }
    expect_one_graph("sends and receives of one group", places);
    std::map<place, blink::device_event<devices>> begun;
    for (auto const& at : places) {
      auto const [event, is_new] = begun.try_emplace(at, driver, at.first);
      if (is_new) driver.record(at.first, event->second.get(), at.second);
    }
    std::map<std::pair<int, int>, blink::device_event<devices>> ended;
    for (auto const& one : all) {
      if (one.send->count == 0) continue;
      auto const from = sender_of(one), to = receiver_of(one);
      auto const on = lane(from.first, to.first);
      driver.wait(from.first, on, begun.at(from).get());
      driver.wait(from.first, on, begun.at(to).get());
      driver.copy_between(to.first, one.receive->output, from.first, one.send->input,
                          one.send->bytes(), on);
      ended.try_emplace({from.first, to.first}, driver, from.first);
    }
    for (auto& [pair, event] : ended) {
      driver.record(pair.first, event.get(), lane(pair.first, pair.second));
    }
    for (auto const& one : all) {
      if (one.send->count == 0) continue;
      auto const from = sender_of(one), to = receiver_of(one);
      auto const event = ended.at({from.first, to.first}).get();
      driver.wait(from.first, from.second, event);
      if (to != from) driver.wait(to.first, to.second, event);
    }
  }

 private:
  using devices = typename P::devices_type;
  using place = std::pair<int, stream_t<P>>;  // device, stream
  using streams = typename world_t<P>::streams;
  using prepared = typename world_t<P>::prepared_type;

  static void expect_one_graph(std::string const& name, std::vector<place> const& places) {
    auto& driver = P::devices();
    for (auto const& one : places) {
      if (driver.capture(one.second) == driver.capture(places[0].second)) continue;
      refuse_usage(name +
                   ": the streams of all ranks are expected to be captured into one graph, " +
                   "or none of them");
    }
  }

  [[nodiscard]] place sender_of(transfer<P> const& one) const {
    return {device_of_[static_cast<std::size_t>(one.sender)], one.send->stream};
  }
  [[nodiscard]] place receiver_of(transfer<P> const& one) const {
    return {device_of_[static_cast<std::size_t>(one.receiver)], one.receive->stream};
  }
  stream_t<P> lane(int from, int to) {
    auto const found = lanes_.find({from, to});
    if (found != lanes_.end()) return found->second.get();
    return lanes_.try_emplace({from, to}, P::devices(), from).first->second.get();
  }

  /// One stream for each device: its first rank's, behind what its other ranks have in theirs.
  [[nodiscard]] streams join(std::vector<place> const& places) {
    streams main;
    for (int const device : world_.devices()) {
      std::size_t first = 0;
      while (places[first].first != device) ++first;
      main.push_back(places[first].second);
    }
    for_others(places, main,
               [&](place const& other, stream_t<P> own) { order(other.first, other.second, own); });
    return main;
  }
  void part(std::vector<place> const& places, streams const& main) {
    for_others(places, main,
               [&](place const& other, stream_t<P> own) { order(other.first, own, other.second); });
  }
  template <class Do>
  void for_others(std::vector<place> const& places, streams const& main, Do const& run) {
    for (auto const& one : places) {
      std::size_t position = 0;
      while (world_.devices()[position] != one.first) ++position;
      if (main[position] != one.second) run(one, main[position]);
    }
  }
  /// What is put into `after` from now on runs behind what is in `before`.
  static void order(int device, stream_t<P> before, stream_t<P> after) {
    auto& driver = P::devices();
    blink::device_event<devices> const point(driver, device);
    driver.record(device, point.get(), before);
    driver.wait(device, after, point.get());
  }

  // Ranks whose buffer does not matter may pass anything.
  [[nodiscard]] static bool reads(request<P> const& one, std::size_t rank) {
    return !blink::is_from_root(one.kind) || static_cast<int>(rank) == one.root;
  }
  [[nodiscard]] static bool writes(request<P> const& one, std::size_t rank) {
    return !blink::is_to_root(one.kind) || static_cast<int>(rank) == one.root;
  }

  void reduce(prepared& plan, std::vector<request<P>*> const& by_rank, streams const& on) {
    auto const& first = *by_rank[0];
    std::vector<blink::detail::plain_buffers> buffers;
    std::vector<std::optional<given_factor>> factors;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      auto const& one = *by_rank[rank];
      buffers.push_back({one.input, writes(one, rank) ? one.output : nullptr, one.count});
      factors.push_back(one.factor);
    }
    switch (first.type) {
#define BLINK_NCCL_CASE(name)                                                                   \
  case data_type::name:                                                                         \
    return reduce_elements<P, data_type::name>(world_, plan, first.kind, buffers, first.reduce, \
                                               factors, on);
      BLINK_NCCL_BUILT_TYPES(BLINK_NCCL_CASE)
#undef BLINK_NCCL_CASE
      default:
        refuse_usage(std::string(first.name) + ": this library was built without reductions of " +
                     to_text(first.type) + " (BLINK_NCCL_TYPES)");
    }
  }
  void move(prepared& plan, std::vector<request<P>*> const& by_rank, streams const& on) {
    std::vector<blink::detail::plain_buffers> buffers;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      auto const& one = *by_rank[rank];
      buffers.push_back({reads(one, rank) ? one.input : nullptr,
                         writes(one, rank) ? one.output : nullptr, one.bytes()});
    }
    world_.template call<blink::scheduled_chunks, unsigned char>(plan, by_rank[0]->kind, buffers, 0,
                                                                 blink::detail::no_reducer{}, on);
  }

  std::vector<int> device_of_;  // by rank
  world_t<P> world_;
  routes<P> routes_;
  std::map<std::pair<int, int>, blink::device_stream<devices>> lanes_;  // by devices: from, to
};

}  // namespace blink_nccl
