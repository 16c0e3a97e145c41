// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/zero_copy.hpp>
#include <blink/transports/mpi/channel.hpp>
#include <blink/transports/mpi/connections.hpp>
#include <blink/transports/mpi/notices.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The MPI library's own eager limit: the largest message that it sends before a receive is posted,
/// in bytes.
///
/// The result is one of 1000, 2000, 4000, … 32000, or 0. A larger message begins with a handshake,
/// which takes several times as long as a short message. The limit differs between libraries and
/// networks.
///
/// Collective: all ranks get the least result of all ranks. The channel must have no other
/// messages.
///
/// Moves: six messages from each rank to the next one, three barriers and an all-reduce. No receive
///        is posted meanwhile. The limit is the largest message that completes then.
[[nodiscard]] inline std::size_t eager_bytes_of(mpi_channel& channel) {
  constexpr std::array<std::size_t, 6> sizes{1000, 2000, 4000, 8000, 16000, 32000};
  constexpr int tag = 0;
  int const ranks = channel.rank_count();
  if (ranks < 2) return sizes.back();
  int const next = (channel.rank() + 1) % ranks;
  int const previous = (channel.rank() + ranks - 1) % ranks;
  auto const meet = [&] {
    if (channel.is_intact()) MPI_Barrier(channel.comm());
  };
  auto const finish = [&](MPI_Request& request) {
    while (channel.is_intact() && !channel.is_done(request)) {
    }
  };
  std::vector<std::byte> sent(sizes.back()), received(sizes.back());
  std::array<MPI_Request, sizes.size()> sends{}, receives{};
  sends.fill(MPI_REQUEST_NULL);
  receives.fill(MPI_REQUEST_NULL);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    channel.send(sent.data(), sizes[k], next, tag, sends[k]);
  }
  meet();  // the next rank has probed its messages, and answered
  meet();
  std::size_t left = 0;
  for (int tests = 0; tests < 64; ++tests) {
    while (left < sizes.size() && channel.is_done(sends[left])) ++left;
  }
  unsigned long long const largest = left > 0 ? sizes[left - 1] : 0;
  meet();  // no rank has received anything before
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    channel.receive(received.data(), sizes[k], previous, tag, receives[k]);
    finish(receives[k]);
  }
  for (auto& request : sends) finish(request);
  unsigned long long least = 0;
  if (channel.is_intact()) {
    MPI_Allreduce(&largest, &least, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, channel.comm());
  }
  return static_cast<std::size_t>(least);
}

namespace detail {

/// The eager limit of a rank in bytes. It is below the size that would take trees without slots,
/// because copying a larger payload costs more than the steps of those trees.
[[nodiscard]] inline std::size_t largest_eager_bytes(int rank_count, std::size_t with_two,
                                                     std::size_t zero_copy_threshold,
                                                     std::size_t steps) {
  auto const peers = static_cast<std::size_t>(std::max(1, rank_count - 1));
  std::size_t const most = with_two / peers;
  if (zero_copy_threshold > most) return most;
  return std::min(most, std::max<std::size_t>(1, zero_copy_threshold * peers * steps) - 1);
}

/// The state that a communicator shares with its connections.
struct mpi_state {
  mpi_state(mpi_channel its_channel, std::size_t with_two, std::size_t lent)
      : channel(std::move(its_channel)),
        control(channel.comm()),
        eager_limit_of_two(with_two),
        zero_copy_threshold(lent),
        eager_limits{largest_eager_bytes(channel.rank_count(), with_two, lent, 1),
                     largest_eager_bytes(channel.rank_count(), with_two, lent, 2)},
        notices(channel, control, eager_limits.back(), eager_bytes_of(channel)) {}

  [[nodiscard]] std::size_t eager_limit_of(collective kind) const {
    return eager_limits[has_reduce_phase(kind) && has_broadcast_phase(kind) ? 1 : 0];
  }

  mpi_channel channel;
  mpi_channel control;              // separate, so that libraries search no receives of connections
  std::size_t eager_limit_of_two;   // eager limit with two ranks, in bytes
  std::size_t zero_copy_threshold;  // smallest message for zero copy, in bytes
  std::array<std::size_t, 2> eager_limits;  // in bytes, by the steps of the trees: one, two
  mpi_notices notices;
  bool is_one_host = false;  // of all ranks
  std::atomic<void const*> active_queue = nullptr;
};

}  // namespace detail

/// The transport of an MPI communicator, which copies data through messages.
class mpi_transport {
 public:
  static constexpr char const* name = "MPI";  ///< in tuning tables
  static constexpr bool reaches = false;
  static constexpr bool is_shaped = false;

  mpi_transport() = default;
  mpi_transport(detail::mpi_state& state, mpi_connections& connections)
      : state_(&state), connections_(&connections) {}

  [[nodiscard]] int rank() const { return state_->channel.rank(); }
  [[nodiscard]] int rank_count() const { return state_->channel.rank_count(); }
  [[nodiscard]] std::size_t slot_bytes() const { return connections_->slot_bytes(); }
  [[nodiscard]] bool is_present(int peer) const {
    return peer == rank() || state_->notices.is_present(peer);
  }
  [[nodiscard]] bool is_aborted() const { return state_->notices.is_aborted(); }

  [[nodiscard]] bool has_credit(std::uint32_t connection, std::uint64_t message) const {
    return connections_->has_credit(connection, message);
  }
  [[nodiscard]] std::byte* outbox(std::uint32_t connection, std::uint64_t message) const {
    return connections_->place(connection, message);
  }
  void post(std::uint32_t connection, std::uint64_t message, std::size_t bytes) const {
    connections_->post(connection, message, bytes);
  }
  [[nodiscard]] bool has_arrived(std::uint32_t connection, std::uint64_t message) const {
    return connections_->has_arrived(connection, message);
  }
  [[nodiscard]] std::byte const* inbox(std::uint32_t connection, std::uint64_t message) const {
    return connections_->place(connection, message);
  }
  void consume(std::uint32_t connection, std::uint64_t message) const {
    connections_->consume(connection, message);
  }
  [[nodiscard]] bool consumed(std::uint32_t connection, std::uint64_t message) const {
    return connections_->consumed(connection, message);
  }

  [[nodiscard]] std::size_t zero_copy_threshold() const { return state_->zero_copy_threshold; }
  void send_in_place(std::uint32_t connection, chunk_run const& run, bool lands) const {
    connections_->send_in_place(connection, run, lands);
  }
  void receive_in_place(std::uint32_t connection, chunk_run const& run, bool is_input) const {
    connections_->receive_in_place(connection, run, is_input);
  }
  [[nodiscard]] bool has_left(std::uint32_t connection, std::uint64_t message) const {
    return connections_->has_left(connection, message);
  }

 protected:
  [[nodiscard]] shared_connection const& connection_at(std::uint32_t connection) const {
    return connections_->prepared().tables().connections()[connection];
  }
  [[nodiscard]] std::uint64_t latency_nanoseconds() const {
    return connections_->prepared().latency_nanoseconds();
  }

 private:
  detail::mpi_state* state_ = nullptr;
  mpi_connections* connections_ = nullptr;
};
static_assert(zero_copy_transport<mpi_transport> && !reaching_transport<mpi_transport>);

}}  // namespace blink::BLINK_ABI
