// SPDX-License-Identifier: Apache-2.0
#pragma once

// Minimal models of the concepts of the running side. Algorithms may use only their operations.

#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/schedule/chunking.hpp>

#include <cstddef>
#include <cstdint>

namespace blink_test {

struct least_group {
  std::uint32_t thread_rank() const { return 0; }
  std::uint32_t size() const { return 1; }
  void sync() const {}
  bool from_leader(bool said) const { return said; }
};
static_assert(blink::thread_group<least_group>);

/// A transport without peers.
struct least_transport {
  least_transport() = delete;
  explicit constexpr least_transport(int) {}
  int rank() const { return 0; }
  int rank_count() const { return 1; }
  std::size_t slot_bytes() const { return 64; }
  bool is_present(int) const { return true; }
  bool is_aborted() const { return false; }
  bool has_credit(std::uint32_t, std::uint64_t) const { return false; }
  std::byte* outbox(std::uint32_t, std::uint64_t) const { return nullptr; }
  void post(std::uint32_t, std::uint64_t, std::size_t) const {}
  bool has_arrived(std::uint32_t, std::uint64_t) const { return false; }
  std::byte const* inbox(std::uint32_t, std::uint64_t) const { return nullptr; }
  void consume(std::uint32_t, std::uint64_t) const {}
  bool consumed(std::uint32_t, std::uint64_t) const { return false; }
};
static_assert(blink::transport<least_transport> && !blink::reaching_transport<least_transport>);

struct least_reaching_transport : least_transport {
  using least_transport::least_transport;
  void const* input_of(int) const { return nullptr; }
  void* output_of(int) const { return nullptr; }
};
static_assert(blink::reaching_transport<least_reaching_transport>);

struct least_wait {
  least_wait() = default;
  least_wait(least_wait const&) = delete;
  blink::status on_progress() { return blink::status::ok; }
  blink::status on_idle() { return blink::status::timed_out; }
  std::uint64_t now() { return 0; }
};
static_assert(blink::wait_policy<least_wait>);

/// An element that can be copied as bytes. It has no default constructor, assignment or comparison.
struct least_element {
  least_element() = delete;
  explicit constexpr least_element(int its_value) : value(its_value) {}
  int const value;
};

struct least_reducer {
  least_element operator()(least_element const& a, least_element const& b) const {
    return least_element(a.value + b.value);
  }
};
static_assert(blink::reducer_for<least_reducer, least_element>);
static_assert(!blink::has_finish<least_reducer, least_element>);

struct least_chunks {
  static std::size_t elements(blink::chunk_request const&) { return 3; }
};
static_assert(blink::chunking<least_chunks>);

// Types that lack one requirement each.
struct no_leader {
  std::uint32_t thread_rank() const { return 0; }
  std::uint32_t size() const { return 1; }
  void sync() const {}
};
static_assert(!blink::thread_group<no_leader>);
struct counting_chunks : least_chunks {
  int count;
};
static_assert(!blink::chunking<counting_chunks>, "a policy is a type, not a value");
struct owning_transport : least_transport {
  using least_transport::least_transport;
  ~owning_transport() {}
};
static_assert(!blink::transport<owning_transport>, "links enter kernels as bytes");
struct changing_reducer {
  int operator()(int a, int b) { return a + b; }
};
static_assert(!blink::reducer_for<changing_reducer, int>, "reducers are called as constants");

}  // namespace blink_test
