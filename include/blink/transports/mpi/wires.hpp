// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/lane.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/transports/mpi/channel.hpp>
#include <blink/transports/mpi/notices.hpp>
#include <blink/transports/prepared_schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace blink::inline BLINK_ABI {

/// The wires of one rank along one schedule as MPI messages with credits: for every slot of a wire
/// its receiver has posted a receive before the sender may use it, so that no message is unexpected
/// and memory stays bounded.
///
/// A credit is a message in the other direction that says how far the receiver has come. It is sent
/// for each half window that was taken; a peer that has entered a later call has taken everything
/// of the calls before, so calls of few chunks need none.
class mpi_wires {
 public:
  /// Tags used from `first_tag` on: two kinds of message for each phase of each tree.
  [[nodiscard]] static int tag_count(prepared_schedule const& plan) {
    return static_cast<int>(4 * plan.source().trees.size());
  }

  mpi_wires(mpi_channel& channel, mpi_notices& notices, prepared_schedule& plan, int first_tag)
      : channel_(&channel), notices_(&notices), plan_(&plan), first_tag_(first_tag) {
    auto const& tables = plan.tables();
    window_ = tables.layout().window;
    slot_bytes_ = tables.layout().slot_bytes;
    batch_ = std::max<std::uint64_t>(1, window_ / 2);
    of_wire_.assign(tables.wire_count(), nullptr);
    auto const [ends, count] = tables.ends(channel.rank());
    ends_.resize(count);
    for (std::size_t k = 0; k < count; ++k) {
      auto const& from = ends[k];
      auto const& place = tables.places()[from.wire];
      auto& end = ends_[k];
      end.table = &from;
      end.slots = tables.wires()[from.wire].slots;
      end.tag = first_tag + static_cast<int>(4 * place.tree) + (place.is_reduce ? 0 : 1);
      end.requests.assign(window_, MPI_REQUEST_NULL);
      end.credits.resize(from.sends ? 1 : 2 * window_);
      of_wire_[from.wire] = &end;
      if (!is_known(from.peer)) neighbours_.push_back(from.peer);
    }
    constexpr int few = 16;
    if (channel.rank_count() <= few) {  // then everyone learns from everyone what is called
      neighbours_.clear();
      for (int peer = 0; peer < channel.rank_count(); ++peer) {
        if (peer != channel.rank()) neighbours_.push_back(peer);
      }
    }
  }
  mpi_wires(mpi_wires const&) = delete;
  mpi_wires& operator=(mpi_wires const&) = delete;

  [[nodiscard]] prepared_schedule const& plan() const { return *plan_; }
  [[nodiscard]] int first_tag() const { return first_tag_; }
  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }
  /// Whom this rank tells of its calls.
  [[nodiscard]] std::vector<int> const& neighbours() const { return neighbours_; }

  /// Before the first message of a call.
  void begin_call() {
    for (auto& end : ends_) {
      end.call_first = end.table->first;
      if (end.table->sends) {
        read_credits(end);
      } else if (!end.is_open) {
        for (std::uint64_t message = 0; message < window_; ++message) await(end, message);
      }
      if (!end.is_open && end.table->sends) await_credit(end);
      end.is_open = true;
    }
  }

  [[nodiscard]] bool has_room(std::uint32_t wire, std::uint64_t message) {
    auto& end = *of_wire_[wire];
    if (message >= end.taken + window_) {
      if (end.call_first > end.taken && notices_->is_present(end.table->peer)) {
        end.taken = end.call_first;
      } else {
        read_credits(end);
      }
      if (message >= end.taken + window_) return false;
    }
    return channel_->is_done(end.requests[message % window_]);
  }
  [[nodiscard]] std::byte* slot(std::uint32_t wire, std::uint64_t message) const {
    return of_wire_[wire]->slots + message % window_ * slot_bytes_;
  }
  void post(std::uint32_t wire, std::uint64_t message, std::size_t bytes) {
    auto& end = *of_wire_[wire];
    channel_->send(slot(wire, message), bytes, end.table->peer, end.tag,
                   end.requests[message % window_]);
  }
  [[nodiscard]] bool has_arrived(std::uint32_t wire, std::uint64_t message) {
    auto& end = *of_wire_[wire];
    if (message < end.arrived) return true;
    give_credit(end);  // one that could not be sent before
    // Messages match in the order in which they were sent.
    while (message >= end.arrived && end.arrived < end.taken + window_ &&
           channel_->is_done(end.requests[end.arrived % window_])) {
      ++end.arrived;
    }
    return message < end.arrived;
  }
  void take(std::uint32_t wire, std::uint64_t message) {
    auto& end = *of_wire_[wire];
    for (; end.taken <= message; ++end.taken) await(end, end.taken + window_);
    give_credit(end);
  }
  [[nodiscard]] bool was_taken(std::uint32_t wire, std::uint64_t message) {
    auto& end = *of_wire_[wire];
    if (message >= end.taken) read_credits(end);
    return message < end.taken;
  }

  /// Is nothing under way from this rank any more?
  [[nodiscard]] bool is_quiet() {
    bool result = true;
    for (auto& end : ends_) {
      if (end.table->sends) {
        for (auto& request : end.requests) result = channel_->is_done(request) && result;
      } else {
        for (auto& sent : end.credits) result = channel_->is_done(sent.request) && result;
      }
    }
    return result;
  }
  /// Takes back what waits for messages that will not come.
  void close() {
    for (auto& end : ends_) {
      if (!end.is_open) continue;
      if (end.table->sends) {
        channel_->take_back(end.credits[0].request);
      } else {
        for (auto& request : end.requests) channel_->take_back(request);
      }
    }
  }

 private:
  struct credit {
    std::uint64_t taken = 0;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct wire_state {
    wire_end const* table = nullptr;
    std::byte* slots = nullptr;
    int tag = 0;
    bool is_open = false;
    std::uint64_t call_first = 0;       // of the present call
    std::uint64_t taken = 0;            // the sender knows of, or the receiver has
    std::uint64_t arrived = 0;          // receivers
    std::uint64_t credited = 0;         // receivers: what the last credit said
    std::uint64_t credits_sent = 0;     // receivers
    std::vector<MPI_Request> requests;  // by slot
    std::vector<credit> credits;        // senders receive one at a time, receivers send several
  };

  static constexpr int credit_tags = 2;  // from the tag of a wire to that of its credits

  [[nodiscard]] bool is_known(int peer) const {
    return std::find(neighbours_.begin(), neighbours_.end(), peer) != neighbours_.end();
  }
  void await(wire_state& end, std::uint64_t message) {
    channel_->receive(end.slots + message % window_ * slot_bytes_, slot_bytes_, end.table->peer,
                      end.tag, end.requests[message % window_]);
  }
  void await_credit(wire_state& end) {
    auto& next = end.credits[0];
    channel_->receive(&next.taken, sizeof(next.taken), end.table->peer, end.tag + credit_tags,
                      next.request);
  }
  void read_credits(wire_state& end) {
    auto& next = end.credits[0];
    while (next.request != MPI_REQUEST_NULL && channel_->is_done(next.request)) {
      end.taken = std::max(end.taken, next.taken);
      await_credit(end);
    }
  }
  void give_credit(wire_state& end) {
    // Within a call: what was taken in the calls before is known from this one's beginning.
    if (end.credited < end.call_first) end.credited = end.call_first;
    if (end.taken < end.credited + batch_) return;
    auto& next = end.credits[end.credits_sent % end.credits.size()];
    if (!channel_->is_done(next.request)) return;
    end.credited = next.taken = end.taken;
    ++end.credits_sent;
    channel_->send(&next.taken, sizeof(next.taken), end.table->peer, end.tag + credit_tags,
                   next.request);
  }

  mpi_channel* channel_;
  mpi_notices* notices_;
  prepared_schedule* plan_;
  int first_tag_;
  std::uint64_t window_ = 0;
  std::uint64_t batch_ = 1;
  std::size_t slot_bytes_ = 0;
  std::vector<wire_state> ends_;
  std::vector<wire_state*> of_wire_;
  std::vector<int> neighbours_;
};

}  // namespace blink::inline BLINK_ABI
