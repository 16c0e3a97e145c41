// SPDX-License-Identifier: Apache-2.0
#pragma once

// Conversion of ranks' calls to work in their streams: the part that does not depend on how kernels
// reach other ranks.

#include <blink/core/collective.hpp>
#include <blink/transports/cuda/runtime/device_handles.hpp>

#include "errors.hpp"
#include "platform.hpp"
#include "request.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink_nccl {

/// A send and the receive that matches it, by ranks of this process.
template <platform P>
struct transfer {
  request<P>* send;
  request<P>* receive;
  int sender;
  int receiver;
  batch<P>* sending;
  batch<P>* receiving;
};

/// A send or a receive of a rank of this process whose peer is in another process.
template <platform P>
struct distant_piece {
  request<P>* call;
  int rank;
  batch<P>* of;
};

/// Puts the calls of a communicator into the streams of its ranks. One thread uses it at a time,
/// except for `has_failed` and `abort`. See `issuer_over`.
template <platform P>
class issuer {
 public:
  issuer(issuer const&) = delete;
  issuer& operator=(issuer const&) = delete;
  virtual ~issuer() = default;

  /// Reads the user's tables; called before everything else. Returns a hash that must be equal in
  /// all processes.
  ///
  /// Throws: input_error for a file that is missing or invalid.
  [[nodiscard]] virtual std::uint64_t use_tuning() = 0;

  [[nodiscard]] virtual int rank_count() const = 0;
  [[nodiscard]] virtual int first_rank() const = 0;  ///< of this process
  [[nodiscard]] virtual int process_of(int rank) const = 0;

  // Calls. `parts` are those of the ranks of this process; they agree.

  /// Throws: precondition_error or refusal for invalid parts, before the call is announced to other
  ///         processes.
  virtual void check(std::vector<request<P>*> const& parts) = 0;
  /// True if the call can run without any work of other processes.
  [[nodiscard]] virtual bool is_prepared(request<P> const& part) = 0;
  /// Prepares the call together with the other processes, and waits for them.
  ///
  /// Throws: precondition_error, resource_error, device_error on all of them; collective_error.
  virtual void prepare(request<P> const& part) = 0;
  /// Puts the call into the streams. Does not wait for other processes if the call is prepared.
  ///
  /// Throws: precondition_error for invalid buffers; refusal, collective_error, device_error.
  virtual void run(std::vector<request<P>*> const& parts) = 0;

  /// Throws: precondition_error if memory is not of the rank's device.
  virtual void expect_place(char const* name, int rank, void const* at) = 0;
  [[nodiscard]] virtual bool has_failed() const = 0;
  /// Throws: collective_error if a call has failed.
  virtual void expect_no_failure() = 0;
  virtual void abort() = 0;
  /// True if the kernels of this process have ended, except for those of graphs.
  [[nodiscard]] virtual bool is_idle() const = 0;
  /// The bytes that the communicator holds on a device.
  [[nodiscard]] virtual std::size_t bytes_on(int device) const = 0;
  /// Limits the time for which the destructor waits for other processes.
  virtual void shorten_waits(std::chrono::nanoseconds to) = 0;

  /// True if the streams are captured into a graph.
  ///
  /// Pre: the streams of all parts are captured, or none is.
  [[nodiscard]] bool is_captured(std::vector<request<P>*> const& parts) const {
    return P::devices().capture(places_of(parts)[0].second).number != 0;
  }

  /// Copies each piece by the copy engine of its sender. Pieces of different pairs of devices run
  /// in parallel.
  ///
  /// all:    between ranks of this process
  /// Throws: refusal if only some of the streams are captured into a graph; device_error.
  void copy(std::vector<transfer<P>> const& all) {
    auto& driver = P::devices();
    std::vector<place> places;
    for (auto const& one : all) {
      places.push_back(sender_of(one));
      places.push_back(receiver_of(one));
    }
    expect_one_graph("sends and receives of one group", places);
    for (auto const& one : all) {
      (void)begin_of(*one.sending, sender_of(one));
      (void)begin_of(*one.receiving, receiver_of(one));
    }
    std::map<std::pair<int, int>, blink::device_event<devices>> ended;
    for (auto const& one : all) {
      if (one.send->count == 0) continue;
      auto const from = sender_of(one), to = receiver_of(one);
      auto const on = tree_task(from.first, to.first);
      driver.wait(from.first, on, begin_of(*one.sending, from));
      driver.wait(from.first, on, begin_of(*one.receiving, to));
      driver.copy_between(to.first, one.receive->output, from.first, one.send->input,
                          one.send->bytes(), on);
      ended.try_emplace({from.first, to.first}, driver, from.first);
    }
    for (auto& [pair, event] : ended) {
      driver.record(pair.first, event.get(), tree_task(pair.first, pair.second));
    }
    for (auto const& one : all) {
      if (one.send->count == 0) continue;
      auto const from = sender_of(one), to = receiver_of(one);
      auto const event = ended.at({from.first, to.first}).get();
      driver.wait(from.first, from.second, event);
      if (to != from) driver.wait(to.first, to.second, event);
    }
  }

  /// Throws: refusal if only some of the streams of a device are captured into a graph, before the
  ///         pieces are announced to other processes.
  void check_distant(std::vector<distant_piece<P>> const& all) {
    for (int const device : each_device_) {
      expect_one_graph("sends and receives of one group", places_on(device, all));
    }
  }
  /// Runs pieces in a kernel for each device. Later work in the streams does not wait for it,
  /// because the other process may make its part of a piece arbitrarily late.
  ///
  /// Throws: collective_error, device_error, resource_error.
  void run_distant(std::vector<distant_piece<P>> const& all) {
    auto& driver = P::devices();
    streams own;
    for (auto const& one : all) (void)begin_of(*one.of, place_of(one));
    for (int const device : each_device_) own.push_back(tree_task(device, of_kernels));
    for (auto const& one : all) {
      auto const at = place_of(one);
      driver.wait(at.first, tree_task(at.first, of_kernels), begin_of(*one.of, at));
    }
    send_and_receive(all, own);
    for (int const device : each_device_) {
      auto const places = places_on(device, all);
      if (places.empty()) continue;
      blink::device_event<devices> const ended(driver, device);
      driver.record(device, ended.get(), tree_task(device, of_kernels));
      for (auto const& at : places) driver.wait(device, at.second, ended.get());
    }
  }
  /// Throws: precondition_error if the device of the rank or of its peer does not reach the other
  ///         one.
  virtual void expect_reach(int rank, request<P> const& one) = 0;

 protected:
  using devices = typename P::devices_type;
  using place = std::pair<int, stream_t<P>>;  // device, stream
  using streams = std::vector<stream_t<P>>;

  /// on: one stream for each device
  virtual void send_and_receive(std::vector<distant_piece<P>> const& all, streams const& on) = 0;

  /// devices_of_ranks: of the ranks of this process
  explicit issuer(std::vector<int> devices_of_ranks) : device_of_(std::move(devices_of_ranks)) {
    for (int const device : device_of_) {
      auto const found = std::find(each_device_.begin(), each_device_.end(), device);
      if (found == each_device_.end()) each_device_.push_back(device);
    }
  }

  [[nodiscard]] std::vector<place> places_of(std::vector<request<P>*> const& parts) const {
    std::vector<place> places;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      places.push_back({device_of_[k], parts[k]->stream});
    }
    return places;
  }
  static void expect_one_graph(std::string const& name, std::vector<place> const& places) {
    auto& driver = P::devices();
    for (auto const& one : places) {
      if (driver.capture(one.second) == driver.capture(places[0].second)) continue;
      refuse_usage(name +
                   ": streams of ranks are captured differently, expected one graph for all " +
                   +"or none of them");
    }
  }

  /// Returns one stream for each device: that of its first rank, ordered after the work in the
  /// streams of its other ranks.
  [[nodiscard]] streams join(std::vector<place> const& places) {
    streams main;
    for (int const device : each_device_) {
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
      while (each_device_[position] != one.first) ++position;
      if (main[position] != one.second) run(one, main[position]);
    }
  }
  /// Makes later work in `after` wait for the present work in `before`.
  static void order(int device, stream_t<P> before, stream_t<P> after) {
    auto& driver = P::devices();
    blink::device_event<devices> const point(driver, device);
    driver.record(device, point.get(), before);
    driver.wait(device, after, point.get());
  }

 private:
  [[nodiscard]] int device_of(int rank) const {
    return device_of_[static_cast<std::size_t>(rank - first_rank())];
  }
  [[nodiscard]] place sender_of(transfer<P> const& one) const {
    return {device_of(one.sender), one.send->stream};
  }
  [[nodiscard]] place receiver_of(transfer<P> const& one) const {
    return {device_of(one.receiver), one.receive->stream};
  }
  [[nodiscard]] place place_of(distant_piece<P> const& one) const {
    return {device_of(one.rank), one.call->stream};
  }
  /// The places of a device without duplicates.
  [[nodiscard]] std::vector<place> places_on(int device,
                                             std::vector<distant_piece<P>> const& all) const {
    std::set<place> found;
    for (auto const& one : all) {
      if (place_of(one).first == device) found.insert(place_of(one));
    }
    return {found.begin(), found.end()};
  }
  /// Returns the point in a stream from which the sends and receives of a batch may run. It is the
  /// same for all of them, so that none waits for an earlier one.
  auto begin_of(batch<P>& of, place const& at) {
    auto& driver = P::devices();
    auto const [event, is_new] = of.starts.try_emplace(at, driver, at.first);
    if (is_new) driver.record(at.first, event->second.get(), at.second);
    return event->second.get();
  }
  stream_t<P> tree_task(int from, int to) {
    auto const found = tasks_.find({from, to});
    if (found != tasks_.end()) return found->second.get();
    return tasks_.try_emplace({from, to}, P::devices(), from).first->second.get();
  }

  std::vector<int> device_of_;           // by rank of this process
  std::vector<int> each_device_;         // without duplicates, in the order of their first ranks
  static constexpr int of_kernels = -1;  // used instead of `to`
  std::map<std::pair<int, int>, blink::device_stream<devices>> tasks_;  // by devices: from, to
};

}  // namespace blink_nccl
