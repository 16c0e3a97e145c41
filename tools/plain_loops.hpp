// SPDX-License-Identifier: Apache-2.0
#pragma once

// A baseline for this memory: threads that read all inputs and write all outputs by plain loops.

#include <blink/core/collective.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/schedule/block.hpp>

#include "perf_engine.hpp"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace blink::tools {

/// A barrier of threads. If one of them leaves for good, the others get an error.
class meeting_point {
 public:
  explicit meeting_point(int threads) : threads_(static_cast<std::uint64_t>(threads)) {}
  /// spins: tests before the first yield
  void wait(int spins = 200) {
    std::uint64_t const round = arrived_.fetch_add(1) / threads_;
    for (int tests = 0; arrived_.load() / threads_ == round; ++tests) {
      if (has_left_.load()) {
        throw collective_error("another rank failed, expected it at the barrier", -1, -1, -1, -1);
      }
      if (tests > spins) std::this_thread::yield();
    }
  }
  void leave() { has_left_.store(true); }

 private:
  std::uint64_t threads_;
  std::atomic<std::uint64_t> arrived_ = 0;
  std::atomic<bool> has_left_ = false;
};

/// True if plain loops carry out the collective.
[[nodiscard]] constexpr bool has_plain_loops(collective kind) {
  return kind != collective::barrier && kind != collective::send_to_next &&
         kind != collective::permute;
}

/// A collective without schedules, slots and agreement. Every thread computes a share of the result
/// from all inputs and writes it to all outputs, between two barriers.
template <class T>
class plain_loops {
 public:
  plain_loops(collective kind, int root, std::vector<block> blocks)
      : kind_(kind),
        root_(static_cast<std::size_t>(root < 0 ? 0 : root)),
        blocks_(std::move(blocks)),
        inputs_(blocks_.size()),
        outputs_(blocks_.size()),
        meeting_(static_cast<int>(blocks_.size())) {}

  /// Sets the buffers of a rank, before the first call.
  void join(int rank, T const* input, T* output) {
    inputs_[static_cast<std::size_t>(rank)] = input;
    outputs_[static_cast<std::size_t>(rank)] = output;
  }

  /// Ends the calls of the others: this rank takes part in no more.
  void leave() { meeting_.leave(); }

  /// One rank's part of a call of `count` elements, the whole buffer or one segment.
  template <class Reducer>
  void run(int rank, std::size_t count, store stores, Reducer const& reducer) {
    meeting_.wait(spins);
    auto const own = static_cast<std::size_t>(rank);
    auto const ranks = blocks_.size();
    auto const segment = [&](std::size_t of) { return of * count; };
    std::size_t const first = share(count, own), last = share(count, own + 1);
    switch (kind_) {
      case collective::all_reduce:
        combine(first, last, 0, outputs_, stores, reducer);
        break;
      case collective::reduce:
        combine(first, last, 0, {outputs_[root_]}, stores, reducer);
        break;
      case collective::reduce_scatter:
        combine(segment(own), segment(own + 1), segment(own), {outputs_[own]}, stores, reducer);
        break;
      case collective::broadcast:
        copy(outputs_[own], inputs_[root_], count, stores);
        break;
      case collective::scatter:
        copy(outputs_[own], inputs_[root_] + segment(own), count, stores);
        break;
      case collective::gather:
        copy(outputs_[root_] + segment(own), inputs_[own], count, stores);
        break;
      case collective::all_gather:
      case collective::all_to_all:
        for (std::size_t from = 0; from < ranks; ++from) {
          std::size_t const begin = kind_ == collective::all_to_all ? segment(own) : 0;
          copy(outputs_[own] + segment(from), inputs_[from] + begin, count, stores);
        }
        break;
      default:
        break;
    }
    meeting_.wait(spins);
  }

 private:
  static constexpr int spins = 20'000;
  static constexpr std::size_t line = 64 / sizeof(T);

  /// The begin of a rank's share: whole cache lines; the last rank has the rest.
  [[nodiscard]] std::size_t share(std::size_t count, std::size_t rank) const {
    if (rank == blocks_.size()) return count;
    return std::min(count, (count / blocks_.size() + line - 1) / line * line * rank);
  }

  static void copy(T* to, T const* from, std::size_t count, store stores) {
    if (to == from) return;
#if defined(__SSE2__)
    if (stores == store::streams && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
      std::size_t const vectors = count * sizeof(T) / 16;
      auto* const out = reinterpret_cast<__m128i*>(to);
      auto const* const in = reinterpret_cast<__m128i const*>(from);
      for (std::size_t k = 0; k < vectors; ++k) _mm_stream_si128(out + k, _mm_loadu_si128(in + k));
      _mm_sfence();
      std::size_t const done = vectors * 16 / sizeof(T);
      to += done, from += done, count -= done;
    }
#endif
    if (count > 0) std::memcpy(to, from, count * sizeof(T));
  }

  /// Combines elements [first, last) of all inputs and writes them to outputs, `shift` elements
  /// further ahead.
  template <class Reducer>
  void combine(std::size_t first, std::size_t last, std::size_t shift, std::vector<T*> const& to,
               store stores, Reducer const& reducer) const {
    constexpr std::size_t most = 4096 / sizeof(T);  // stays in the first cache
    alignas(64) T total[most];
    auto const ranks = static_cast<int>(blocks_.size());
    for (std::size_t begin = first; begin < last; begin += most) {
      std::size_t const n = std::min(most, last - begin);
      T const* const a = inputs_[0] + begin;
      T const* const b = inputs_[blocks_.size() > 1 ? 1 : 0] + begin;
      if (ranks > 1) {
        for (std::size_t i = 0; i < n; ++i) total[i] = static_cast<T>(reducer(a[i], b[i]));
      } else {
        std::copy_n(a, n, total);
      }
      for (std::size_t rank = 2; rank < inputs_.size(); ++rank) {
        T const* const next = inputs_[rank] + begin;
        for (std::size_t i = 0; i < n; ++i) total[i] = static_cast<T>(reducer(total[i], next[i]));
      }
      if constexpr (has_finish<Reducer, T>) {
        for (std::size_t i = 0; i < n; ++i) {
          total[i] = static_cast<T>(reducer.finish(total[i], ranks));
        }
      }
      for (T* const output : to) copy(output + begin - shift, total, n, stores);
    }
  }

  collective kind_;
  std::size_t root_;
  std::vector<block> blocks_;
  std::vector<T const*> inputs_;
  std::vector<T*> outputs_;
  meeting_point meeting_;
};

}  // namespace blink::tools
