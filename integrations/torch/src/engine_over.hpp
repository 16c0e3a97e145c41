// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/exchange.hpp>
#include <blink/collectives/point_to_point.hpp>
#include <blink/collectives/segment_list.hpp>
#include <blink/reducers/operation_of.hpp>
#include <blink/running/call/communicator.hpp>

#include "engine.hpp"
#include "reductions.hpp"

#include <chrono>
#include <cstring>
#include <utility>

namespace blink_torch {

/// The engine over a communicator of blink.
template <blink::communicator Comm>
class engine_over final : public engine {
 public:
  explicit engine_over(Comm comm) : me_(std::move(comm)) {}
  /// The end of a communicator between hosts waits for its peers. A program that ends one group
  /// does not wait for long.
  ~engine_over() override { me_.set_deadline(std::chrono::seconds(2)); }

  void all_reduce(reduction how, void const* input, void* output, std::size_t count) override {
    blink::all_reduce(me_, input, output, count, operation_for(how));
  }
  void reduce(reduction how, void const* input, void* output, std::size_t count,
              int root) override {
    blink::reduce(me_, input, output, count, root, operation_for(how));
  }
  void reduce_scatter(reduction how, std::vector<segment> const& inputs, void* output) override {
    auto const element = blink::bytes_of(how.type);
    std::vector<void*> starts;
    for (auto const& each : inputs) starts.push_back(each.data);
    auto const all = blink::segments_at(starts, inputs.front().bytes / element, element);
    void const* const first = all.base;
    blink::reduce_scatter_v(me_, first, output, all.blocks, operation_for(how));
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    blink::broadcast(me_, static_cast<std::byte*>(data), bytes, root);
  }
  void all_gather(void const* input, std::vector<segment> const& outputs) override {
    std::vector<std::byte*> starts;
    std::vector<std::size_t> counts;
    for (auto const& each : outputs) {
      starts.push_back(static_cast<std::byte*>(each.data));
      counts.push_back(each.bytes);
    }
    auto const all = blink::segments_at(starts, counts);
    blink::all_gather_v(me_, static_cast<std::byte const*>(input), all.base, all.blocks);
  }
  void gather(segment const& input, std::vector<segment> const& outputs, int root) override {
    blink::transfers list;
    if (me_.rank() != root) {
      list.send(root, static_cast<std::byte const*>(input.data), input.bytes);
    }
    receive_from_others(outputs, list);
    blink::exchange(me_, list);
    if (me_.rank() == root) copy_own(input, outputs[static_cast<std::size_t>(root)]);
  }
  void scatter(std::vector<segment> const& inputs, segment const& output, int root) override {
    blink::transfers list;
    if (me_.rank() != root) {
      list.receive(root, static_cast<std::byte*>(output.data), output.bytes);
    }
    send_to_others(inputs, list);
    blink::exchange(me_, list);
    if (me_.rank() == root) copy_own(inputs[static_cast<std::size_t>(root)], output);
  }
  void all_to_all(std::vector<segment> const& sends,
                  std::vector<segment> const& receives) override {
    blink::transfers list;
    send_to_others(sends, list);
    receive_from_others(receives, list);
    blink::exchange(me_, list);
    auto const me = static_cast<std::size_t>(me_.rank());
    copy_own(sends[me], receives[me]);
  }
  void barrier() override { blink::barrier(me_); }

  std::unique_ptr<message> send(int peer, segment const& data, int tag) override {
    return std::make_unique<sent>(
        blink::start_send(me_, peer, static_cast<std::byte const*>(data.data), data.bytes, tag));
  }
  std::unique_ptr<message> receive(int source, segment const& data, int tag) override {
    return std::make_unique<received>(
        blink::start_receive(me_, source, static_cast<std::byte*>(data.data), data.bytes, tag),
        data.bytes);
  }

  void set_deadline(std::chrono::milliseconds deadline) override { me_.set_deadline(deadline); }
  void abort(std::string const& why) override { me_.fail(why); }

 private:
  [[nodiscard]] static blink::array_operation operation_for(reduction how) {
    return blink::operation_of(how.type, how.what);
  }

  class sent final : public message {
   public:
    explicit sent(blink::started_send started) : started_(std::move(started)) {}
    bool test() override { return started_.test(); }
    void wait(std::chrono::milliseconds longest) override { started_.wait(longest); }
    int source() const override { return -1; }

   private:
    blink::started_send started_;
  };
  class received final : public message {
   public:
    received(blink::started_receive started, std::size_t bytes)
        : started_(std::move(started)), bytes_(bytes) {}
    bool test() override {
      if (!started_.test()) return false;
      wait(std::chrono::milliseconds(0));
      return true;
    }
    void wait(std::chrono::milliseconds longest) override {
      auto const got = started_.wait(longest);
      source_ = got.source;
      if (got.bytes == bytes_) return;
      throw blink::precondition_error("a message of " + std::to_string(got.bytes) +
                                      " bytes from rank " + std::to_string(got.source) +
                                      ", expected " + std::to_string(bytes_));
    }
    int source() const override { return source_; }

   private:
    blink::started_receive started_;
    std::size_t bytes_;
    int source_ = -1;
  };

  void send_to_others(std::vector<segment> const& segments, blink::transfers& list) const {
    for (std::size_t peer = 0; peer < segments.size(); ++peer) {
      if (static_cast<int>(peer) == me_.rank()) continue;
      list.send(static_cast<int>(peer), static_cast<std::byte const*>(segments[peer].data),
                segments[peer].bytes);
    }
  }
  void receive_from_others(std::vector<segment> const& segments, blink::transfers& list) const {
    for (std::size_t peer = 0; peer < segments.size(); ++peer) {
      if (static_cast<int>(peer) == me_.rank()) continue;
      list.receive(static_cast<int>(peer), static_cast<std::byte*>(segments[peer].data),
                   segments[peer].bytes);
    }
  }
  static void copy_own(segment const& from, segment const& to) {
    if (from.bytes != to.bytes) {
      throw blink::precondition_error("this rank sends " + std::to_string(from.bytes) +
                                      " bytes to itself and receives " + std::to_string(to.bytes) +
                                      ", expected as many");
    }
    if (to.bytes > 0) std::memmove(to.data, from.data, to.bytes);
  }

  Comm me_;
};

}  // namespace blink_torch
