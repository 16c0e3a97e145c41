// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/communicator.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// MPI no longer contains the C++ bindings that these libraries once had.
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

namespace blink { inline namespace BLINK_ABI {

/// The MPI library's text for an error code.
[[nodiscard]] inline std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  return {text.data(), static_cast<std::size_t>(length)};
}

/// A duplicate of a user's communicator for blink's messages, with its point-to-point calls. They
/// do not throw, because a walk makes them. The first error breaks the channel, which then does
/// nothing more and keeps the reason in `problem`.
class mpi_channel {
 public:
  /// Duplicates the communicator. Collective over `of_user`.
  ///
  /// Throws: precondition_error if MPI is not initialised, `of_user` is no intracommunicator, or
  ///         only another thread may call MPI; error if the MPI library fails.
  explicit mpi_channel(MPI_Comm of_user) {
    expect_usable(of_user);
    begin(MPI_Comm_dup(of_user, &comm_), "MPI_Comm_dup: ");
  }
  /// Makes a channel for the selected ranks, and none for the other ranks. Collective over all
  /// ranks of `whole`.
  ///
  /// Throws: precondition_error if MPI is finalised; error if the MPI library fails.
  mpi_channel(mpi_channel const& whole, rank_selection const& part) {
    expect_not_finalised();
    int const colour = part.members.empty() ? MPI_UNDEFINED : part.members.front();
    begin(MPI_Comm_split(whole.comm_, colour, part.rank, &comm_), "MPI_Comm_split: ");
  }
  /// A channel for the selected ranks of `whole`, of which this is one. Collective over those only:
  /// it waits for no other rank.
  ///
  /// Throws: precondition_error if MPI is finalised; error if the MPI library fails.
  [[nodiscard]] static mpi_channel among(mpi_channel const& whole,
                                         std::vector<int> const& members) {
    expect_not_finalised();
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    MPI_Comm_group(whole.comm_, &all);
    MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some);
    mpi_channel result;
    // Libraries may send messages with this tag, and communicators receive those with lower ones.
    int const code = MPI_Comm_create_group(whole.comm_, some, whole.largest_tag_, &result.comm_);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    result.begin(code, "MPI_Comm_create_group: ");
    return result;
  }
  mpi_channel(mpi_channel&& other) noexcept
      : comm_(std::exchange(other.comm_, MPI_COMM_NULL)),
        rank_(other.rank_),
        rank_count_(other.rank_count_),
        largest_tag_(other.largest_tag_),
        problem_(std::move(other.problem_)) {}
  mpi_channel& operator=(mpi_channel&&) = delete;
  ~mpi_channel() {
    if (comm_ != MPI_COMM_NULL && is_intact() && runs()) MPI_Comm_free(&comm_);
  }

  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rank_count() const { return rank_count_; }
  [[nodiscard]] int largest_tag() const { return largest_tag_; }
  [[nodiscard]] bool is_intact() const { return problem_.empty(); }
  /// The error that broke the channel.
  [[nodiscard]] std::string const& problem() const { return problem_; }
  /// True if MPI is initialised and not finalised.
  [[nodiscard]] static bool runs() {
    int is_initialised = 0;
    int is_finalised = 0;
    MPI_Initialized(&is_initialised);
    MPI_Finalized(&is_finalised);
    return is_initialised != 0 && is_finalised == 0;
  }

  /// Throws: precondition_error if MPI is finalised, because any other call would end the program.
  static void expect_not_finalised() {
    int is_finalised = 0;
    MPI_Finalized(&is_finalised);
    expects(is_finalised == 0, "mpi_communicator: MPI is finalised already, expected it running");
  }
  /// True if MPI was initialised for calls of the main thread only.
  [[nodiscard]] static bool takes_main_thread_alone() {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    return level < MPI_THREAD_SERIALIZED;
  }
  /// Throws: precondition_error unless the main thread calls.
  static void expect_main_thread() {
    int is_main = 1;
    MPI_Is_thread_main(&is_main);
    expects(is_main != 0,
            "mpi_communicator: called by another thread, expected the main thread: MPI was "
            "initialised for it only");
  }
  /// Throws: precondition_error unless any thread may call MPI at any time.
  static void expect_any_thread() {
    expect_not_finalised();
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    expects(level == MPI_THREAD_MULTIPLE,
            "mpi_communicator: another thread makes its calls, expected MPI to be initialised "
            "with MPI_THREAD_MULTIPLE");
  }

  void send(void const* data, std::size_t bytes, int peer, int tag, MPI_Request& request) {
    if (!is_intact()) return;
    note(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_, &request),
         "MPI_Isend to rank ", peer);
  }
  /// peer: may be MPI_ANY_SOURCE
  void receive(void* data, std::size_t bytes, int peer, int tag, MPI_Request& request) {
    if (!is_intact()) return;
    note(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_, &request),
         "MPI_Irecv from rank ", peer);
  }
  /// True if the operation is complete, or if there is none. Completion frees the request.
  [[nodiscard]] bool is_done(MPI_Request& request, MPI_Status* status = MPI_STATUS_IGNORE) {
    if (request == MPI_REQUEST_NULL) return true;
    if (!is_intact()) return false;
    int done = 0;
    note(MPI_Test(&request, &done, status), "MPI_Test on rank ", rank_);
    return done != 0 && is_intact();
  }
  /// Bytes of a completed receive.
  [[nodiscard]] static std::size_t bytes_of(MPI_Status const& status) {
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    return static_cast<std::size_t>(count);
  }
  static constexpr int no_tag = -1;
  /// Receives a message that no posted receive matches; returns false if there is none. Leaves
  /// messages with the tag `kept`, unless that is `no_tag`.
  bool throw_away(int kept, std::vector<std::byte>& waste) {
    int is_there = 0;
    MPI_Status status{};
    if (!is_intact()) return false;
    note(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &is_there, &status), "MPI_Iprobe on rank ",
         rank_);
    if (is_there == 0 || !is_intact() || status.MPI_TAG == kept) return false;
    waste.resize(bytes_of(status));
    note(MPI_Recv(waste.data(), static_cast<int>(waste.size()), MPI_BYTE, status.MPI_SOURCE,
                  status.MPI_TAG, comm_, MPI_STATUS_IGNORE),
         "MPI_Recv from rank ", status.MPI_SOURCE);
    return true;
  }
  /// Cancels a receive: it is done soon afterwards, with or without a message.
  void cancel(MPI_Request& request) {
    if (request != MPI_REQUEST_NULL && is_intact()) MPI_Cancel(&request);
  }
  /// Cancels a receive that no message will match, and waits for its end.
  void take_back(MPI_Request& request) {
    if (request == MPI_REQUEST_NULL || !is_intact()) return;
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }

 private:
  mpi_channel() = default;
  static void expect_usable(MPI_Comm of_user) {
    int is_initialised = 0;
    MPI_Initialized(&is_initialised);
    expects(is_initialised != 0,
            "mpi_communicator: MPI is not initialised, expected MPI_Init before");
    expect_not_finalised();
    expects(of_user != MPI_COMM_NULL,
            "mpi_communicator: the communicator is MPI_COMM_NULL, expected one of this rank");
    int is_inter = 0;
    MPI_Comm_test_inter(of_user, &is_inter);
    expects(is_inter == 0,
            "mpi_communicator: an intercommunicator, expected a communicator of one group");
    if (takes_main_thread_alone()) expect_main_thread();
  }

  void begin(int code, char const* what) {
    if (code == MPI_SUCCESS && comm_ == MPI_COMM_NULL) return;
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    if (code != MPI_SUCCESS) throw error(what + mpi_error_text(code));
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &rank_count_);
    void* value = nullptr;
    int is_set = 0;
    MPI_Comm_get_attr(comm_, MPI_TAG_UB, &value, &is_set);
    if (is_set != 0) largest_tag_ = *static_cast<int*>(value);
  }
  void note(int code, char const* what, int peer) {
    if (code == MPI_SUCCESS || !problem_.empty()) return;
    problem_ = what + std::to_string(peer) + ": " + mpi_error_text(code);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int rank_count_ = 1;
  int largest_tag_ = 32767;  // the standard guarantees at least this
  std::string problem_;
};

/// Detects that MPI_Finalize has begun. It does not ask the library in every call, because that
/// takes a third of the time of a small all-reduce.
///
/// MPI_Finalize first deletes the attributes of MPI_COMM_SELF (MPI-3.1, section 8.7.1). This class
/// sets one attribute for the whole process, and keeps it. Communicators may end in such callbacks,
/// where Open MPI waits for itself if another attribute is deleted.
class end_of_mpi {
 public:
  /// Begins to watch.
  ///
  /// Pre:    MPI is initialised.
  /// Throws: error if the MPI library fails.
  static void watch() {
    static int const key = begin();
    static_cast<void>(key);
  }
  /// True if MPI_Finalize has begun.
  ///
  /// Pre:    `watch` was called.
  [[nodiscard]] static bool has_arrived_at() { return has_come_.load(std::memory_order_relaxed); }

 private:
  static int begin() {
    int key = MPI_KEYVAL_INVALID;
    int code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &note, &key, nullptr);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
    if (code != MPI_SUCCESS) throw error("an attribute of MPI_COMM_SELF: " + mpi_error_text(code));
    return key;
  }
  static int note(MPI_Comm, int, void*, void*) {
    has_come_.store(true, std::memory_order_relaxed);
    return MPI_SUCCESS;
  }

  static inline std::atomic<bool> has_come_ = false;
};

}}  // namespace blink::BLINK_ABI
