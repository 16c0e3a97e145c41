// SPDX-License-Identifier: Apache-2.0
#pragma once

// Communicators of processes on one host. They use shared memory, which is faster than messages of
// the MPI library.

#include <blink/core/error.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/host/host_wait.hpp>
#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace blink_pmpi {

/// A receive that no message matches. A test of it lets the library progress its other operations.
/// A probe does not, if there is a message.
class idle_receive {
 public:
  /// own: a communicator of this rank alone without other users; it outlives this object
  explicit idle_receive(MPI_Comm own) { PMPI_Irecv(nullptr, 0, MPI_BYTE, 0, 0, own, &request_); }
  idle_receive(idle_receive const&) = delete;
  idle_receive& operator=(idle_receive const&) = delete;
  ~idle_receive() {
    if (request_ == MPI_REQUEST_NULL) return;
    PMPI_Cancel(&request_);
    PMPI_Wait(&request_, MPI_STATUS_IGNORE);
  }
  void ask() {
    int is_done = 0;
    PMPI_Test(&request_, &is_done, MPI_STATUS_IGNORE);
  }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// A wait in which the MPI library's other operations progress, as programs expect of a collective.
/// Another rank may be in a send to this one, and enter the call only afterwards.
class attentive_wait {
 public:
  attentive_wait(blink::process_communicator const& host_comm, idle_receive& library)
      : waits_(host_comm.waits()), library_(&library) {}

  [[nodiscard]] blink::status on_progress() {
    rounds_ = 0;
    return waits_.on_progress();
  }
  [[nodiscard]] blink::status on_idle() {
    ++rounds_;
    // Ranks that arrive in time should not pay for tests of the library.
    if (rounds_ > soon && (rounds_ > late || rounds_ % seldom == 0)) library_->ask();
    return waits_.on_idle();
  }
  [[nodiscard]] static std::uint64_t now() { return blink::host_wait::now(); }

 private:
  static constexpr int soon = 64, seldom = 8, late = 4096;

  blink::host_wait waits_;
  idle_receive* library_;
  std::uint64_t rounds_ = 0;
};

/// One rank of a communicator on a host.
class host_communicator : public blink::process_communicator {
 public:
  host_communicator(std::string const& path, int rank, blink::communicator_options const& options,
                    MPI_Comm own)
      : blink::process_communicator(path, rank, options),
        library_(std::make_unique<idle_receive>(own)) {}
  [[nodiscard]] attentive_wait waits() const { return {*this, *library_}; }

 private:
  std::unique_ptr<idle_receive> library_;
};
static_assert(blink::communicator<host_communicator>);

/// The shared memory of a communicator's ranks, and this rank in it.
class host_part {
 public:
  /// Makes the memory. Collective over a communicator whose ranks have the same `host_id`. Returns
  /// null on all ranks if the system refuses the memory on one.
  ///
  /// own: see `idle_receive`
  [[nodiscard]] static std::unique_ptr<host_part> begin(MPI_Comm comm, MPI_Comm own,
                                                        blink::communicator_options options) {
    std::unique_ptr<host_part> result(new host_part);
    int rank = 0, ranks = 0;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    std::array<char, 64> path{};
    if (rank == 0) {
      result->attempt([&] {
        result->made_.emplace(blink::shared_segment::create(ranks, bytes_for(ranks)));
        result->made_->path().copy(path.data(), path.size() - 1);
      });
    }
    PMPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 0, comm);
    // A rank's slots for all peers together take as much as for four ranks with 256 KiB each,
    // unless slots would be smaller than `least_slot`.
    options.slot_bytes = std::max<std::size_t>(
        least_slot, std::min(options.slot_bytes, most_slots / static_cast<std::size_t>(ranks)));
    // short, because the rank also serves the library
    options.waits.sleep = std::chrono::microseconds(50);
    result->attempt([&] { result->me_.emplace(std::string(path.data()), rank, options, own); });
    int const begins = result->has_failed_ ? 0 : 1;
    int all_begin = 0;
    PMPI_Allreduce(&begins, &all_begin, 1, MPI_INT, MPI_MIN, comm);
    if (all_begin == 0) result.reset();
    return result;
  }
  [[nodiscard]] host_communicator& host_comm() { return *me_; }

 private:
  static constexpr std::size_t least_slot = std::size_t{16} << 10;
  static constexpr std::size_t most_slots = std::size_t{1} << 20;

  host_part() = default;

  template <class Step>
  void attempt(Step const& step) {
    try {
      if (!has_failed_) step();
    } catch (blink::error const&) {
      has_failed_ = true;
    }
  }
  /// Size of the address range; only used pages take memory.
  [[nodiscard]] static std::size_t bytes_for(int ranks) {
    auto const n = static_cast<std::size_t>(ranks);
    return std::min(blink::shared_segment::default_bytes(), (std::size_t{32} << 20) * n * n);
  }

  bool has_failed_ = false;
  // Kept open: a process that closes any of its files of this memory counts as dead.
  std::optional<blink::shared_segment> made_;
  std::optional<host_communicator> me_;  // destroyed first
};

}  // namespace blink_pmpi
