// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/detail/mscclpp_scale.hpp>
#include <blink/interop/detail/program_clocks.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/mscclpp_kind.hpp>
#include <blink/interop/mscclpp_program.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The processes of an execution plan: thread blocks, ports, and the users of the ranks. Counters
// pass on what they know.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// An increment of a counter.
struct counter_post {
  std::shared_ptr<process_knowledge const> known;     ///< by the process that posts
  std::shared_ptr<process_knowledge const> at_start;  ///< by its rank, when the call began
  bool is_relaxed = false;
};

/// A semaphore, or the signals that one end of a channel receives: some blocks post, one takes.
///
/// The k-th take waits for the k-th post. Posts of several blocks come in any order. Then the takes
/// of a call know only together what the posts of that call know.
class mscclpp_counter {
 public:
  explicit mscclpp_counter(std::int64_t initial = 0) : initial_(initial) {}

  /// Counts posts that a block has in every call.
  void expect_posts(int block, std::int64_t times) {
    if (posts_of_call_ > 0 && block != poster_) has_one_poster_ = false;
    posts_of_call_ += times;
    poster_ = block;
  }

  /// Posts beyond the takes, without the initial value.
  [[nodiscard]] std::int64_t left() const {
    return static_cast<std::int64_t>(posts_.size()) - taken_;
  }
  [[nodiscard]] bool has_one() const { return initial_ + left() > 0; }
  /// The take before; process -1: none yet.
  [[nodiscard]] process_event const& last_take() const { return last_take_; }

  void post(counter_post next) { posts_.push_back(std::move(next)); }

  /// Takes one. Returns the posts that have certainly come before and may teach anything new.
  /// Pre: has_one().
  [[nodiscard]] std::vector<counter_post> take(process_event const& by) {
    last_take_ = by;
    auto const number = ++taken_ - initial_;  // of the last post that has certainly come
    if (number < 1) return {};
    if (!has_one_poster_ && number % posts_of_call_ != 0) return {};
    auto const last = static_cast<std::size_t>(number);
    auto const first = has_one_poster_ ? last - 1 : released_;
    std::vector<counter_post> result(posts_.begin() + static_cast<std::ptrdiff_t>(first),
                                     posts_.begin() + static_cast<std::ptrdiff_t>(last));
    for (; released_ < last; ++released_) posts_[released_] = {};
    return result;
  }

 private:
  std::int64_t initial_;
  std::int64_t taken_ = 0;
  std::int64_t posts_of_call_ = 0;
  int poster_ = -1;
  bool has_one_poster_ = true;
  std::vector<counter_post> posts_;
  std::size_t released_ = 0;  // posts whose knowledge is no longer needed
  process_event last_take_ = {-1, 0};
};

/// The puts and signals of one block over one port channel, in their order.
struct running_port {
  int process = 0;
  std::uint32_t position = 0;
  process_knowledge known;
};

/// The progress of a thread block.
struct running_thread_block {
  int process = 0;
  int number = 0;  ///< of all blocks of all ranks
  int rank = 0;
  int index = 0;  ///< in its rank
  std::vector<placed_operation> operations = {};
  std::vector<std::vector<mscclpp_move>> moves = {};  ///< by operation
  std::size_t at = 0;
  int iteration = 0;
  process_knowledge known;                     ///< by all threads
  std::map<int, process_knowledge> of_thread;  ///< known by single threads: the k-th of a wait
  std::optional<process_knowledge> arrived;    ///< with packets, since the last sync
  std::uint32_t position = 0;                  ///< of the last event
  std::uint32_t synced = 0;  ///< of the last event before the threads waited for each other
  std::uint32_t phase = 0;
  long gate = -1;  ///< times that the barrier had opened when the block came; -1: it has not come
  std::map<int, running_port> ports = {};  ///< by channel

  [[nodiscard]] bool is_at_end() const { return at == operations.size(); }
  [[nodiscard]] placed_operation const& current() const { return operations[at]; }
  [[nodiscard]] program_place place() const { return current().at(rank, index); }
};

/// A barrier of some blocks of a rank.
struct running_gate {
  int present = 0;
  long openings = 0;
  process_knowledge gathered;  ///< of those that have come
  process_knowledge shared;    ///< of those that have passed
};

/// One end of a rank's channels of one type, by channel.
struct running_channels {
  std::vector<mscclpp_counter> arrived;  ///< signals of the peers
  std::vector<int> at_peer;              ///< number of the channel at the peer; -1: none
};

/// A rank in one of the calls.
struct running_rank {
  int user = 0;  ///< process
  std::uint32_t user_position = 0;
  int call = 0;
  int first_block = 0;
  int unfinished = 0;  ///< blocks
  process_knowledge known;
  std::shared_ptr<process_knowledge const> at_start;
  running_channels memory, port;
  std::vector<mscclpp_counter> semaphores;
  std::map<int, running_gate> gates;

  /// Pre: the type is memory or port.
  [[nodiscard]] running_channels& channels(mscclpp_channel_type type) {
    return type == mscclpp_channel_type::port ? port : memory;
  }
};

/// All processes at the start. Each knows nothing.
class mscclpp_processes {
 public:
  /// Throws: program_fault if there are too many processes to check.
  mscclpp_processes(mscclpp_program const& program, mscclpp_scale const& scale)
      : program_(&program), scale_(scale) {
    int processes = add_ranks();
    for (auto& block : blocks) add_ports(block, processes);
    constexpr int most = 8192;  // each knows of each
    if (processes > most) {
      throw program_fault({}, std::to_string(processes) +
                                  " blocks and ports are too many to check, expected " +
                                  std::to_string(most) + " at most");
    }
    nothing = process_knowledge(static_cast<std::size_t>(processes));
    for (auto& rank : ranks) rank.known = nothing;
    for (auto& block : blocks) {
      block.known = nothing;
      for (auto& [channel, port] : block.ports) port.known = nothing;
    }
  }

  std::vector<running_rank> ranks;
  std::vector<running_thread_block> blocks;  ///< of all ranks
  process_knowledge nothing;

  /// The counter that a signal over a rank's channel adds to; null if the channel has no other end.
  [[nodiscard]] mscclpp_counter* other_end(int rank, mscclpp_channel const& channel) {
    auto const here = static_cast<std::size_t>(rank);
    auto const id = static_cast<std::size_t>(channel.id);
    int const end = ranks[here].channels(channel.type).at_peer[id];
    if (end < 0) return nullptr;
    auto const peer = static_cast<std::size_t>(program_->ranks[here].peers(channel.type)[id]);
    return &ranks[peer].channels(channel.type).arrived[static_cast<std::size_t>(end)];
  }

 private:
  /// Makes ranks and blocks. Returns the number of their processes.
  int add_ranks() {
    int processes = 0;
    for (std::size_t r = 0; r < program_->ranks.size(); ++r) {
      auto const& here = program_->ranks[r];
      running_rank rank;
      rank.user = processes++;
      rank.first_block = static_cast<int>(blocks.size());
      for (auto const type : {mscclpp_channel_type::memory, mscclpp_channel_type::port}) {
        rank.channels(type).arrived.resize(here.channel_count(type));
        rank.channels(type).at_peer = ends_of(r, type);
      }
      for (int s = 0; s < here.semaphores; ++s) {
        rank.semaphores.emplace_back(here.semaphore_value(s));
      }
      for (std::size_t b = 0; b < here.blocks.size(); ++b) {
        running_thread_block block;
        block.process = processes++;
        block.number = static_cast<int>(blocks.size());
        block.rank = static_cast<int>(r);
        block.index = static_cast<int>(b);
        block.operations = operations_of(here.blocks[b]);
        for (auto const& each : block.operations) block.moves.push_back(moves_of(*each.op));
        blocks.push_back(std::move(block));
      }
      ranks.push_back(std::move(rank));
    }
    return processes;
  }

  /// By channel of a rank: the number of its other end. The k-th channel to a peer belongs to that
  /// peer's k-th channel back.
  [[nodiscard]] std::vector<int> ends_of(std::size_t r, mscclpp_channel_type type) const {
    std::vector<int> result;
    std::map<int, int> seen;  // by peer
    for (int const peer : program_->ranks[r].peers(type)) {
      int number = seen[peer]++;
      auto const& back = program_->ranks[static_cast<std::size_t>(peer)].peers(type);
      int end = -1;
      for (std::size_t c = 0; c < back.size() && end < 0; ++c) {
        if (back[c] == static_cast<int>(r) && number-- == 0) end = static_cast<int>(c);
      }
      result.push_back(end);
    }
    return result;
  }

  /// Makes the block's ports, and counts the posts of each counter in a call.
  void add_ports(running_thread_block& block, int& processes) {
    for (auto const& each : block.operations) {
      auto const& op = *each.op;
      auto const times =
          each.loop == nullptr ? std::int64_t{1} : iterations(*program_, scale_, *each.loop);
      for (auto const& channel : op.channels) {
        bool const is_port = channel.type == mscclpp_channel_type::port;
        if (is_port && !waits(op.kind) && !block.ports.contains(channel.id)) {
          block.ports[channel.id].process = processes++;
        }
        if (!signals(op.kind)) continue;
        auto* const counter = other_end(block.rank, channel);
        if (counter != nullptr) counter->expect_posts(block.number, times);
      }
      if (op.kind != mscclpp_kind::release) continue;
      auto& semaphores = ranks[static_cast<std::size_t>(block.rank)].semaphores;
      for (int const s : op.semaphores) {
        semaphores[static_cast<std::size_t>(s)].expect_posts(block.number, times);
      }
    }
  }

  mscclpp_program const* program_;
  mscclpp_scale scale_;
};

}}}  // namespace blink::BLINK_ABI::detail
