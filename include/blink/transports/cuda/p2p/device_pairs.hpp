// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/transports/cuda/calls/device_launcher.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/calls/plan_blocks.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/p2p/pair_layout.hpp>
#include <blink/transports/cuda/p2p/piece_call.hpp>
#include <blink/transports/cuda/p2p/piece_lists.hpp>
#include <blink/transports/cuda/runtime/copy_pieces.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>
#include <blink/transports/cuda/runtime/reachable_memory.hpp>
#include <blink/transports/host/host_processes.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The memory of devices for sends and receives between ranks of different processes. It has the
/// connections of `pair_layout`, which the receiver's process shares, and their endpoints on the
/// devices of this process.
template <polled_runtime Devices>
class device_pairs {
 public:
  /// Called by all processes together.
  ///
  /// Throws: precondition_error for options that are out of range or differ; resource_error if the
  ///         budget does not suffice; device_error; what `host_processes` throws.
  device_pairs(Devices& driver, rank_placement const& where, device_memory_budget& budget,
               device_options const& options, pair_options const& wanted, host_processes& others)
      : driver_(driver),
        where_(where),
        others_(others),
        layout_((agree_on(others, wanted), where), wanted, options.window, options.slot_bytes),
        lists_(driver, budget) {
    std::vector<device_memory_use> use;
    for (std::size_t k = 0; k < where.devices.size(); ++k) {
      use.push_back({std::max<std::size_t>(1, layout_.ends_of(place(k)).size()) * sizeof(pair_end),
                     layout_.bytes_at(place(k)), 0});
    }
    memory_ = {driver, where, budget, &others, use, "sends and receives"};
    report_who_reaches();
    others.agree("sends and receives: connections", [&] {
      for (std::size_t k = 0; k < use.size(); ++k) images_.push_back(make_ends(k));
      restart();
    });
  }
  device_pairs(device_pairs const&) = delete;
  device_pairs& operator=(device_pairs const&) = delete;

  /// Throws: precondition_error if the peer is not of another process, or if the sender's device
  ///         does not reach the receiver's device.
  void check(device_piece const& one) const {
    std::string const name = (one.sends ? "send of rank " : "receive of rank ") +
                             std::to_string(one.rank) + ": rank " + std::to_string(one.peer);
    bool const exists =
        one.peer >= 0 && static_cast<std::size_t>(one.peer) < where_.place_of.size();
    if (!exists || where_.is_here(where_.of_rank(one.peer))) {
      throw precondition_error(name + " is not of another process");
    }
    int const sender = one.sends ? one.rank : one.peer, receiver = one.sends ? one.peer : one.rank;
    auto const to = place_of(receiver);
    if ((reached_[place_of(sender)] >> to & 1) != 0) return;
    throw precondition_error(
        name + " is not reached: the device of " + where_.name(sender) +
        " cannot open memory of that of " + where_.name(receiver) +
        (one.sends ? ": " + memory_.refusal(where_.position_of(sender), to) : ""));
  }

  /// Runs all pieces at once, by one kernel for each device that has some.
  ///
  /// on:     one stream for each device
  /// Pre:    each piece passes `check`.
  /// Throws: resource_error, device_error.
  void send_and_receive(device_launcher<Devices>& launcher, std::vector<device_piece> const& pieces,
                        typename device_launcher<Devices>::streams const& on) {
    std::vector<part_list> lists;
    std::vector<device_tasks> tasks;
    for (std::size_t k = 0; k < on.size(); ++k) {
      auto const& made = lists.emplace_back(parts_of(k, pieces));
      tasks.push_back({where_.devices[k], {made.connections}});
    }
    auto const blocks = launcher.assign_blocks(tasks, [&](int device, std::uint32_t threads) {
      load_put_list<piece_part>(driver_, device);
      return driver_.template work_blocks_at_once<piece_call>(device, threads);
    });
    piece_call call;
    call.connections_per_block = blocks.tasks_per_block;
    call.slot_bytes = layout_.slot_bytes();
    auto const launch = [&](std::size_t k) {
      lists_.put(call, where_.devices[k], lists[k].parts, on[k]);
      call.connections = lists[k].connections;
      call.ends = ends(k);
      call.watch = launcher.watch(k);
      driver_.launch_work(where_.devices[k], blocks.blocks[k], blocks.threads, call, on[k]);
    };
    launcher.run(on, [&](std::size_t k) { return blocks.blocks[k] > 0; }, [] {}, launch);
  }

  /// Resets every connection to its state before the first message.
  ///
  /// Pre: no call is running.
  void restart() {
    for (std::size_t k = 0; k < images_.size(); ++k) {
      driver_.clear(where_.devices[k], memory_.own(k), layout_.head_bytes_at(place(k)));
      driver_.write(where_.devices[k], ends(k), images_[k].data(),
                    images_[k].size() * sizeof(pair_end));
    }
  }

  /// Never releases the memory, because kernels may still use it.
  void leak_memory() {
    memory_.leak_memory();
    lists_.leak_memory();
  }

  /// The reason why sends and receives have failed, as far as the devices of this process know.
  ///
  /// Pre: no call of this process is running.
  [[nodiscard]] std::optional<collective_error> find_failure() {
    std::optional<collective_error> late;
    for (std::size_t k = 0; k < images_.size(); ++k) {
      auto now = images_[k];
      driver_.read(where_.devices[k], now.data(), ends(k), now.size() * sizeof(pair_end));
      for (auto const& one : now) {
        if (auto differs = find_difference(k, one)) return differs;
        if (one.result == status::timed_out && !late) late = describe(one);
      }
    }
    return late;
  }

 private:
  struct part_list {
    std::vector<piece_part> parts;
    std::uint32_t connections = 0;
  };
  /// The parts for `piece_call` of the ranks on a device. Pieces from one rank to another go one
  /// after the other, in the order of the list.
  [[nodiscard]] part_list parts_of(std::size_t position,
                                   std::vector<device_piece> const& pieces) const {
    std::map<std::uint32_t, std::vector<piece_part>> by_end;
    for (auto const& one : pieces) {
      if (where_.position_of(one.rank) != position) continue;
      auto end = one.sends ? layout_.first_end(one.rank, one.peer, true)
                           : layout_.first_end(one.peer, one.rank, false);
      std::size_t const most = layout_.part_bytes(one.bytes);
      std::size_t begin = 0;
      do {  // a piece without bytes also has a part
        std::size_t const bytes = std::min(most, one.bytes - begin);
        by_end[end].push_back({one.data + begin, bytes, one.bytes, end, 0});
        begin += bytes;
        ++end;
      } while (begin < one.bytes);
    }
    part_list result;
    for (auto const& [end, parts] : by_end) result.parts.push_back(parts[0]);
    result.connections = static_cast<std::uint32_t>(result.parts.size());
    std::size_t first = 0;
    for (auto const& [end, parts] : by_end) {
      std::size_t before = first++;
      for (std::size_t k = 1; k < parts.size(); ++k) {
        result.parts[before].next = static_cast<std::uint32_t>(result.parts.size());
        before = result.parts.size();
        result.parts.push_back(parts[k]);
      }
    }
    return result;
  }
  static void agree_on(host_processes& others, pair_options const& wanted) {
    detail::hash mine;
    mine.add(std::uint64_t{wanted.ways});
    mine.add(std::uint64_t{wanted.most_bytes});
    for (auto const theirs : others.gather("sends and receives: options", mine.value())) {
      expects(theirs == mine.value(),
              "prepare_pairs: pair_options differ between processes, expected the same");
    }
  }
  /// The place of a device of this process.
  [[nodiscard]] std::size_t place(std::size_t position) const {
    return static_cast<std::size_t>(where_.first_place) + position;
  }
  [[nodiscard]] std::size_t place_of(int rank) const {
    return static_cast<std::size_t>(where_.place_of[static_cast<std::size_t>(rank)]);
  }
  [[nodiscard]] pair_end* ends(std::size_t position) const {
    return reinterpret_cast<pair_end*>(memory_.own(position) + layout_.bytes_at(place(position)));
  }

  // Exchanges which devices open the memory of which others, so that all processes know.
  void report_who_reaches() {
    static_assert(device_call::most_ranks <= 64, "places are bits of a word");
    std::array<std::uint64_t, device_call::most_ranks> own{};
    for (std::size_t k = 0; k < where_.devices.size(); ++k) {
      for (std::size_t there = 0; there < where_.places.size(); ++there) {
        if (memory_.seen(k, there) != nullptr) own[place(k)] |= std::uint64_t{1} << there;
      }
    }
    for (auto const& theirs : others_.gather("sends and receives: who reaches whom", own)) {
      for (std::size_t k = 0; k < own.size(); ++k) reached_[k] |= theirs[k];
    }
  }

  [[nodiscard]] std::vector<pair_end> make_ends(std::size_t position) const {
    auto* const there = ends(position);
    std::vector<pair_end> result;
    for (auto const& one : layout_.ends_of(place(position))) {
      auto& made = result.emplace_back();
      made.judges = one.is_first;
      made.end.peer = one.sends ? one.receiver : one.sender;
      made.end.sends = one.sends;
      made.connection.sender = one.sender;
      made.connection.receiver = one.receiver;
      made.connection.window = layout_.window();
      made.connection.slot_bytes = layout_.stride();
      auto* const own_end = &there[result.size() - 1].end;
      (one.sends ? made.work.out : made.work.in) = own_end;
      (one.sends ? made.work.out_count : made.work.in_count) = 1;
      made.work.reads_input = one.sends;
      made.work.writes_output = !one.sends;
      std::byte* const memory = memory_.seen(position, place_of(one.receiver));
      if (memory == nullptr) continue;  // `check` refuses it
      made.head = reinterpret_cast<pair_head*>(memory + one.head);
      made.connection.use(&made.head->counters);
      made.connection.slots = memory + one.slots;
    }
    return result;
  }

  // The memory of a process that has died may be gone.
  [[nodiscard]] std::optional<collective_error> find_difference(std::size_t position,
                                                                pair_end const& one) {
    int const owner = where_.of_rank(one.connection.receiver).process;
    if (!one.judges || one.head == nullptr || !others_.loss_of(owner).empty()) return std::nullopt;
    pair_head now;
    driver_.read(where_.devices[position], &now, one.head, sizeof now);
    if (observe(now.is_refused) == 0) return std::nullopt;
    return collective_error("ranks disagree: " + where_.name(one.connection.sender) + " sends " +
                                std::to_string(now.sent) + " bytes to " +
                                where_.name(one.connection.receiver) + ", which expects " +
                                std::to_string(now.expected),
                            one.connection.receiver, one.connection.sender, -1, -1, true);
  }
  [[nodiscard]] collective_error describe(pair_end const& one) const {
    bool const sends = one.end.sends;
    int const rank = sends ? one.connection.sender : one.connection.receiver;
    int const process = where_.of_rank(one.end.peer).process;
    auto const lost = others_.loss_of(process);
    std::string const peer = where_.name(one.end.peer);
    std::string const absence = lost.empty() ? "" : "; " + others_.name(process) + " " + lost;
    double const seconds = std::chrono::duration<double>(others_.deadline()).count();
    return {where_.name(rank) + (sends ? " sends " : " receives ") + std::to_string(one.whole) +
                " bytes, message " + std::to_string(one.work.done) + " of " +
                std::to_string(one.work.chunks) + ": waits for " + peer +
                (sends ? " to take it" : " to send it") + absence + " (waited " +
                std::to_string(seconds) + " s)",
            rank, one.end.peer, -1, static_cast<long long>(one.work.done)};
  }

  Devices& driver_;
  rank_placement const& where_;
  host_processes& others_;
  pair_layout layout_;
  reachable_memory<Devices> memory_;                              // counters, slots, ends
  std::array<std::uint64_t, device_call::most_ranks> reached_{};  // by place: places, as bits
  std::vector<std::vector<pair_end>> images_;                     // by device of this process
  piece_lists<Devices> lists_;
};

}}  // namespace blink::BLINK_ABI
