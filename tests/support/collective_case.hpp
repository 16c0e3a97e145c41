// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs one collective on all ranks and compares every element with a serial loop.

#include <blink/collectives.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace blink_test {

/// An element of 12 bytes, no power of two, without a default constructor.
struct triple {
  triple() = delete;
  constexpr triple(int first, int second, int third) : x(first), y(second), z(third) {}
  int x, y, z;
  friend bool operator==(triple const&, triple const&) = default;
};
static_assert(std::is_trivially_copyable_v<triple>);

/// A user's reducer: sum, maximum and exclusive or.
struct triple_reducer {
  constexpr triple operator()(triple const& a, triple const& b) const {
    return {a.x + b.x, a.y < b.y ? b.y : a.y, a.z ^ b.z};
  }
};

/// The map x -> a x + b modulo 251. Composition of such maps is associative and not commutative.
struct affine {
  std::uint8_t a, b;
  friend bool operator==(affine const&, affine const&) = default;
};
struct compose {
  static constexpr bool is_commutative = false;
  constexpr affine operator()(affine const& f, affine const& g) const {
    return {static_cast<std::uint8_t>(f.a * g.a % 251),
            static_cast<std::uint8_t>((f.a * g.b + f.b) % 251)};
  }
};

/// A small value that all types represent exactly, also after sums and products of eight.
template <class T>
T value_from(std::uint64_t bits) {
  auto const small = static_cast<int>(bits >> 33 & 3) + 1;
  if constexpr (std::is_same_v<T, triple>) {
    return {small, static_cast<int>(bits & 0xff), static_cast<int>(bits & 0xffff)};
  } else if constexpr (std::is_same_v<T, affine>) {
    return {static_cast<std::uint8_t>(bits % 250 + 1), static_cast<std::uint8_t>(bits / 7 % 251)};
  } else if constexpr (requires { T::from_bits(bits); }) {
    return T::from_bits(bits);
  } else if constexpr (std::is_unsigned_v<T>) {
    return static_cast<T>(bits);
  } else {
    return static_cast<T>(bits & 4 ? small : -small);
  }
}

template <class T>
T input_element(std::uint64_t seed, int rank, std::size_t index) {
  std::uint64_t bits = seed * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(rank) * 0xd1342543u;
  bits = (bits ^ index) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ bits >> 29) * 0x94d049bb133111ebu;
  return value_from<T>(bits ^ bits >> 32);
}

struct collective_case {
  blink::collective kind = blink::collective::all_reduce;
  std::size_t count = 0;
  bool is_in_place = false;
  std::size_t offset = 0;  ///< of the buffers, in elements from an aligned address
  std::uint64_t seed = 0;
  std::size_t input_shift = 0;   ///< additional bytes; for elements without alignment
  std::size_t output_shift = 0;  ///< equal to `input_shift` for calls in place
};

/// The rank that sends a rank its output, the root for gathers and scatters. -1: the output is
/// unused.
inline int source_of(blink::schedule const& source, blink::collective kind, int rank) {
  if (kind == blink::collective::gather) {
    return rank == blink::flow_end(source.trees[0]) ? rank : -1;
  }
  if (kind == blink::collective::reduce) return rank == blink::root_of(source, kind) ? rank : -1;
  if (kind != blink::collective::send_to_next && kind != blink::collective::permute) {
    return source.trees[0].root;
  }
  for (auto const& tree : source.trees) {
    if (blink::flow_end(tree) == rank) return tree.root;
  }
  return -1;
}

/// The expected element `index` of a rank's output, by a loop over the ranks in order.
///
/// source: `source_of` the rank, not -1
template <class T, class Reducer>
T expected_element(collective_case const& what, int rank_count, int rank, int source,
                   std::size_t index, Reducer const& reduce) {
  std::size_t const own_block = what.count * static_cast<std::size_t>(rank);
  if (!blink::has_reduce_phase(what.kind)) {
    bool const gathers = blink::has_output_blocks(what.kind);
    int const sender = gathers ? static_cast<int>(index / what.count) : source;
    std::size_t const in_block = gathers ? index % what.count : index;
    return input_element<T>(what.seed, sender,
                            (blink::has_input_blocks(what.kind) ? own_block : 0) + in_block);
  }
  if (what.kind == blink::collective::reduce_scatter) index += own_block;
  namespace step = blink::detail;
  using A = blink::accumulator_t<Reducer, T>;
  auto const lifted = [&](int other) {
    return static_cast<A>(
        step::lift(reduce, input_element<T>(what.seed, other, index), {index, other}));
  };
  A total = lifted(0);
  for (int other = 1; other < rank_count; ++other) {
    total = static_cast<A>(reduce(total, lifted(other)));
  }
  return static_cast<T>(step::finish(reduce, total, rank_count, {index, source}));
}

/// A buffer between guard bytes that must not change. It begins `offset` elements and `shift` bytes
/// after a multiple of 16.
template <class T>
class guarded_buffer {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 16);

 public:
  guarded_buffer(std::size_t count, std::size_t offset, std::size_t shift = 0)
      : before_((guard * sizeof(T) + 15) / 16 * 16 + offset * sizeof(T) + shift),
        bytes_(count * sizeof(T)),
        memory_(before_ + bytes_ + guard * sizeof(T), untouched) {
    std::uninitialized_fill_n(data(), count, value_from<T>(0x55aa55aa));
  }
  T* data() { return reinterpret_cast<T*>(memory_.data() + before_); }
  [[nodiscard]] bool is_intact() const {
    auto const is_touched = [](std::byte b) { return b != untouched; };
    auto const end = memory_.begin() + static_cast<std::ptrdiff_t>(before_);
    return std::none_of(memory_.begin(), end, is_touched) &&
           std::none_of(end + static_cast<std::ptrdiff_t>(bytes_), memory_.end(), is_touched);
  }

 private:
  static constexpr std::size_t guard = 9;  // elements
  static constexpr std::byte untouched{0xa6};
  std::size_t before_;
  std::size_t bytes_;
  std::vector<std::byte> memory_;
};

/// The expected element of an output that the call does not write, in place.
template <class T>
T untouched_element(collective_case const& what, int rank, std::size_t index) {
  if (!blink::has_output_blocks(what.kind)) return input_element<T>(what.seed, rank, index);
  std::size_t const own_block = what.count * static_cast<std::size_t>(rank);
  bool const is_own = index >= own_block && index - own_block < what.count;
  return is_own ? input_element<T>(what.seed, rank, index - own_block) : value_from<T>(0x55aa55aa);
}

/// The buffers of one rank for one case.
template <class T>
struct rank_buffers {
  rank_buffers(collective_case const& what, int ranks, int own_rank)
      : rank(own_rank),
        blocks(static_cast<std::size_t>(ranks)),
        input_count(blink::has_input_blocks(what.kind) ? what.count * blocks : what.count),
        output_count(blink::has_output_blocks(what.kind) ? what.count * blocks : what.count),
        inputs(what.is_in_place ? std::max(input_count, output_count) : input_count, what.offset,
               what.input_shift),
        outputs(what.is_in_place ? 0 : output_count, what.offset + (what.seed & 1),
                what.output_shift) {
    std::size_t const own_block = what.count * static_cast<std::size_t>(rank);
    input = inputs.data();
    output = outputs.data();
    if (what.is_in_place) {
      output = input;
      if (blink::has_output_blocks(what.kind)) input += own_block;
      if (blink::has_input_blocks(what.kind)) output += own_block;
      if (what.kind == blink::collective::all_to_all) input = output = inputs.data();
    }
    for (std::size_t k = 0; k < input_count; ++k) input[k] = input_element<T>(what.seed, rank, k);
  }
  int rank;
  std::size_t blocks, input_count, output_count;
  guarded_buffer<T> inputs, outputs;
  T* input = nullptr;
  T* output = nullptr;
};

/// Calls the collective on a rank with its buffers.
template <class Chunks, class Context, class T, class Reducer>
void call_collective(Context& comm, blink::prepared_schedule& prepared, collective_case const& what,
                     T const* input, T* output, Reducer const& reducer) {
  switch (what.kind) {
    case blink::collective::broadcast:
      return blink::broadcast<Chunks>(comm, prepared, input, output, what.count);
    case blink::collective::reduce:
      return blink::reduce<Chunks>(comm, prepared, input, output, what.count, reducer);
    case blink::collective::all_reduce:
      return blink::all_reduce<Chunks>(comm, prepared, input, output, what.count, reducer);
    case blink::collective::all_gather:
      return blink::all_gather<Chunks>(comm, prepared, input, output, what.count);
    case blink::collective::reduce_scatter:
      return blink::reduce_scatter<Chunks>(comm, prepared, input, output, what.count, reducer);
    case blink::collective::gather:
      return blink::gather<Chunks>(comm, prepared, input, output, what.count);
    case blink::collective::scatter:
      return blink::scatter<Chunks>(comm, prepared, input, output, what.count);
    case blink::collective::all_to_all:
      return blink::all_to_all<Chunks>(comm, prepared, input, output, what.count);
    case blink::collective::send_to_next:
      return blink::send_to_next<Chunks>(comm, prepared, input, output, what.count);
    case blink::collective::permute:
      return blink::permute<Chunks>(comm, prepared, input, output, what.count);
    case blink::collective::barrier:
      return blink::barrier(comm, prepared);
  }
}

/// Compares a rank's buffers after the call with the expected ones; empty if nothing is wrong.
template <class T, class Reducer>
std::string what_is_wrong(collective_case const& what, blink::schedule const& source,
                          rank_buffers<T>& mine, Reducer const& reducer) {
  if (!mine.inputs.is_intact() || !mine.outputs.is_intact()) return "wrote outside of the buffers";
  if (what.kind == blink::collective::barrier) return "";
  int const from = source_of(source, what.kind, mine.rank);
  for (std::size_t k = 0; k < mine.output_count; ++k) {
    // In place, elements that the call does not write hold the input.
    T const expected =
        from >= 0 ? expected_element<T>(what, source.rank_count, mine.rank, from, k, reducer)
        : what.is_in_place ? untouched_element<T>(what, mine.rank, k)
                           : value_from<T>(0x55aa55aa);
    if (mine.output[k] == expected) continue;
    return "element " + std::to_string(k) + " of " + std::to_string(mine.output_count);
  }
  return "";
}

/// The ranks that live in this process: all thread ranks, or the communicator's own rank.
template <class Ranks>
std::vector<int> ranks_here(Ranks const& threads) {
  if constexpr (requires { threads.rank(); }) {
    return {threads.rank()};
  } else {
    std::vector<int> all(static_cast<std::size_t>(threads.rank_count()));
    for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank] = static_cast<int>(rank);
    return all;
  }
}

/// Runs the case `repeats` times with fresh inputs. Returns the faults in this process, or an empty
/// text.
template <class T, class Chunks = blink::scheduled_chunks, class Ranks, class Reducer>
std::string run_case(Ranks& threads, blink::schedule const& source, collective_case const& first,
                     Reducer const& reducer, int repeats = 1) {
  auto& prepared = threads.prepare(source);
  int const ranks = threads.rank_count();
  std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
  // Made here, because the threads of a team share them.
  std::vector<std::vector<rank_buffers<T>>> buffers(static_cast<std::size_t>(repeats));
  for (int repeat = 0; repeat < repeats; ++repeat) {
    auto what = first;
    what.seed += static_cast<std::uint64_t>(repeat) * 1000003;
    for (int rank = 0; rank < ranks; ++rank) {
      buffers[static_cast<std::size_t>(repeat)].emplace_back(what, ranks, rank);
    }
  }
  threads.run([&](auto& comm) {
    for (auto& all : buffers) {
      auto& mine = all[static_cast<std::size_t>(comm.rank())];
      call_collective<Chunks>(comm, prepared, first, static_cast<T const*>(mine.input), mine.output,
                              reducer);
      comm.group().sync();
      // The inputs belong to the caller again: no rank reads them any more.
      if (comm.group().thread_rank() == 0 && !first.is_in_place) {
        for (std::size_t k = 0; k < mine.input_count; ++k) mine.input[k] = value_from<T>(k);
      }
    }
  });
  for (int repeat = 0; repeat < repeats; ++repeat) {
    auto what = first;
    what.seed += static_cast<std::uint64_t>(repeat) * 1000003;
    for (int const rank : ranks_here(threads)) {
      auto& mine = buffers[static_cast<std::size_t>(repeat)][static_cast<std::size_t>(rank)];
      auto const complain = [&](std::string const& text) {
        wrong[static_cast<std::size_t>(rank)] =
            "rank " + std::to_string(rank) + ", repeat " + std::to_string(repeat) + ": " + text;
      };
      auto const text = what_is_wrong(what, source, mine, reducer);
      if (!text.empty()) complain(text);
    }
  }
  std::string all;
  for (auto const& text : wrong) {
    if (!text.empty()) all += text + "\n";
  }
  return all;
}

}  // namespace blink_test
