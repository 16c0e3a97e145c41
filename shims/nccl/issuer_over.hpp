// SPDX-License-Identifier: Apache-2.0
#pragma once

// The issuer over a communicator of devices.

#include <blink/core/collective.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>
#include <blink/transports/cuda/p2p/device_pairs.hpp>

#include "element_types.hpp"
#include "errors.hpp"
#include "given_tuning.hpp"
#include "issuer.hpp"
#include "platform.hpp"
#include "reduce_elements.hpp"
#include "request.hpp"
#include "routes.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink_nccl {

template <platform P, class Transport>
class issuer_over final : public issuer<P> {
 public:
  /// bootstrap: of several processes; none: all ranks are of this process
  /// Throws:    what `basic_device_ranks` throws.
  template <class... Bootstrap>
  explicit issuer_over(blink::device_options const& options, Bootstrap&... bootstrap)
      : issuer<P>(options.devices), ranks_(P::devices(), options, bootstrap...), routes_(ranks_) {
    if constexpr (sizeof...(bootstrap) > 0) {
      ranks_.prepare_pairs({.ways = static_cast<std::uint32_t>(P::ways(ranks_.rank_count()))});
    }
  }

  [[nodiscard]] std::uint64_t use_tuning() override {
    auto given = read_given_tuning();
    routes_.take(std::move(given.tables));
    return given.hash;
  }
  [[nodiscard]] int rank_count() const override { return ranks_.rank_count(); }
  [[nodiscard]] int first_rank() const override { return ranks_.first_rank(); }
  [[nodiscard]] int process_of(int rank) const override { return ranks_.process_of(rank); }

  void check(std::vector<request<P>*> const& parts) override {
    auto const& first = *parts[0];
    this->expect_one_graph(first.name, this->places_of(parts));
    bool const reduces = blink::has_reduce_phase(first.kind);
    if (reduces) expect_built(first);
    auto const buffers = buffers_of(parts);
    std::vector<blink::detail::buffer_use> use;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      use.push_back({reads(*parts[k], rank_of(k)), writes(*parts[k], rank_of(k))});
    }
    std::size_t const bytes = reduces ? bytes_of(first.type) : 1;
    (void)ranks_.check_rank_buffers(first.kind, use, buffers, bytes, bytes);
  }
  [[nodiscard]] bool is_prepared(request<P> const& part) override {
    return routes_.knows(part.kind, part.root, bytes_of_buffer(part));
  }
  void prepare(request<P> const& part) override { (void)way_of(part); }
  void run(std::vector<request<P>*> const& parts) override {
    auto const& first = *parts[0];
    bool const reduces = blink::has_reduce_phase(first.kind);
    if (reduces) expect_built(first);
    auto const along = way_of(first);
    auto const places = this->places_of(parts);
    this->expect_one_graph(first.name, places);
    auto const main = this->join(places);
    if (reduces) {
      reduce(along, parts, main);
    } else {
      ranks_.template call<blink::scheduled_chunks, unsigned char>(
          *along.prepared, first.kind, buffers_of(parts), along.chunk_bytes,
          blink::detail::no_reducer{}, main);
    }
    this->part(places, main);
  }

  void expect_place(char const* name, int rank, void const* at) override {
    ranks_.expect_place(name, static_cast<std::size_t>(rank), "buffer", at);
  }
  void expect_reach(int rank, request<P> const& one) override {
    ranks_.check_piece(piece_of(rank, one));
  }
  [[nodiscard]] bool has_failed() const override { return ranks_.has_failed(); }
  void expect_no_failure() override { ranks_.check(); }
  void abort() override { ranks_.abort(); }
  [[nodiscard]] bool is_idle() const override { return ranks_.is_idle(); }
  [[nodiscard]] std::size_t bytes_on(int device) const override {
    auto const& held = ranks_.memory().held();
    auto const found = held.find(device);
    return found == held.end() ? 0 : found->second.total();
  }
  void shorten_waits(std::chrono::nanoseconds to) override { ranks_.shorten_waits(to); }

 private:
  using typename issuer<P>::streams;
  using way = blink::chosen_from<typename ranks_t<P, Transport>::prepared_type>;

  [[nodiscard]] static blink::device_piece piece_of(int rank, request<P> const& one) {
    bool const sends = one.what == request<P>::shape::send;
    void* const data = sends ? const_cast<void*>(one.input) : one.output;
    return {rank, one.root, sends, static_cast<std::byte*>(data), one.bytes()};
  }
  void send_and_receive(std::vector<distant_piece<P>> const& all, streams const& on) override {
    std::vector<blink::device_piece> pieces;
    for (auto const& one : all) pieces.push_back(piece_of(one.rank, *one.call));
    ranks_.send_and_receive(pieces, on);
  }
  [[nodiscard]] int rank_of(std::size_t position) const {
    return first_rank() + static_cast<int>(position);
  }
  // A rank may pass any pointer for a buffer that the call does not use.
  [[nodiscard]] static bool reads(request<P> const& one, int rank) {
    return !blink::is_from_root(one.kind) || rank == one.root;
  }
  [[nodiscard]] static bool writes(request<P> const& one, int rank) {
    return !blink::is_to_root(one.kind) || rank == one.root;
  }

  [[nodiscard]] std::size_t bytes_of_buffer(request<P> const& one) const {
    return blink::buffer_bytes(one.kind, one.count, bytes_of(one.type), rank_count());
  }
  [[nodiscard]] way way_of(request<P> const& one) {
    return routes_.along(one.kind, one.root, bytes_of_buffer(one));
  }
  /// Returns the buffers. Their counts are in elements if they are combined, in bytes if they are
  /// only moved.
  [[nodiscard]] std::vector<blink::detail::plain_buffers> buffers_of(
      std::vector<request<P>*> const& parts) const {
    std::vector<blink::detail::plain_buffers> result;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      auto const& one = *parts[k];
      bool const reduces = blink::has_reduce_phase(one.kind);
      result.push_back({reads(one, rank_of(k)) ? one.input : nullptr,
                        writes(one, rank_of(k)) ? one.output : nullptr,
                        reduces ? one.count : one.bytes()});
    }
    return result;
  }
  static void expect_built(request<P> const& one) {
#define BLINK_NCCL_CASE(name) \
  if (one.type == data_type::name) return;
    BLINK_NCCL_BUILT_TYPES(BLINK_NCCL_CASE)
#undef BLINK_NCCL_CASE
    refuse_usage(std::string(one.name) + ": this library was built without reductions of " +
                 to_text(one.type) + " (BLINK_NCCL_TYPES)");
  }
  /// Pre: `expect_built`.
  void reduce(way const& along, std::vector<request<P>*> const& parts, streams const& on) {
    auto const& first = *parts[0];
    auto const buffers = buffers_of(parts);
    std::vector<std::optional<given_factor>> factors;
    for (auto const* const one : parts) factors.push_back(one->factor);
#define BLINK_NCCL_CASE(name)                                                                     \
  if (first.type == data_type::name) {                                                            \
    return reduce_elements<P, Transport, data_type::name>(ranks_, *along.prepared,                \
                                                          along.chunk_bytes, first.kind, buffers, \
                                                          first.reduce, factors, on);             \
  }
    BLINK_NCCL_BUILT_TYPES(BLINK_NCCL_CASE)
#undef BLINK_NCCL_CASE
  }

  ranks_t<P, Transport> ranks_;
  routes<P, Transport> routes_;
};

}  // namespace blink_nccl
