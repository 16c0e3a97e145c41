// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/fingerprint.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/detail/call_frame.hpp>
#include <blink/running/call/detail/steps_of_calls.hpp>
#include <blink/running/call/session.hpp>
#include <blink/running/call/world_options.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/host/process_environment.hpp>
#include <blink/transports/host/shared_segment.hpp>
#include <blink/transports/host/shared_session.hpp>
#include <blink/transports/host/slots.hpp>
#include <blink/transports/host/threads.hpp>
#include <blink/transports/host/world_state.hpp>

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

/// Elements in memory that the processes of a world share, so that peers reach them directly; all
/// bytes 0 at first. Belongs to one process, which reuses the memory when the array goes.
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

/// What a process of a world owns; it stays where it is when the world is moved.
class process_parts final : public life_signs {
 public:
  /// Joins all ranks of a segment.
  process_parts(std::string const& path, int its_rank, world_options const& its_options)
      : segment(std::make_shared<shared_segment>(shared_segment::open(path))),
        memory(segment),
        options(spinning_no_longer_than_fits(its_options, segment->rank_count())),
        rank(its_rank),
        state(memory->state()) {
    validate(options);
    segment->claim(rank);
    for (int peer = 0; peer < segment->rank_count(); ++peer) members.push_back(peer);
    state.set_life_signs(this);
    state.set_addresses(segment->begin(), segment->addresses());
  }
  /// Goes on with some ranks of `from` in the same memory.
  process_parts(process_parts const& from, rank_selection const& part)
      : segment(from.segment),
        memory(from.memory),
        options(from.options),
        rank(part.rank),
        key(key_of(from.key, part.members)),
        state(
            static_cast<int>(part.members.size()),
            memory->find_or_make(key, world_state::bytes(static_cast<int>(part.members.size())))) {
    join(from, part);
  }
  /// Goes on with some ranks of `from` in memory of their own.
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

  [[nodiscard]] bool has_died(int peer) const override {
    return segment->has_died(members[static_cast<std::size_t>(peer)]);
  }
  [[nodiscard]] std::string describe(int peer) const override {
    return segment->describe(members[static_cast<std::size_t>(peer)]);
  }

  std::shared_ptr<shared_segment> segment;  // buffers and signs of life
  std::shared_ptr<shared_segment> memory;   // of this world: its state and its wires
  world_options options;
  int rank;
  std::uint64_t key = 0;     // of this world in its memory
  std::vector<int> members;  // by rank of this world, the rank in the segment
  world_state state;
  std::vector<std::unique_ptr<prepared_schedule>> prepared;

 private:
  void join(process_parts const& from, rank_selection const& part) {
    for (int const member : part.members) {
      members.push_back(from.members[static_cast<std::size_t>(member)]);
    }
    state.set_life_signs(this);
    state.set_addresses(segment->begin(), segment->addresses());
  }
  [[nodiscard]] static std::uint64_t key_of(std::uint64_t from, std::vector<int> const& members) {
    fingerprint result;
    result.add(from);
    result.add(members);
    return result.value();
  }
};

}  // namespace detail

/// One rank of a world whose ranks are processes of one machine: what its collectives are called
/// with. `blink run -n 4 -- program` starts four of them.
///
/// Data crosses in slots of shared memory. A rank that dies is found dead within milliseconds by
/// those who wait for it; whatever happens, the memory is gone with the last process.
///
/// Link: how bytes pass: `slot_link`, whatever the buffers; `direct_link`, without a copy on the way,
///       if all buffers lie in shared memory (`allocate`, `registered_memory`); `shaped_link` for links as slow as the schedule says.
template <transport Link = slot_link>
class basic_process_world : public shared_session<Link, lone_thread> {
 public:
  /// Joins the world that the environment names (`process_environment`).
  ///
  /// Throws: input_error if a variable is missing or wrong, or if there is no such world;
  ///         precondition_error if an option is out of range.
  explicit basic_process_world(world_options const& options = {})
      : basic_process_world(read_process_environment(), options) {}

  /// Joins the world whose memory is at `path`, as rank `rank`.
  basic_process_world(std::string const& path, int rank, world_options const& options = {})
      : basic_process_world(std::make_unique<detail::process_parts>(path, rank, options)) {}

  /// An array that peers reach directly.
  ///
  /// Throws: resource_error if the shared memory is full.
  template <class T>
  [[nodiscard]] shared_array<T> allocate(std::size_t count) {
    return {parts_->segment, member(), count};
  }
  /// Where arrays lie, and this process's number there; for `shared_memory_resource` and `registered_memory`.
  [[nodiscard]] std::shared_ptr<shared_segment> const& segment() const { return parts_->segment; }
  [[nodiscard]] int member() const {
    return parts_->members[static_cast<std::size_t>(this->rank())];
  }

  /// Is it in shared memory, if peers should reach it?
  [[nodiscard]] bool is_reachable(void const* buffer, std::size_t bytes) const {
    return !Link::reaches || parts_->segment->contains(buffer, bytes);
  }

  /// Where registered memory lies among the arrays of this process; other addresses as they are.
  [[nodiscard]] void* shared_place(void* data) const {
    if constexpr (!Link::reaches) return data;
    auto const home = parts_->segment->addresses().home_of(reinterpret_cast<std::uintptr_t>(data));
    return reinterpret_cast<void*>(home);
  }

  /// See `detail::call_steps`.
  [[nodiscard]] detail::call_steps<basic_process_world> const& steps() const { return *steps_; }

  /// Allocates what calls along `plan` need; the same schedule again returns the same object.
  ///
  /// Time:   O(T V) and the allocation; O(size of the schedules prepared before) if known.
  /// Throws: precondition_error if it is not a schedule, or for another number of ranks;
  ///         resource_error if the shared memory is full.
  prepared_schedule& prepare(schedule const& plan) {
    expect_ranks(plan, this->rank_count());
    for (auto& known : parts_->prepared) {
      if (known->source() == plan) return *known;
    }
    validate(plan);
    auto layout = wire_layout_of<Link>(parts_->options, plan);
    layout.only_rank = this->rank();
    layout.owner = this->owner();
    detail::fingerprint key;
    key.add(parts_->key);
    key.add(fingerprint(plan, layout, parts_->options.costs));
    layout.ranks_share =
        parts_->memory->find_or_make(key.value(), wire_tables::shared_bytes(plan, layout));
    return *parts_->prepared.emplace_back(
        std::make_unique<prepared_schedule>(plan, layout, parts_->options.costs, call_memory()));
  }

  /// After a failure: the world of the ranks that are left, in their order, with calls and schedules
  /// of its own. Every rank that goes on calls it; it waits for those that do not for as long as
  /// the deadline, and not at all for those that died or left.
  ///
  /// Throws: collective_error if the others went on without this rank, because it came too late.
  [[nodiscard]] basic_process_world shrink() {
    return basic_process_world(
        std::make_unique<detail::process_parts>(*parts_, this->agree_on_survivors()));
  }

  /// Memory for the world of a part, for its ranks to map; see `split`.
  class part_offer {
   public:
    using path = std::array<char, 64>;  // ends with a 0
    part_offer(basic_process_world& whole, rank_selection const& part) {
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
  basic_process_world(basic_process_world& whole, part_offer&,
                      typename part_offer::path const& offered, rank_selection const& part)
      : basic_process_world(
            std::make_unique<detail::process_parts>(*whole.parts_, part, offered.data())) {}

 private:
  /// What calls need beside the caller's buffers lies where peers reach it, if they do.
  [[nodiscard]] memory_source call_memory() const {
    if constexpr (!Link::reaches) return {};
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
  basic_process_world(process_environment const& from, world_options options)
      : basic_process_world(
            from.segment, from.rank,
            (options.waits.deadline = from.deadline.value_or(options.waits.deadline), options)) {
    if (from.rank_count != this->rank_count()) {
      throw input_error("BLINK_RANK_COUNT is " + std::to_string(from.rank_count) +
                        ", the world in BLINK_SEGMENT has " + std::to_string(this->rank_count()) +
                        " ranks");
    }
  }
  explicit basic_process_world(std::unique_ptr<detail::process_parts> parts)
      : shared_session<Link, lone_thread>(
            parts->state, parts->options, parts->rank, lone_thread{},
            detail::counted<typename basic_process_world::rank_part>::make(
                parts->state.rank_count())),
        parts_(std::move(parts)) {}

  std::unique_ptr<detail::process_parts> parts_;
  detail::call_steps<basic_process_world> const* steps_ =
      &detail::steps_of_calls<basic_process_world>;
};

/// A rank that is a process: `blink::process_world me; blink::all_reduce(me, …);`
using process_world = basic_process_world<>;
static_assert(session<process_world>);
static_assert(detail::steps_carrying_session<process_world>);

/// The same for buffers in shared memory: as quick as threads.
using direct_process_world = basic_process_world<direct_link>;
static_assert(session<direct_process_world>);

/// The same over links with the rates that its schedules name.
using shaped_process_world = basic_process_world<shaped_link>;
static_assert(session<shaped_process_world>);

}}  // namespace blink::BLINK_ABI
