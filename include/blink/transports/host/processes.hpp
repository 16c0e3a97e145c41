// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/call_records.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/communicator_base.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/detail/call_frame.hpp>
#include <blink/running/call/messenger.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/host/compared_options.hpp>
#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/host/process_environment.hpp>
#include <blink/transports/host/schedule_store.hpp>
#include <blink/transports/host/shared_memory_communicator.hpp>
#include <blink/transports/host/shared_segment.hpp>
#include <blink/transports/host/shared_state.hpp>
#include <blink/transports/host/slots.hpp>
#include <blink/transports/host/threads.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Elements in memory that the processes of a communicator share, so that peers reach them
/// directly. All bytes are 0 at first. The array belongs to one process, which uses its memory
/// again after it is destroyed.
template <class T>
class shared_array {
  static_assert(std::is_trivially_copyable_v<T>, "blink: processes share bytes, not objects");

 public:
  /// Throws: resource_error if the memory is used up.
  shared_array(std::shared_ptr<shared_segment> segment, int rank, std::size_t count)
      : segment_(std::move(segment)), count_(count) {
    if (count > PTRDIFF_MAX / sizeof(T)) {
      throw resource_error("shared memory full: " + std::to_string(count) + " elements");
    }
    data_ = static_cast<T*>(segment_->allocate(rank, count * sizeof(T)));
    std::memset(static_cast<void*>(data_), 0, count * sizeof(T));
  }
  shared_array(shared_array&& other) noexcept
      : segment_(std::move(other.segment_)),
        data_(std::exchange(other.data_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  shared_array& operator=(shared_array&& other) noexcept {
    std::swap(segment_, other.segment_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~shared_array() {
    if (data_ != nullptr) segment_->release(data_, count_ * sizeof(T));
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] T* begin() const { return data_; }
  [[nodiscard]] T* end() const { return data_ + count_; }
  [[nodiscard]] T& operator[](std::size_t index) const { return data_[index]; }

 private:
  std::shared_ptr<shared_segment> segment_;
  T* data_ = nullptr;
  std::size_t count_;
};

namespace detail {

class process_messengers;  // process_messengers.hpp

/// The parts of a process's communicator that stay at their addresses when the communicator is
/// moved.
class process_parts final : public failure_detector {
 public:
  /// Joins all ranks of a segment.
  process_parts(std::string const& path, int its_rank, communicator_options const& its_options)
      : process_parts(claimed(path, its_rank, its_options), its_rank, its_options) {}
  /// The same with a segment that this process has opened and claimed.
  process_parts(std::shared_ptr<shared_segment> its_segment, int its_rank,
                communicator_options const& its_options)
      : segment(std::move(its_segment)),
        memory(segment),
        options(spinning_no_longer_than_fits(its_options, segment->rank_count())),
        rank(its_rank),
        state(memory->state()) {
    for (int peer = 0; peer < segment->rank_count(); ++peer) members.push_back(peer);
    state.set_failure_detector(this);
    state.set_addresses(segment->begin(), segment->addresses());
  }
  /// Joins some ranks of `from` in the same memory.
  process_parts(process_parts const& from, rank_selection const& part)
      : segment(from.segment),
        memory(from.memory),
        options(from.options),
        rank(part.rank),
        key(key_of(from.key, part.members)),
        state(
            static_cast<int>(part.members.size()),
            memory->find_or_make(key, shared_state::bytes(static_cast<int>(part.members.size())))) {
    join(from, part);
  }
  /// Joins some ranks of `from` in separate memory, at `path`.
  process_parts(process_parts const& from, rank_selection const& part, std::string const& path)
      : segment(from.segment),
        memory(std::make_shared<shared_segment>(shared_segment::open(path))),
        options(from.options),
        rank(part.rank),
        state(memory->state()) {
    join(from, part);
  }
  process_parts(process_parts const&) = delete;
  process_parts& operator=(process_parts const&) = delete;
  ~process_parts() { state.set_gone(rank, true); }

  [[nodiscard]] bool is_dead(int peer) const override {
    return segment->is_dead(members[static_cast<std::size_t>(peer)]);
  }
  [[nodiscard]] std::string describe(int peer) const override {
    return segment->describe(members[static_cast<std::size_t>(peer)]);
  }

  std::shared_ptr<shared_segment> segment;  // buffers and the failure detector
  std::shared_ptr<shared_segment> memory;   // of this communicator: its state and its connections
  communicator_options options;
  int rank;
  std::uint64_t key = 0;     // of this communicator in its memory
  std::vector<int> members;  // by rank of this communicator, the rank in the segment
  shared_state state;
  schedule_store prepared{*memory, key};
  lazy_messengers messages;

 private:
  void join(process_parts const& from, rank_selection const& part) {
    for (int const member : part.members) {
      members.push_back(from.members[static_cast<std::size_t>(member)]);
    }
    state.set_failure_detector(this);
    state.set_addresses(segment->begin(), segment->addresses());
  }
  [[nodiscard]] static std::shared_ptr<shared_segment> claimed(
      std::string const& path, int rank, communicator_options const& options) {
    record_calls_of_process();
    auto result = std::make_shared<shared_segment>(shared_segment::open(path));
    validate(options);
    result->claim(rank);
    return result;
  }
  [[nodiscard]] static std::uint64_t key_of(std::uint64_t from, std::vector<int> const& members) {
    hash result;
    result.add(from);
    result.add(members);
    return result.value();
  }
};

/// The parts of a communicator of the processes of a bootstrap, once their options are found equal.
/// Collective.
template <process_bootstrap Bootstrap>
[[nodiscard]] std::unique_ptr<process_parts> join_processes(Bootstrap& all,
                                                            communicator_options options) {
  record_calls_of_process();
  expect_equal_options(all, options);
  options.order = wanted_order(options);
  std::optional<shared_segment> segment;
  static_cast<void>(host_rendezvous(all, segment, [] {}));
  return std::make_unique<process_parts>(std::make_shared<shared_segment>(std::move(*segment)),
                                         all.process(), options);
}

}  // namespace detail

/// One rank's communicator among ranks that are processes of one machine. `blink run -n 4 --
/// program` starts four of them.
///
/// Data crosses in slots of shared memory. Waiting ranks detect the death of a rank within
/// milliseconds. The system frees the memory when the last process ends, however it ends.
///
/// Transport: `slot_transport` takes any buffers. `direct_transport` avoids copies if all buffers
///            are in shared memory (`allocate`, `registered_memory`). `shaped_transport` moves data
///            at the rates of the schedule's links.
template <transport Transport = slot_transport>
class basic_process_communicator : public communicator_base<basic_process_communicator<Transport>>,
                                   public shared_memory_communicator<Transport, lone_thread> {
 public:
  /// Joins the communicator that the environment names (`process_environment`).
  ///
  /// Throws: input_error if a variable is missing or wrong, or if there is no such communicator;
  ///         precondition_error if an option is out of range.
  explicit basic_process_communicator(communicator_options const& options = {})
      : basic_process_communicator(read_process_environment(), options) {}

  /// Joins the communicator whose memory is at `path`, as rank `rank`.
  basic_process_communicator(std::string const& path, int rank,
                             communicator_options const& options = {})
      : basic_process_communicator(std::make_unique<detail::process_parts>(path, rank, options)) {}

  /// Joins the processes of a bootstrap, which need no launcher of blink. All are of one host. Of
  /// the environment, BLINK_ORDER and the variables of `read_record_environment` count.
  ///
  /// Throws: precondition_error on all processes if they are not of one host (or container), or if
  ///         an option or BLINK_ORDER is wrong in one or differs between them; resource_error if
  ///         they cannot share memory; what the bootstrap throws.
  template <process_bootstrap Bootstrap>
  explicit basic_process_communicator(Bootstrap& all, communicator_options const& options = {})
      : basic_process_communicator(detail::join_processes(all, options)) {}

  /// Sets the deadline of this rank's calls from now on. Ranks may have different ones.
  ///
  /// Throws: precondition_error if it is not positive.
  void set_deadline(nanoseconds deadline) {
    auto changed = parts_->options;
    changed.waits.deadline = deadline;
    validate(changed);
    parts_->options = changed;
  }

  /// Returns an array that peers reach directly.
  ///
  /// Throws: resource_error if the shared memory is full.
  template <class T>
  [[nodiscard]] shared_array<T> allocate(std::size_t count) {
    return {parts_->segment, member(), count};
  }
  /// The memory of arrays, and this process's number there, for `shared_memory_resource` and
  /// `registered_memory`.
  [[nodiscard]] std::shared_ptr<shared_segment> const& segment() const { return parts_->segment; }
  [[nodiscard]] int member() const {
    return parts_->members[static_cast<std::size_t>(this->rank())];
  }

  /// True unless peers need to reach the buffer and it is not in shared memory.
  [[nodiscard]] bool is_reachable(void const* buffer, std::size_t bytes) const {
    return !Transport::reaches || parts_->segment->contains(buffer, bytes);
  }

  /// Returns the address of registered memory in the shared memory of this process; any other
  /// address unchanged.
  [[nodiscard]] void* shared_place(void* data) const {
    if constexpr (!Transport::reaches) return data;
    auto const home = parts_->segment->addresses().home_of(reinterpret_cast<std::uintptr_t>(data));
    return reinterpret_cast<void*>(home);
  }

  /// See `messaging_communicator`.
  template <class Messengers = detail::process_messengers>
  [[nodiscard]] messenger& messages() const {
    static_assert(
        requires { sizeof(Messengers); },
        "blink: sends and receives of processes are in "
        "blink/transports/host/process_messengers.hpp, include it");
    auto& own = *parts_;
    auto const make = [&] {
      return new Messengers(own.state, own.options, own.rank, *own.memory, own.key, member());
    };
    return own.messages.get(make).of(own.rank);
  }

  /// Allocates what calls along a schedule need. The same schedule returns the same object again.
  ///
  /// Memory that ranks share is given back if no call has used the schedule for long, and taken
  /// again for the next call (`detail::schedule_store`).
  ///
  /// Time:   O(T V) and the allocation; O(size of the schedules prepared before) if known.
  /// Throws: precondition_error if the schedule is not valid, or is for another number of ranks;
  ///         resource_error if the shared memory is full.
  prepared_schedule& prepare(schedule const& source) { return prepare(source, true); }
  /// See `forgetting_communicator`.
  prepared_schedule& prepare_for_call(schedule const& source) { return prepare(source, false); }

  [[nodiscard]] status enter(prepared_schedule& prepared, call_record const& record) {
    parts_->prepared.use(prepared);
    return shared_memory_communicator<Transport, lone_thread>::enter(prepared, record);
  }

  /// Returns the communicator of the ranks that remain after a failure, in their order, with
  /// separate calls and schedules.
  ///
  /// Every remaining rank calls it. It waits for late ranks until the deadline, but not for ranks
  /// that died or left.
  ///
  /// Throws: collective_error if the other ranks continued without this rank, because it called
  ///         this function too late.
  [[nodiscard]] basic_process_communicator shrink() {
    basic_process_communicator result(
        std::make_unique<detail::process_parts>(*parts_, this->agree_on_survivors()));
    result.tuning().allow_other_rank_counts();
    return result;
  }

  /// Memory for the communicator of a part, for its ranks to map; see `split`.
  class part_offer {
   public:
    using path = std::array<char, 64>;  // ends with a 0
    part_offer(basic_process_communicator& whole, rank_selection const& part) {
      if (!part.is_first()) return;
      memory_.emplace(shared_segment::create(static_cast<int>(part.members.size()),
                                             whole.parts_->memory->bytes()));
    }
    [[nodiscard]] path handle() const {
      path result{};
      if (memory_) memory_->path().copy(result.data(), result.size() - 1);
      return result;
    }

   private:
    std::optional<shared_segment> memory_;
  };
  basic_process_communicator(basic_process_communicator& whole, part_offer&,
                             typename part_offer::path const& offered, rank_selection const& part)
      : basic_process_communicator(
            std::make_unique<detail::process_parts>(*whole.parts_, part, offered.data())) {
    this->tuning().allow_other_rank_counts();
  }

 private:
  /// The source of memory that calls need besides the caller's buffers. Peers reach it if they
  /// reach buffers.
  [[nodiscard]] memory_source call_memory() const {
    if constexpr (!Transport::reaches) return {};
    using parts = detail::process_parts;
    return {parts_.get(),
            [](void* owner, std::size_t bytes) {
              auto& own = *static_cast<parts*>(owner);
              int const rank = own.members[static_cast<std::size_t>(own.rank)];
              return own.segment->allocate(rank, bytes);
            },
            [](void* owner, void* memory, std::size_t bytes) noexcept {
              static_cast<parts*>(owner)->segment->release(memory, bytes);
            }};
  }
  prepared_schedule& prepare(schedule const& source, bool stays) {
    expect_ranks(source, this->rank_count());
    if (auto* const known = parts_->prepared.find(source, stays)) return *known;
    validate(source);
    auto layout = connection_layout_of<Transport>(parts_->options, source);
    layout.only_rank = this->rank();
    layout.owner = this->owner();
    return parts_->prepared.add(source, layout, parts_->options.costs, call_memory(), stays);
  }
  [[nodiscard]] static communicator_options with_environment(process_environment const& from,
                                                             communicator_options options) {
    options.waits.deadline = from.deadline.value_or(options.waits.deadline);
    if (options.order < from.order) options.order = from.order;
    return options;
  }
  basic_process_communicator(process_environment const& from, communicator_options const& options)
      : basic_process_communicator(from.segment, from.rank, with_environment(from, options)) {
    if (from.rank_count != this->rank_count()) {
      throw input_error("BLINK_RANK_COUNT is " + std::to_string(from.rank_count) +
                        ", the communicator in BLINK_SEGMENT has " +
                        std::to_string(this->rank_count()) + " ranks");
    }
  }
  explicit basic_process_communicator(std::unique_ptr<detail::process_parts> parts)
      : shared_memory_communicator<Transport, lone_thread>(
            parts->options, lone_thread{},
            detail::counted<typename basic_process_communicator::rank_part>::make(parts->state,
                                                                                  parts->rank)),
        parts_(std::move(parts)) {}

  std::unique_ptr<detail::process_parts> parts_;
};

/// A rank that is a process: `blink::process_communicator comm; blink::all_reduce(comm, …);`
using process_communicator = basic_process_communicator<>;
static_assert(communicator<process_communicator> && forgetting_communicator<process_communicator>);

/// A `process_communicator` for buffers in shared memory, which peers access without slots.
using direct_process_communicator = basic_process_communicator<direct_transport>;
static_assert(communicator<direct_process_communicator>);

/// A `process_communicator` over links with the rates of its schedules.
using shaped_process_communicator = basic_process_communicator<shaped_transport>;
static_assert(communicator<shaped_process_communicator>);

}}  // namespace blink::BLINK_ABI
