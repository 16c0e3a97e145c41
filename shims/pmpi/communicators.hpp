// SPDX-License-Identifier: Apache-2.0
#pragma once

// The MPI communicators that blink serves, and the agreement of their ranks. A blink communicator
// begins at the first use of its MPI communicator, and ends after the program frees the latter.

#include <blink/collectives/call_records.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#if __has_include(<nlohmann/json.hpp>)  // BLINK_TUNING
#include <blink/schedule/tuning_file.hpp>
#endif

#include "agreement.hpp"
#include "attached.hpp"
#include "call_stack.hpp"
#include "pending_calls.hpp"
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace blink_pmpi {

/// The state of the process, which lives as long as MPI.
class shim {
 public:
  static shim& the() {
    static shim the_shim;
    return the_shim;
  }

  /// The blink communicator of an MPI communicator, made at its first use. All ranks arrive here
  /// together, because the call is collective. Null: the MPI library serves that communicator.
  attached* find(MPI_Comm comm) {
    end_what_can_end();
    if (auto* const here = last_used(comm)) return here;
    auto const freed = freed_.load();
    auto const known = look_up(comm);
    auto* const here = known ? *known : in_use(attach(comm));
    if (here != nullptr) last() = {comm, here, freed};
    return here;
  }
  /// The same without an agreement: nullopt if the ranks have not agreed yet.
  std::optional<attached*> find_known(MPI_Comm comm) {
    if (auto* const here = last_used(comm)) return here;
    return look_up(comm);
  }
  /// False if duplicates that do not block get in the way of other collectives, as in Open MPI 4.1.
  /// Then a blink communicator begins at a call that blocks.
#if defined(OPEN_MPI)
  static constexpr bool can_begin_in_started_calls = false;
#else
  static constexpr bool can_begin_in_started_calls = true;
#endif
  /// Notes that the program starts calls.
  void note_start() { starts_calls_ = true; }
  /// Begins the blink communicator of a fresh communicator whose calls may all be started ones.
  void begin_early(MPI_Comm fresh) {
    if (can_begin_in_started_calls || inside::is_inside() || fresh == MPI_COMM_NULL) return;
    inside const guard;
    if (find_known(fresh).has_value()) return;
    int const mine = starts_calls_ ? 1 : 0;
    int any = 0;
    if (PMPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, fresh) == MPI_SUCCESS && any != 0) {
      static_cast<void>(find(fresh));
    }
  }
  /// Duplicates a communicator, whose errors then go to the caller. Null: the library has none to
  /// spare. Blink does this before all else. So it stands at the same place among the program's
  /// collectives on all ranks.
  static MPI_Comm duplicate(MPI_Comm comm) {
    MPI_Errhandler of_user = MPI_ERRHANDLER_NULL;
    PMPI_Comm_get_errhandler(comm, &of_user);
    PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm result = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    bool const is_started = call_stack::present() != nullptr;
    int const code =
        is_started ? PMPI_Comm_idup(comm, &result, &request) : PMPI_Comm_dup(comm, &result);
    PMPI_Comm_set_errhandler(comm, of_user);
    PMPI_Errhandler_free(&of_user);
    if (code != MPI_SUCCESS || (is_started && await(request) != MPI_SUCCESS)) return MPI_COMM_NULL;
    PMPI_Comm_set_errhandler(result, MPI_ERRORS_RETURN);
    return result;
  }
  /// The duplicate of a communicator whose ranks have agreed; else the communicator.
  [[nodiscard]] MPI_Comm duplicate_of(MPI_Comm comm) const {
    auto const* const known = agreed(comm);
    return known == nullptr || known->own() == MPI_COMM_NULL ? comm : known->own();
  }
  /// See `attached::began_in_started_call`.
  ///
  /// known: as `find_known` returns it, null also for a communicator that the library serves
  [[nodiscard]] bool began_in_started_call(MPI_Comm comm, attached const* known) const {
    if (known == nullptr) known = agreed(comm);
    return known != nullptr && known->began_in_started_call();
  }
  void count(entry what, bool is_taken) {
    ++calls_[static_cast<std::size_t>(what)][is_taken ? 1 : 0];
  }

  /// Prepares the end: attributes of MPI_COMM_SELF are deleted when MPI_Finalize begins, the last
  /// first, while MPI still works. Called as soon as MPI is initialised, because the program may
  /// call collectives in its own attributes.
  void begin() {
    std::call_once(is_begun_, [this] {
      PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &keyval_, nullptr);
      blink::mpi_channel::yields = yield;
      int level = MPI_THREAD_SINGLE;
      PMPI_Query_thread(&level);
      pending_calls::the().has_threads = level == MPI_THREAD_MULTIPLE;
      // A duplicate keeps the promise.
      PMPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &order_keyval_, nullptr);
      int at_end = MPI_KEYVAL_INVALID;
      PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &at_end, nullptr);
      PMPI_Comm_set_attr(MPI_COMM_SELF, at_end, nullptr);
      try {
        blink::record_calls_as_environment_says();
      } catch (blink::input_error const& problem) {
        std::fprintf(stderr, "blink: %s\n", problem.what());
      }
    });
  }

  /// Takes the hint `blink_order` of a communicator, `run` or `ranks`. Its next call begins a new
  /// blink communicator. Collective. Returns an error code of MPI.
  int take_hints(MPI_Comm comm, MPI_Info info) {
    std::array<char, 16> value{};
    int is_given = 0;
    if (is_over_ || info == MPI_INFO_NULL || !blink::mpi_channel::runs() ||
        PMPI_Info_get(info, "blink_order", value.size() - 1, value.data(), &is_given) !=
            MPI_SUCCESS ||
        is_given == 0) {
      return MPI_SUCCESS;
    }
    begin();
    std::string_view const text(value.data());
    if (text != "run" && text != "ranks") {
      std::fprintf(stderr, "blink: the info key blink_order is '%s', expected run or ranks\n",
                   value.data());
      return MPI_ERR_INFO_VALUE;
    }
    if (text == "ranks") {
      PMPI_Comm_set_attr(comm, order_keyval_, this);
    } else if (attribute(comm, order_keyval_) != nullptr) {
      PMPI_Comm_delete_attr(comm, order_keyval_);
    }
    return attribute(comm, keyval_) != nullptr ? PMPI_Comm_delete_attr(comm, keyval_) : MPI_SUCCESS;
  }

 private:
  /// The value of an attribute; null: none.
  [[nodiscard]] static void* attribute(MPI_Comm comm, int keyval) {
    void* value = nullptr;
    int is_there = 0;
    return PMPI_Comm_get_attr(comm, keyval, &value, &is_there) == MPI_SUCCESS && is_there != 0
               ? value
               : nullptr;
  }

  /// The communicator that a thread used last.
  struct recent {
    MPI_Comm comm = MPI_COMM_NULL;
    attached* here = nullptr;
    std::uint64_t freed = 0;  // number of communicators freed by then, because handles are reused
  };
  [[gnu::noinline]] static recent& last() {  // see `call_stack::present`
    [[gnu::tls_model("initial-exec")]] thread_local recent result;
    return result;
  }
  [[nodiscard]] attached* last_used(MPI_Comm comm) const {
    auto const& known = last();
    return known.comm == comm && known.freed == freed_.load() ? known.here : nullptr;
  }

  /// The agreement of the ranks of a communicator; null: none yet.
  [[nodiscard]] attached* agreed(MPI_Comm comm) const {
    return static_cast<attached*>(attribute(comm, keyval_));
  }
  std::optional<attached*> look_up(MPI_Comm comm) {
    if (is_over_ || !blink::mpi_channel::runs())
      return nullptr;  // MPI_Init was not called, as in a program with MPI_Session_init
    begin();
    if (auto* const known = agreed(comm)) return in_use(known);
    int is_inter = 0;
    int ranks = 0;
    if (PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter != 0) return nullptr;
    PMPI_Comm_size(comm, &ranks);
    if (ranks < 2 || !all_have_blink(comm, ranks)) return nullptr;
    return std::nullopt;
  }
  // True if all ranks of a communicator have loaded this library, so that all take part in the
  // agreement. Ranks of another world (MPI_Comm_spawn, MPI_Comm_connect) and of another program of
  // one launch may lack it. All ranks that have it return the same.
  static bool all_have_blink(MPI_Comm comm, int ranks) {
    static bool const is_one_program = [] {
      char const* const programs = std::getenv("OMPI_NUM_APP_CTX");  // Open MPI
      if (programs == nullptr || std::string_view(programs) == "1") return true;
      try {
        if (all_programs_wanted()) return true;
      } catch (blink::input_error const& problem) {
        std::fprintf(stderr, "blink: %s\n", problem.what());
        return false;
      }
      int rank = 0;
      PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
      std::fprintf(stderr,
                   "blink: rank %d: %s programs were launched, so the MPI library serves them. Set "
                   "BLINK_PMPI_ALL_PROGRAMS=1 if each has this library loaded\n",
                   rank, programs);
      return false;
    }();
    if (!is_one_program) return false;
    MPI_Group world = MPI_GROUP_NULL, own = MPI_GROUP_NULL;
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Comm_group(comm, &own);
    std::vector<int> here(static_cast<std::size_t>(ranks)), there(here.size());
    std::iota(here.begin(), here.end(), 0);
    PMPI_Group_translate_ranks(own, ranks, here.data(), world, there.data());
    PMPI_Group_free(&own);
    PMPI_Group_free(&world);
    return std::find(there.begin(), there.end(), MPI_UNDEFINED) == there.end();
  }
  static attached* in_use(attached* one) {
    return one != nullptr && one->is_used() ? one : nullptr;
  }

  attached* attach(MPI_Comm comm) {
    auto const wish = own_wish();
    bool const shares = wish.shares_memory && shared_ < most_shared;
    bool const keeps_order = wish.keeps_order || attribute(comm, order_keyval_) != nullptr;
    std::uint64_t const mine[] = {wish.is_used ? 0U : 1U, wish.least, shares ? 0U : 1U,
                                  keeps_order ? 1U : 0U, wish.has_deadline ? 1U : 0U};
    std::uint64_t most[std::size(mine)] = {1};
    MPI_Comm const own = duplicate(comm);
    bool const have_agreed =
        own != MPI_COMM_NULL &&
        find_most(mine, most, static_cast<int>(std::size(mine)), MPI_UINT64_T, own);
    agreement const agreed{have_agreed && most[0] == 0, most[2] == 0, most[3] != 0, most[4] != 0,
                           most[1]};
    auto here = std::make_unique<attached>(agreed, own);
    // Without memory for all ranks, messages serve them.
    bool const begins =
        agreed.is_used &&
        ((agreed.shares_memory && everybody_begins(*here, true)) || everybody_begins(*here, false));
    if (begins) {
      if (here->shares_memory()) ++shared_;
      ++communicators_[here->comm().all_share_memory() ? 1 : 0];
    } else if (agreed.keeps_order) {
      std::fprintf(stderr,
                   "blink: reductions of a communicator do not keep the order of the ranks "
                   "(BLINK_ORDER, blink_order): the MPI library serves it\n");
    }
    PMPI_Comm_set_attr(comm, keyval_, here.get());
    std::lock_guard const lock(mutex_);
    return living_.emplace_back(std::move(here)).get();
  }
  /// Gets the largest of each number over all ranks. Returns false if the library fails.
  static bool find_most(void const* mine, void* most, int count, MPI_Datatype type, MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    return PMPI_Iallreduce(mine, most, count, type, MPI_MAX, comm, &request) == MPI_SUCCESS &&
           await(request) == MPI_SUCCESS;
  }
  /// Begins on all ranks, or on none. The library may have no more communicators, or the system no
  /// memory; that is no error of the program.
  static bool everybody_begins(attached& here, bool shares_memory) {
    int fails = 0;
    try {
      here.begin(shares_memory);
    } catch (std::exception const&) {
      fails = 1;
    }
    int any_fails = 1;
    static_cast<void>(find_most(&fails, &any_fails, 1, MPI_INT, here.own()));
    if (any_fails != 0) here.give_up();
    return any_fails == 0;
  }

  /// Handles the end of a program's communicator. It may run inside another call of the library.
  /// Other ranks may free their communicators later and in another order.
  static int on_free(MPI_Comm, int, void* value, void*) {
    auto& loaded = the();
    std::lock_guard const lock(loaded.mutex_);
    ++loaded.freed_;
    for (auto& one : loaded.living_) {
      if (one.get() != value) continue;
      loaded.leave(std::move(one));
      one = std::move(loaded.living_.back());
      loaded.living_.pop_back();
      break;
    }
    return MPI_SUCCESS;
  }
  /// Pre:    the lock is held.
  void leave(std::unique_ptr<attached> one) {
    leaving_.push_back(std::move(one));
    is_any_leaving_ = true;
  }
  /// Ends communicators whose ranks have all left. It does not hold the lock during calls of the
  /// library. The library may hold its own lock when it calls `on_free` on another thread.
  void end_what_can_end() {
    if (!is_any_leaving_ || !is_any_leaving_.exchange(false)) return;
    std::vector<std::unique_ptr<attached>> those;
    {
      std::lock_guard const lock(mutex_);
      those.swap(leaving_);
    }
    std::erase_if(those, [this](auto& one) {
      bool const has_ended = one->has_ended();
      if (has_ended && one->shares_memory()) --shared_;
      return has_ended;
    });
    std::lock_guard const lock(mutex_);
    for (auto& one : those) leave(std::move(one));
  }
  static int on_finalize(MPI_Comm, int, void*, void*);

  // Each communicator in shared memory takes two files of the process, whose usual limit is about a
  // thousand.
  static constexpr int most_shared = 100;

  int keyval_ = MPI_KEYVAL_INVALID;
  int order_keyval_ = MPI_KEYVAL_INVALID;  // set: reductions keep the order of the ranks
  std::once_flag is_begun_;
  std::atomic<bool> is_over_ = false;
  std::atomic<bool> starts_calls_ = false;
  std::mutex mutex_;
  std::vector<std::unique_ptr<attached>> living_, leaving_;
  std::atomic<bool> is_any_leaving_ = false;
  std::atomic<std::uint64_t> freed_ = 0;
  std::array<std::array<std::atomic<std::uint64_t>, 2>, entry_names.size()> calls_{};
  std::atomic<int> shared_ = 0;  // existing communicators in shared memory
  std::array<std::atomic<std::uint64_t>, 2> communicators_{};  // over messages, in shared memory
};

/// While an object exists, this thread frees a communicator. Its blink communicator is deleted with
/// the program's attributes, in any order. So calls that those attributes make on the communicator
/// go to the library.
class freeing {
 public:
  explicit freeing(MPI_Comm comm) : outer_(std::exchange(present(), comm)) {}
  freeing(freeing const&) = delete;
  freeing& operator=(freeing const&) = delete;
  ~freeing() { present() = outer_; }
  [[nodiscard]] static MPI_Comm& present() {
    [[gnu::tls_model("initial-exec")]] thread_local MPI_Comm result = MPI_COMM_NULL;
    return result;
  }

 private:
  MPI_Comm outer_;  // an attribute may free another one
};

inline int shim::on_finalize(MPI_Comm, int, void*, void*) {
  inside const guard;
  auto& loaded = the();
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  bool reports = false;
  try {
    reports = rank == 0 && report_wanted();
  } catch (blink::input_error const&) {  // the error was reported when the value was first read
  }
  for (std::size_t k = 0; k < entry_names.size() && reports; ++k) {
    if (loaded.calls_[k][0] + loaded.calls_[k][1] == 0) continue;
    std::fprintf(stderr, "blink: MPI_%s: %llu calls through blink, %llu by the library\n",
                 entry_names[k], static_cast<unsigned long long>(loaded.calls_[k][1]),
                 static_cast<unsigned long long>(loaded.calls_[k][0]));
  }
  if (reports && loaded.communicators_[0] + loaded.communicators_[1] > 0) {
    std::fprintf(stderr, "blink: %llu communicators in shared memory, %llu over messages\n",
                 static_cast<unsigned long long>(loaded.communicators_[1]),
                 static_cast<unsigned long long>(loaded.communicators_[0]));
  }
  loaded.is_over_ = true;
  ++loaded.freed_;
  for (auto& one : loaded.living_) loaded.leave(std::move(one));
  loaded.living_.clear();
  while (loaded.end_what_can_end(), loaded.is_any_leaving_) std::this_thread::yield();
  pending_calls::the().end();
  return MPI_SUCCESS;
}

}  // namespace blink_pmpi
