// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/duration.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Leaves out the C++ bindings of older MPI libraries, which MPI no longer contains.
#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

namespace blink { inline namespace BLINK_ABI {

/// Returns the MPI library's text for an error code.
[[nodiscard]] inline std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  return {text.data(), static_cast<std::size_t>(length)};
}

/// Detects that MPI_Finalize has begun, without a call of the library. Such a call takes a third of
/// the time of a small all-reduce.
///
/// MPI_Finalize first deletes the attributes of MPI_COMM_SELF (MPI-3.1, section 8.7.1). This class
/// sets one attribute for the whole process, and keeps it. Communicators may end in such callbacks.
/// If a callback deletes another attribute, Open MPI waits for itself.
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
  [[nodiscard]] static bool has_begun() { return has_begun_.load(std::memory_order_relaxed); }

 private:
  static int begin() {
    int key = MPI_KEYVAL_INVALID;
    int code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &note, &key, nullptr);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
    if (code != MPI_SUCCESS) throw error("an attribute of MPI_COMM_SELF: " + mpi_error_text(code));
    return key;
  }
  static int note(MPI_Comm, int, void*, void*) {
    has_begun_.store(true, std::memory_order_relaxed);
    return MPI_SUCCESS;
  }

  static inline std::atomic<bool> has_begun_ = false;
};

/// A duplicate of a user's communicator for blink's messages: `message_channel` over MPI.
///
/// Its operations do not throw, because a walk makes them. The first error breaks the channel. A
/// broken channel does nothing more and keeps the reason in `problem`.
class mpi_channel {
 public:
  static constexpr char const* name = "MPI";
  static constexpr char const* communicator_name = "mpi_communicator";
  static constexpr bool is_independent = true;  ///< see `independent_channel`
  [[nodiscard]] static communicator_options default_options() { return message_options(); }

  /// An operation of the library.
  struct request {
    MPI_Request handle = MPI_REQUEST_NULL;
    [[nodiscard]] bool is_pending() const { return handle != MPI_REQUEST_NULL; }
  };

  /// The function that a rank calls again and again while it waits for others to make a channel. A
  /// program that runs several calls on one thread may switch to another one.
  static inline std::atomic<void (*)()> yields{[] { std::this_thread::yield(); }};
  static void yield() { yields.load(std::memory_order_relaxed)(); }

  /// Duplicates the communicator. Collective over `of_user`.
  ///
  /// longest: ranks that have not come by then are missing
  /// Throws:  precondition_error if MPI is not initialised, `of_user` is no intracommunicator, or
  ///          only another thread may call MPI; collective_error if a rank is missing; error if the
  ///          MPI library fails.
  explicit mpi_channel(MPI_Comm of_user,
                       nanoseconds longest = communicator_options{}.waits.deadline)
      : longest_(longest) {
    expect_usable(of_user);
    int const code = begin_duplicate(of_user);
    begin(code, "MPI_Comm_idup: ");
  }
  [[nodiscard]] mpi_channel duplicate() const {
    mpi_channel result(comm_, longest_);
    result.eager_bytes_ = eager_bytes_;
    return result;
  }
  /// A channel for some ranks of this one, of which this rank is one. Collective over those only:
  /// it waits for no other rank.
  ///
  /// Throws: precondition_error if MPI is finalised; error if the MPI library fails.
  [[nodiscard]] mpi_channel among(std::vector<int> const& members) const {
    expect_running();
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    MPI_Comm_group(comm_, &all);
    MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some);
    mpi_channel result(longest_);
    // Libraries may send messages with this tag, and communicators receive those with lower ones.
    int const code = MPI_Comm_create_group(comm_, some, largest_tag_, &result.comm_);
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
        longest_(other.longest_),
        only_thread_(other.only_thread_),
        eager_bytes_(other.eager_bytes_),
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
  static void expect_running() {
    int is_finalised = 0;
    MPI_Finalized(&is_finalised);
    expects(is_finalised == 0, "mpi_communicator: MPI is finalised already, expected it running");
  }
  /// Throws: precondition_error if MPI is finalised, or takes calls from another thread only.
  void expect_call() const {
    if (end_of_mpi::has_begun()) expect_running();
    if (only_thread_ != std::thread::id() && only_thread_ != std::this_thread::get_id()) {
      expect_main_thread();
    }
  }
  /// Throws: precondition_error unless any thread may call MPI at any time.
  static void expect_any_thread() {
    expect_running();
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    expects(level == MPI_THREAD_MULTIPLE,
            "mpi_communicator: another thread makes its calls, expected MPI to be initialised "
            "with MPI_THREAD_MULTIPLE");
  }

  [[nodiscard]] static std::uint64_t host() { return host_id(); }
  [[nodiscard]] std::size_t eager_bytes();

  void send(void const* data, std::size_t bytes, int peer, int tag, request& operation) {
    if (!is_intact()) return;
    note(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_, &operation.handle),
         "MPI_Isend to rank ", peer);
  }
  void receive(void* data, std::size_t bytes, int peer, int tag, request& operation) {
    if (!is_intact()) return;
    note(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_, &operation.handle),
         "MPI_Irecv from rank ", peer);
  }
  void receive_from_any(void* data, std::size_t bytes, int tag, request& operation) {
    receive(data, bytes, MPI_ANY_SOURCE, tag, operation);
  }
  /// True if the operation is complete, or if there is none. Completion frees the request.
  [[nodiscard]] bool is_done(request& operation) {
    if (!operation.is_pending()) return true;
    if (!is_intact()) return false;
    int done = 0;
    note(MPI_Test(&operation.handle, &done, MPI_STATUS_IGNORE), "MPI_Test on rank ", rank_);
    return done != 0 && is_intact();
  }
  void cancel(request& operation) {
    if (operation.is_pending() && is_intact()) MPI_Cancel(&operation.handle);
  }
  void drop_unmatched(int kept) {
    std::vector<std::byte> waste;
    while (is_intact()) {
      int is_there = 0;
      MPI_Status status{};
      note(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &is_there, &status),
           "MPI_Iprobe on rank ", rank_);
      if (is_there == 0 || !is_intact() || status.MPI_TAG == kept) return;
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      waste.resize(static_cast<std::size_t>(bytes));
      note(MPI_Recv(waste.data(), bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm_,
                    MPI_STATUS_IGNORE),
           "MPI_Recv from rank ", status.MPI_SOURCE);
    }
  }

 private:
  explicit mpi_channel(nanoseconds longest) : longest_(longest) {}
  /// True if MPI was initialised for calls of the main thread only.
  [[nodiscard]] static bool takes_main_thread_alone() {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    return level < MPI_THREAD_SERIALIZED;
  }
  static void expect_main_thread() {
    int is_main = 1;
    MPI_Is_thread_main(&is_main);
    expects(is_main != 0,
            "mpi_communicator: called by another thread, expected the main thread: MPI was "
            "initialised for it only");
  }
  static void expect_usable(MPI_Comm of_user) {
    int is_initialised = 0;
    MPI_Initialized(&is_initialised);
    expects(is_initialised != 0,
            "mpi_communicator: MPI is not initialised, expected MPI_Init before");
    expect_running();
    expects(of_user != MPI_COMM_NULL,
            "mpi_communicator: the communicator is MPI_COMM_NULL, expected one of this rank");
    int is_inter = 0;
    MPI_Comm_test_inter(of_user, &is_inter);
    expects(is_inter == 0,
            "mpi_communicator: an intercommunicator, expected a communicator of one group");
    if (takes_main_thread_alone()) expect_main_thread();
  }

  // Returns the library's code. It keeps the place of the result until it has written there.
  int begin_duplicate(MPI_Comm of_user) {
    auto fresh = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
    MPI_Request making = MPI_REQUEST_NULL;
    int code = MPI_Comm_idup(of_user, fresh.get(), &making);
    auto const end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(longest_);
    for (int is_done = 0; code == MPI_SUCCESS; yield()) {
      code = MPI_Test(&making, &is_done, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS || is_done != 0) break;
      if (std::chrono::steady_clock::now() < end) continue;
      static_cast<void>(fresh.release());
      int rank = -1;
      MPI_Comm_rank(of_user, &rank);
      throw collective_error(
          "mpi_communicator: rank " + std::to_string(rank) + " has waited " +
              std::to_string(std::chrono::nanoseconds(longest_).count() / 1'000'000) +
              " ms for the other ranks to make one, expected all ranks to",
          rank, -1, -1, -1);
    }
    comm_ = *fresh;
    return code;
  }
  void begin(int code, char const* what) {
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    if (code != MPI_SUCCESS) throw error(what + mpi_error_text(code));
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &rank_count_);
    void* value = nullptr;
    int is_set = 0;
    MPI_Comm_get_attr(comm_, MPI_TAG_UB, &value, &is_set);
    if (is_set != 0) largest_tag_ = *static_cast<int*>(value);
    if (takes_main_thread_alone()) only_thread_ = std::this_thread::get_id();
    end_of_mpi::watch();
  }
  void note(int code, char const* what, int peer) {
    if (code == MPI_SUCCESS || !problem_.empty()) return;
    problem_ = what + std::to_string(peer) + ": " + mpi_error_text(code);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int rank_count_ = 1;
  int largest_tag_ = 32767;      // the standard guarantees at least this
  nanoseconds longest_;          // that a rank waits for the others of a duplicate
  std::thread::id only_thread_;  // the only thread that may call MPI; none: any thread may
  std::optional<std::size_t> eager_bytes_;  // once they are known
  std::string problem_;
};

/// Returns the MPI library's own eager limit: the largest message, in bytes, that it sends before a
/// receive is posted.
///
/// The result is one of 1000, 2000, 4000, … 32000, or 0. A larger message begins with a handshake,
/// which takes several times as long as a short message. The limit differs between libraries and
/// networks. Duplicates that are made later know it.
///
/// Collective: all ranks get the least result of all ranks. The channel must have no other
/// messages.
///
/// Moves: six messages from each rank to the next one, three barriers and an all-reduce. No receive
///        is posted meanwhile. The limit is the largest message that completes then.
inline std::size_t mpi_channel::eager_bytes() {
  constexpr std::array<std::size_t, 6> sizes{1000, 2000, 4000, 8000, 16000, 32000};
  constexpr int tag = 0;
  int const ranks = rank_count_;
  if (ranks < 2) return sizes.back();
  if (eager_bytes_) return *eager_bytes_;
  int const next = (rank_ + 1) % ranks;
  int const previous = (rank_ + ranks - 1) % ranks;
  auto const finish = [&](request& one) {
    while (is_intact() && !is_done(one)) yield();
  };
  auto const meet = [&] {
    if (!is_intact()) return;
    request barrier;
    note(MPI_Ibarrier(comm_, &barrier.handle), "MPI_Ibarrier on rank ", rank_);
    finish(barrier);
  };
  std::vector<std::byte> sent(sizes.back()), received(sizes.back());
  std::array<request, sizes.size()> sends{}, receives{};
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    send(sent.data(), sizes[k], next, tag, sends[k]);
  }
  meet();  // the next rank has probed its messages, and answered
  meet();
  std::size_t left = 0;
  for (int tests = 0; tests < 64; ++tests) {
    while (left < sizes.size() && is_done(sends[left])) ++left;
  }
  unsigned long long const largest = left > 0 ? sizes[left - 1] : 0;
  meet();  // before this barrier no rank has received anything
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    receive(received.data(), sizes[k], previous, tag, receives[k]);
    finish(receives[k]);
  }
  for (auto& one : sends) finish(one);
  unsigned long long least = 0;
  if (is_intact()) {
    request search;
    note(
        MPI_Iallreduce(&largest, &least, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, comm_, &search.handle),
        "MPI_Iallreduce on rank ", rank_);
    finish(search);
  }
  eager_bytes_ = static_cast<std::size_t>(least);
  return *eager_bytes_;
}

static_assert(message_channel<mpi_channel> && library_channel<mpi_channel>);
static_assert(!loss_tolerant_channel<mpi_channel>, "a rank that dies ends the library");

}}  // namespace blink::BLINK_ABI
