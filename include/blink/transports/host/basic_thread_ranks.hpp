// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/counted.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/communicator_base.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/detail/call_frame.hpp>
#include <blink/running/call/messenger.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/host/shared_memory_communicator.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <cxxabi.h>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

class thread_messengers;  // thread_messengers.hpp

/// A group of several threads. It names the type of their shared state. A single thread shares
/// nothing.
template <class Group>
concept shared_group = requires { typename Group::shared_type; };

template <class Group>
struct shared_by {
  struct type {
    explicit type(std::uint32_t) {}
  };
};
template <shared_group Group>
struct shared_by<Group> {
  using type = typename Group::shared_type;
};

}  // namespace detail

/// One rank's communicator among ranks that are threads. Lives in the rank's thread.
template <transport Transport, thread_group Group>
class thread_communicator;

/// Ranks that are threads of this process, joined by `Transport`.
///
/// The object owns the connections. It can run any number of functions, one after the other. After
/// a `collective_error` it refuses further runs, because its ranks no longer agree on the messages
/// that were sent.
template <transport Transport, thread_group Group = lone_thread>
class basic_thread_ranks {
 public:
  using communicator_type = thread_communicator<Transport, Group>;

  /// Throws: precondition_error if rank_count < 1 or an option is out of range.
  explicit basic_thread_ranks(int rank_count, communicator_options const& options = {})
      : state_((expects(rank_count >= 1,
                        "thread_ranks: the number of ranks is not positive, expected at least 1"),
                rank_count)),
        options_(spinning_no_longer_than_fits(options, rank_count)) {
    validate(options);
    expects(options.team_size == 1 || detail::shared_group<Group>,
            "thread_ranks: team_size is more than 1, expected 1 for groups of one thread");
  }

  [[nodiscard]] int rank_count() const { return state_.rank_count(); }
  [[nodiscard]] communicator_options const& options() const { return options_; }

  /// Allocates what calls along a schedule need. The same schedule returns the same object again.
  /// Safe from all ranks at once.
  ///
  /// Time:   O(T V) and the allocation; O(size of the schedules prepared before) if known.
  /// Throws: precondition_error if the schedule is not valid, or is for another number of ranks.
  prepared_schedule& prepare(schedule const& source) {
    expect_ranks(source, rank_count());
    detail::host_mutex::hold const held(mutex_);
    for (auto& known : prepared_) {
      if (known->source() == source) return *known;
    }
    validate(source);
    auto layout = connection_layout_of<Transport>(options_, source);
    layout.owner = &state_;
    return *prepared_.emplace_back(
        detail::counted<prepared_schedule>::make(source, layout, options_.costs));
  }

  /// Runs `function(communicator)` in one thread for each rank and returns when all have returned.
  ///
  /// Throws: the first exception in the order of the ranks that is not a `collective_error`,
  ///         because those are mostly its consequence on other ranks; else the first
  ///         `collective_error`; precondition_error if the ranks run already.
  template <std::invocable<communicator_type&> Function>
  void run(Function const& function) {
    running const alone(runs_);
    int const ranks = rank_count();
    auto const threads_each = static_cast<int>(options_.team_size);
    std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks * threads_each));
    std::vector<detail::counted<shared_by_group>> teams;
    for (int rank = 0; rank < ranks; ++rank) state_.set_gone(rank, false);
    {
      detail::joined_threads threads(thrown.size());
      for (int rank = 0; rank < ranks; ++rank) {
        auto& own_team =
            *teams.emplace_back(detail::counted<shared_by_group>::make(options_.team_size));
        auto const shared =
            detail::counted<typename communicator_type::rank_part>::make(state_, rank);
        for (int thread = 0; thread < threads_each; ++thread) {
          auto& failure = thrown[static_cast<std::size_t>(rank * threads_each + thread)];
          threads.start([&, thread, shared] {
            communicator_type here(*this, make_group(own_team, thread), shared);
            run_one(function, here, failure);
          });
        }
      }
    }
    rethrow(thrown);
  }

  /// Internal: the thread ranks of a part. The same members give the same object again.
  [[nodiscard]] detail::counted<basic_thread_ranks> part(std::vector<int> const& members) {
    detail::host_mutex::hold const held(mutex_);
    for (auto& known : parts_) {
      if (known.members == members) return known.shared_ranks;
    }
    auto shared_ranks =
        detail::counted<basic_thread_ranks>::make(static_cast<int>(members.size()), options_);
    parts_.push_back({members, shared_ranks});
    return shared_ranks;
  }
  /// Internal: the shared state of the ranks.
  [[nodiscard]] shared_state& state() { return state_; }
  /// Internal: a rank's sends and receives. Messages that no rank has received stay from one `run`
  /// to the next.
  template <class Messengers = detail::thread_messengers>
  [[nodiscard]] messenger& messages_of(int rank) {
    static_assert(
        requires { sizeof(Messengers); },
        "blink: sends and receives of threads are in "
        "blink/transports/host/thread_messengers.hpp, include it");
    return messengers_.get([&] { return new Messengers(state_, options_); }).of(rank);
  }
  /// Internal: the tuning tables of ranks that were given none. Ranks share them, because a table
  /// of default schedules grows with the square of the number of ranks.
  [[nodiscard]] detail::counted<detail::tuning_tables<>> const& tuning() const { return tuning_; }

 private:
  using shared_by_group = typename detail::shared_by<Group>::type;

  static Group make_group([[maybe_unused]] shared_by_group& shared, [[maybe_unused]] int thread) {
    if constexpr (detail::shared_group<Group>) {
      return Group(shared, static_cast<std::uint32_t>(thread));
    } else {
      return Group{};
    }
  }

  /// Admits one `run` at a time, because the shared state belongs to one set of threads.
  class running {
   public:
    explicit running(std::atomic<bool>& runs) : runs_(runs) {
      expects(!runs.exchange(true, std::memory_order_acquire),
              "thread_ranks: its ranks run already, in another run() that has not ended, expected "
              "its end first");
    }
    running(running const&) = delete;
    running& operator=(running const&) = delete;
    ~running() { runs_.store(false, std::memory_order_release); }

   private:
    std::atomic<bool>& runs_;
  };

  template <class Function>
  void run_one(Function const& function, communicator_type& here, std::exception_ptr& failure) {
    try {
      function(here);
    } catch (collective_error const&) {
      failure = std::current_exception();
    } catch (std::exception const& other) {
      failure = std::current_exception();
      fail_all(here.rank(), detail::text_of({" left with an exception: ", other.what()}));
#if defined(__GLIBCXX__)
    } catch (abi::__forced_unwind const&) {  // must go on to the end of the thread
      constexpr char const* why = " ended its thread (pthread_exit or pthread_cancel)";
      failure = std::make_exception_ptr(error(detail::text_of({"rank ", here.rank(), why})));
      fail_all(here.rank(), why);
      state_.set_gone(here.rank(), true);
      throw;
#endif
    } catch (...) {
      failure = std::current_exception();
      fail_all(here.rank(), " left with an exception");
    }
    state_.set_gone(here.rank(), true);
  }

  void fail_all(int rank, detail::text_piece why) {
    state_.fail(rank, {detail::text_of({"rank ", rank, why}), rank, rank, -1, -1});
  }

  static void rethrow(std::vector<std::exception_ptr> const& thrown) {
    std::exception_ptr first;
    for (auto const& failure : thrown) {
      if (!failure) continue;
      try {
        std::rethrow_exception(failure);
      } catch (collective_error const&) {
        if (!first) first = failure;
      }
    }
    if (first) std::rethrow_exception(first);
  }

  shared_state state_;
  communicator_options options_;
  detail::lazy_messengers messengers_;
  std::atomic<bool> runs_ = false;
  detail::host_mutex mutex_;
  std::vector<detail::counted<prepared_schedule>> prepared_;
  detail::counted<detail::tuning_tables<>> tuning_ =
      detail::counted<detail::tuning_tables<>>::make();
  struct part_of_ranks {
    std::vector<int> members;
    detail::counted<basic_thread_ranks> shared_ranks;
  };
  std::vector<part_of_ranks> parts_;
};

template <transport Transport, thread_group Group>
class thread_communicator : public communicator_base<thread_communicator<Transport, Group>>,
                            public shared_memory_communicator<Transport, Group> {
 public:
  using shared_ranks = basic_thread_ranks<Transport, Group>;
  using typename shared_memory_communicator<Transport, Group>::rank_part;

  thread_communicator(shared_ranks& owner, Group group, detail::counted<rank_part> own)
      : shared_memory_communicator<Transport, Group>(owner.options(), group, std::move(own)),
        shared_(&owner) {}

  /// The thread ranks of a part, made by its first rank for all of its ranks; see `split`.
  class part_offer {
   public:
    part_offer(thread_communicator& whole, rank_selection const& part) {
      if (!part.is_first()) return;
      part_ = detail::counted<shared_ranks>::make(static_cast<int>(part.members.size()),
                                                  whole.options());
    }
    [[nodiscard]] detail::counted<shared_ranks> const* handle() const { return &part_; }

   private:
    detail::counted<shared_ranks> part_;
  };
  thread_communicator(thread_communicator&, part_offer&,
                      detail::counted<shared_ranks> const* offered, rank_selection const& part)
    requires std::same_as<Group, lone_thread>
      : thread_communicator(*offered, part.rank) {}

  /// See `basic_thread_ranks::prepare`.
  prepared_schedule& prepare(schedule const& source) const { return shared_->prepare(source); }
  /// See `messaging_communicator`.
  template <class = when_used>
  [[nodiscard]] messenger& messages() const {
    return shared_->messages_of(this->rank());
  }
  /// Internal: see `basic_thread_ranks::tuning`.
  [[nodiscard]] auto const& shared_tuning() const { return shared_->tuning(); }

  /// Returns the communicator of the ranks that remain after a failure, in their order, with
  /// separate calls and schedules.
  ///
  /// Every remaining rank calls it. It waits for late ranks until the deadline, but not for ranks
  /// that left.
  ///
  /// Throws: collective_error if the other ranks continued without this rank, because it called
  ///         this function too late.
  [[nodiscard]] thread_communicator shrink()
    requires std::same_as<Group, lone_thread>
  {
    auto const left = this->agree_on_survivors();
    return thread_communicator(shared_->part(left.members), left.rank);
  }

 private:
  // A rank's share of the thread ranks of a part. The last of the ranks destroys them.
  struct presence {
    presence(detail::counted<shared_ranks> shared, int its_rank)
        : of(std::move(shared)), rank(its_rank) {}
    presence(presence const&) = delete;
    presence& operator=(presence const&) = delete;
    ~presence() { of->state().set_gone(rank, true); }

    detail::counted<shared_ranks> of;
    int rank;
  };
  thread_communicator(detail::counted<shared_ranks> const& shared, int rank)
      : thread_communicator(*shared, Group{},
                            detail::counted<rank_part>::make(shared->state(), rank)) {
    presence_ = detail::counted<presence>::make(shared, rank);
    this->tuning().allow_other_rank_counts();
  }

  shared_ranks* shared_;
  detail::counted<presence> presence_;
};

}}  // namespace blink::BLINK_ABI
