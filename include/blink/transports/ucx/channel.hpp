// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/messages/message_channel.hpp>
#include <blink/transports/ucx/ucx_network.hpp>

#include <ucp/api/ucp.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Messages over UCX: `message_channel` for ranks whose death does not end the other ranks. UCX
/// takes the fastest network that there is, TCP at the least.
///
/// A tag of UCX has the number of the channel (32 bits), the sender (16 bits) and the tag of the
/// message (16 bits).
class ucx_channel {
 public:
  static constexpr char const* name = "UCX";
  static constexpr char const* communicator_name = "ucx_communicator";
  static constexpr bool is_independent = true;  ///< see `independent_channel`
  [[nodiscard]] static communicator_options default_options() { return message_options(); }

  /// An operation of UCX.
  struct request {
    void* handle = nullptr;  ///< null: it has ended
    bool is_open = false;    ///< true until `is_done` has returned true
    bool receives = false;
    bool is_cancelled = false;
    [[nodiscard]] bool is_pending() const { return is_open; }
  };

  /// A channel of all processes of a bootstrap, such as `file_bootstrap` or `mpi_bootstrap`, which
  /// exchanges the addresses and is not used afterwards. Collective.
  ///
  /// Throws: precondition_error for more than 65536 processes; resource_error if UCX refuses; what
  ///         the bootstrap throws.
  template <process_bootstrap Bootstrap>
  explicit ucx_channel(Bootstrap& all)
      : network_(std::make_shared<detail::ucx_network>(all)),
        members_(static_cast<std::size_t>(network_->process_count())),
        rank_(network_->process()) {
    std::iota(members_.begin(), members_.end(), 0);
  }

  /// See `message_channel`. Throws: error if a member is lost or does not answer.
  [[nodiscard]] ucx_channel duplicate() {
    std::vector<int> all(members_.size());
    std::iota(all.begin(), all.end(), 0);
    return among(all);
  }
  [[nodiscard]] ucx_channel among(std::vector<int> const& members) {
    ucx_channel result(*this);
    result.number_ = agree_on_number(members);
    result.members_.clear();
    for (int const member : members) result.members_.push_back(process_of(member));
    result.rank_ =
        static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
    return result;
  }
  ucx_channel(ucx_channel&&) noexcept = default;
  ucx_channel& operator=(ucx_channel&&) = delete;
  ~ucx_channel() = default;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rank_count() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] int largest_tag() const { return number_tag - 1; }
  [[nodiscard]] static std::uint64_t host() { return host_id(); }
  [[nodiscard]] std::size_t eager_bytes() const { return eager; }
  [[nodiscard]] bool is_intact() const { return problem_.empty(); }
  /// The error that broke the channel.
  [[nodiscard]] std::string const& problem() const { return problem_; }

  void send(void const* data, std::size_t bytes, int peer, int tag, request& operation) {
    operation = {nullptr, true, false, false};
    std::lock_guard const held(network_->using_it());
    auto const endpoint = is_intact() ? network_->endpoint_to(process_of(peer)) : nullptr;
    if (endpoint == nullptr) return;  // a send to a lost peer is done
    ucp_request_param_t how{};
    keep(ucp_tag_send_nbx(endpoint, data, bytes, tag_of(rank_, tag), &how), operation);
  }
  void receive(void* data, std::size_t bytes, int peer, int tag, request& operation) {
    receive(data, bytes, tag_of(peer, tag), ~std::uint64_t{0}, operation);
  }
  void receive_from_any(void* data, std::size_t bytes, int tag, request& operation) {
    receive(data, bytes, tag_of(0, tag), ~sender_mask, operation);
  }
  /// True if the operation is complete, or if there is none. Completion frees the request.
  [[nodiscard]] bool is_done(request& operation) {
    if (!operation.is_pending()) return true;
    if (!is_intact()) return false;
    std::lock_guard const held(network_->using_it());
    return is_done_now(operation);
  }
  void cancel(request& operation) {
    if (operation.handle == nullptr || !operation.receives) return;
    operation.is_cancelled = true;
    std::lock_guard const held(network_->using_it());
    if (ucp_request_check_status(operation.handle) == UCS_INPROGRESS) {
      ucp_request_cancel(network_->worker(), operation.handle);
    }
  }
  void drop_unmatched(int kept) {
    std::lock_guard const held(network_->using_it());
    std::vector<std::byte> waste;
    for (network_->progress(); is_intact();) {
      ucp_tag_recv_info_t info{};
      auto const first =
          ucp_tag_probe_nb(network_->worker(), channel_bits(), channel_mask, 0, &info);
      if (first == nullptr || static_cast<int>(info.sender_tag & tag_mask) == kept) return;
      auto const message =
          ucp_tag_probe_nb(network_->worker(), info.sender_tag, ~std::uint64_t{0}, 1, &info);
      if (message == nullptr) return;
      waste.resize(info.length);
      ucp_request_param_t how{};
      request one{nullptr, true, true, false};
      keep(ucp_tag_msg_recv_nbx(network_->worker(), waste.data(), waste.size(), message, &how),
           one);
      int const from = static_cast<int>(info.sender_tag >> 16 & 0xffff);
      while (is_intact() && !is_done_now(one)) {
        if (is_lost(from)) one.is_cancelled = true;
      }
    }
  }

  /// See `loss_tolerant_channel`.
  [[nodiscard]] bool is_lost(int peer) const { return network_->is_lost(process_of(peer)); }
  void abandon(int peer) {
    std::lock_guard const held(network_->using_it());
    network_->lose(process_of(peer));
  }

 private:
  static constexpr int number_tag = 0xffff;  // of the numbers of new channels
  static constexpr std::uint64_t tag_mask = 0xffff, sender_mask = std::uint64_t{0xffff} << 16;
  static constexpr std::uint64_t channel_mask = ~std::uint64_t{0} << 32;
  static constexpr std::size_t eager = 8000;  // below the limits of UCX for TCP

  ucx_channel(ucx_channel const&) = default;

  [[nodiscard]] int process_of(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::uint64_t channel_bits() const { return std::uint64_t{number_} << 32; }
  [[nodiscard]] std::uint64_t tag_of(int sender, int tag) const {
    return channel_bits() | static_cast<std::uint64_t>(sender) << 16 |
           static_cast<std::uint64_t>(tag);
  }
  [[nodiscard]] static std::string text_of(ucs_status_t status) {
    return ucs_status_string(status);
  }

  void receive(void* data, std::size_t bytes, std::uint64_t tag, std::uint64_t mask,
               request& operation) {
    operation = {nullptr, true, true, false};
    if (!is_intact()) return;
    std::lock_guard const held(network_->using_it());
    ucp_request_param_t how{};
    keep(ucp_tag_recv_nbx(network_->worker(), data, bytes, tag, mask, &how), operation);
  }
  [[nodiscard]] std::uint32_t next_number() {
    std::lock_guard const held(network_->using_it());
    return network_->next_channel();
  }
  // Pre: this thread holds the network.
  [[nodiscard]] bool is_done_now(request& operation) {
    auto const status_now = [&] {
      return operation.handle == nullptr ? UCS_OK : ucp_request_check_status(operation.handle);
    };
    auto status = status_now();
    if (status == UCS_INPROGRESS) {
      network_->progress();
      status = status_now();
    }
    if (status == UCS_INPROGRESS) return false;
    // Without its message a receive is pending until it is cancelled. The sender is lost.
    if (operation.receives && status != UCS_OK && !operation.is_cancelled) {
      if (status == UCS_ERR_MESSAGE_TRUNCATED) problem_ = "ucp_tag_recv_nbx: " + text_of(status);
      return false;
    }
    if (operation.handle != nullptr) ucp_request_free(operation.handle);
    operation = {};
    return true;
  }
  // Pre: this thread holds the network. Null: the operation has ended.
  void keep(ucs_status_ptr_t started, request& operation) {
    if (UCS_PTR_IS_PTR(started)) {
      operation.handle = started;
    } else if (UCS_PTR_IS_ERR(started) && operation.receives) {
      problem_ = "ucp_tag_recv_nbx: " + text_of(UCS_PTR_STATUS(started));
    }  // a send fails if its peer is lost, which the error handler reports
  }

  // The first member chooses the number of a new channel and sends it to the others.
  [[nodiscard]] std::uint32_t agree_on_number(std::vector<int> const& members) {
    constexpr std::chrono::seconds longest{30};
    struct agreement {
      std::uint32_t number = 0;
      std::vector<request> operations;  // by member, with it
    };
    auto all = std::make_unique<agreement>();
    all->operations.resize(members.size());
    if (members.front() == rank_) {
      all->number = next_number();
      for (std::size_t k = 1; k < members.size(); ++k) {
        send(&all->number, sizeof all->number, members[k], number_tag, all->operations[k]);
      }
    } else {
      receive(&all->number, sizeof all->number, members.front(), number_tag, all->operations[0]);
    }
    auto const refuse = [&](std::string const& fact) {
      throw error(detail::communicator_text<ucx_channel>("a new communicator: " + fact));
    };
    auto const end = std::chrono::steady_clock::now() + longest;
    for (std::size_t k = 0; k < members.size(); ++k) {
      while (!is_done(all->operations[k])) {
        bool const is_late = std::chrono::steady_clock::now() > end;
        if (is_intact() && !is_late && !is_lost(members[k])) {
          std::this_thread::yield();
          continue;
        }
        static_cast<void>(all.release());  // UCX may still use it
        refuse(is_intact()
                   ? "rank " + std::to_string(members[k]) +
                         (is_late ? " does not answer" : " is lost") + ", expected all its ranks"
                   : problem_);
      }
    }
    if (all->number == 0) {
      refuse("rank " + std::to_string(members.front()) +
             " has made 65535 channels, expected no more");
    }
    return all->number;
  }

  std::shared_ptr<detail::ucx_network> network_;
  std::vector<int> members_;  // by rank of this channel, the process
  int rank_;
  std::uint32_t number_ = 0;
  std::string problem_;
};
static_assert(message_channel<ucx_channel> && loss_tolerant_channel<ucx_channel>);
static_assert(!library_channel<ucx_channel>);

}}  // namespace blink::BLINK_ABI
