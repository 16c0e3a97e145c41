// SPDX-License-Identifier: Apache-2.0
#pragma once

// The requirements of every reducer, as a suite. A new reducer is a case and one line.
//
// A case names `element` and has these members:
// - `reducer()`;
// - `input(dice)`, a random element;
// - `expected(inputs)`, the result for the inputs of all ranks in order, computed another way;
// - `agrees(got, expected, inputs)`, true if a result is within the error that the reducer states;
// - `is_exact`, true if every order must give the same bits;
// - `neutral()`, optional.

#include <blink/collectives.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/emulated_blocks.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink_test {

/// Random numbers that are cheap to seed.
struct dice {
  std::uint64_t state = 0;
  std::uint64_t operator()() {
    state += 0x9e3779b97f4a7c15u;
    std::uint64_t bits = (state ^ state >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return bits ^ bits >> 31;
  }
  int below(int bound) {
    return static_cast<int>(operator()() % static_cast<std::uint64_t>(bound));
  }
  /// A random number from -1 to 1.
  double signed_unit() { return static_cast<double>(operator()() >> 11) * 0x1p-52 - 1.0; }
};

/// True if the bits are equal, so that -0 differs from 0 and a NaN equals itself.
template <class T>
bool same_bits(T const& a, T const& b) {
  if constexpr (std::same_as<T, float>) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  } else if constexpr (std::same_as<T, double>) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  } else {
    return a == b;
  }
}

/// Defaults of cases: a reducer without state whose results are exact.
template <class Element, class Reducer>
struct reducer_case {
  using element = Element;
  static constexpr bool is_exact = true;
  static Reducer reducer() { return {}; }
  static bool agrees(Element const& got, Element const& expected, std::vector<Element> const&) {
    return same_bits(got, expected);
  }
};

/// The steps of a reducer one by one, on inputs of ranks 0, 1, 2, …
template <class Case>
class stepwise {
 public:
  using T = typename Case::element;
  using R = decltype(Case::reducer());
  using A = blink::accumulator_t<R, T>;
  static_assert(blink::reducer_for<R, T>);

  explicit stepwise(std::vector<T> const& inputs) {
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      parts_.push_back(
          static_cast<A>(blink::detail::lift(reduce_, inputs[rank], {3, static_cast<int>(rank)})));
    }
  }
  void shuffle(dice& random) {
    for (std::size_t k = parts_.size(); k > 1; --k) {
      std::swap(parts_[k - 1], parts_[random() % k]);
    }
  }
  /// Combines neighbours at random places until one is left. Some cross a connection on the way.
  T result(dice& random, bool crosses) {
    int const ranks = static_cast<int>(parts_.size());
    auto left = parts_;
    while (left.size() > 1) {
      std::size_t const at = random() % (left.size() - 1);
      A other = left[at + 1];
      if (crosses && random() % 2 == 0) {
        other = static_cast<A>(blink::detail::receive<T>(
            reduce_, blink::detail::send(reduce_, other, {3, random.below(ranks)})));
      }
      left[at] = static_cast<A>(reduce_(left[at], other));
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    return static_cast<T>(blink::detail::finish(reduce_, left[0], ranks, {3, 0}));
  }

 private:
  R reduce_ = Case::reducer();
  std::vector<A> parts_;
};

/// Runs one collective by `call(inputs, outputs)`, with pointers by rank, and compares the results.
/// Returns the faults, including those that `call` returns; empty if nothing is wrong.
template <class Case, class Call>
std::string check_reducer(blink::schedule const& trees, blink::collective kind, std::size_t count,
                          bool in_place, std::uint64_t seed, Call const& call) {
  using T = typename Case::element;
  auto const ranks = static_cast<std::size_t>(trees.rank_count);
  bool const scatters = kind == blink::collective::reduce_scatter;
  std::size_t const all = scatters ? ranks * count : count;
  std::vector<std::vector<T>> inputs(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    dice random{seed * 1000 + rank};
    for (std::size_t k = 0; k < all; ++k) inputs[rank].push_back(Case::input(random));
  }
  auto buffers = inputs;
  std::vector<std::vector<T>> outputs(ranks, std::vector<T>(count, T{}));
  std::vector<void const*> from;
  std::vector<void*> to;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    T* const input = buffers[rank].data();
    from.push_back(input);
    to.push_back(in_place ? input + (scatters ? rank * count : 0) : outputs[rank].data());
  }
  std::string const failure = call(from, to);
  if (!failure.empty()) return failure;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (kind == blink::collective::reduce && static_cast<int>(rank) != blink::root_of(trees, kind))
      continue;
    std::size_t const first = scatters ? rank * count : 0;
    for (std::size_t k = 0; k < count; ++k) {
      std::vector<T> of_ranks;
      for (auto const& input : inputs) of_ranks.push_back(input[first + k]);
      T const& got = static_cast<T const*>(to[rank])[k];
      if (!Case::agrees(got, Case::expected(of_ranks), of_ranks)) {
        return "rank " + std::to_string(rank) + ", element " + std::to_string(k) + " of " +
               std::to_string(count);
      }
    }
  }
  return {};
}

/// Runs one collective on all ranks of a communicator; empty if nothing is wrong.
template <class Case, class Ranks>
std::string run_reducer(Ranks& all_threads, blink::schedule const& trees, blink::collective kind,
                        std::size_t count, bool in_place, std::uint64_t seed) {
  using T = typename Case::element;
  return check_reducer<Case>(
      trees, kind, count, in_place, seed, [&](auto const& inputs, auto const& outputs) {
        all_threads.run([&](auto& comm) {
          auto const rank = static_cast<std::size_t>(comm.rank());
          auto const reducer = Case::reducer();
          blink::detail::run_collective<blink::scheduled_chunks>(
              comm, comm.prepare(trees), kind, static_cast<T const*>(inputs[rank]),
              static_cast<T*>(outputs[rank]), count, reducer);
        });
        return std::string();
      });
}

/// Runs one collective by the blocks of a kernel. With chunks, blocks read each other's buffers;
/// packets carry all data.
template <class Case, class Protocol>
std::string run_reducer_in_blocks(blink::schedule const& trees, blink::collective kind,
                                  std::size_t count, bool in_place, std::uint32_t block_threads) {
  using T = typename Case::element;
  emulation how;
  how.block_threads = block_threads;
  using transport = std::conditional_t<std::is_same_v<Protocol, blink::small_packets>,
                                       blink::slot_peer_transport, blink::reaching_peer_transport>;
  emulated_device<transport, Protocol> device(trees, how);
  return check_reducer<Case>(trees, kind, count, in_place, count + block_threads,
                             [&](auto const& inputs, auto const& outputs) {
                               return device.template walk<T>(kind, count, inputs, outputs,
                                                              Case::reducer());
                             });
}

template <class Case>
class reducer_conformance : public testing::Test {
 protected:
  using T = typename Case::element;
  using R = decltype(Case::reducer());
  static constexpr bool combines_elements = blink::combines_elements<R, T>;
  static constexpr bool is_commutative = blink::is_commutative<R>;
  static constexpr bool fits_into_packets = blink::packets_of::carries(blink::sizes_of<R, T>());

  static std::vector<T> random_inputs(dice& random) {
    std::vector<T> inputs;
    for (int k = 1 + random.below(9); k > 0; --k) inputs.push_back(Case::input(random));
    return inputs;
  }
  template <class Ranks>
  static void all_collectives(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 7);
    blink::communicator_options options;
    options.slot_bytes = 300 + random() % 1000;
    Ranks all_threads(ranks, options);
    for (auto const kind : {blink::collective::all_reduce, blink::collective::reduce,
                            blink::collective::reduce_scatter}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << to_text(kind));
      auto const trees = is_commutative
                             ? random_schedule(random, ranks, kind)
                             : (kind == blink::collective::reduce ? blink::chain_schedule(ranks, 0)
                                                                  : blink::star_schedule(ranks));
      std::size_t const count = random() % (seed % 2 == 0 ? 30 : 200);
      EXPECT_EQ(run_reducer<Case>(all_threads, trees, kind, count, random() % 2 == 0, seed), "");
    }
  }
};
TYPED_TEST_SUITE_P(reducer_conformance);

TYPED_TEST_P(reducer_conformance, is_associative_and_commutative_within_its_error) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    dice random{seed};
    auto const inputs = this->random_inputs(random);
    auto const expected = TypeParam::expected(inputs);
    stepwise<TypeParam> steps(inputs);
    auto const first = steps.result(random, false);
    ASSERT_TRUE(TypeParam::agrees(first, expected, inputs));
    if (blink::is_commutative<decltype(TypeParam::reducer())>) steps.shuffle(random);
    auto const second = steps.result(random, true);
    ASSERT_TRUE(TypeParam::agrees(second, expected, inputs));
    if constexpr (TypeParam::is_exact) {
      ASSERT_TRUE(same_bits(first, second));
    }
  }
}

TYPED_TEST_P(reducer_conformance, keeps_what_is_combined_with_its_neutral_element) {
  if constexpr (requires { TypeParam::neutral(); }) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      dice random{seed};
      auto const input = TypeParam::input(random);
      auto const reduce = TypeParam::reducer();
      using A = blink::accumulator_t<decltype(TypeParam::reducer()), typename TypeParam::element>;
      auto const lifted = static_cast<A>(blink::detail::lift(reduce, input, {}));
      A const neutral = TypeParam::neutral();
      auto const ends = [&](A const& total) {
        return static_cast<typename TypeParam::element>(
            blink::detail::finish(reduce, total, 1, {}));
      };
      auto const alone = ends(lifted);
      EXPECT_TRUE(same_bits(ends(static_cast<A>(reduce(neutral, lifted))), alone)) << seed;
      EXPECT_TRUE(same_bits(ends(static_cast<A>(reduce(lifted, neutral))), alone)) << seed;
    }
  }
}

TYPED_TEST_P(reducer_conformance, gives_what_a_loop_over_the_ranks_gives) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    this->template all_collectives<blink::thread_ranks>(seed);
    if constexpr (!TestFixture::combines_elements) {  // other elements are plain bytes in slots
      this->template all_collectives<blink::basic_thread_ranks<blink::slot_transport>>(seed + 100);
    }
  }
}

TYPED_TEST_P(reducer_conformance, gives_that_in_blocks_of_a_kernel_too) {
  // Some ranks are inner ranks, so that partial results also cross connections.
  auto const deep =
      TestFixture::is_commutative ? blink::binomial_schedule(5, 1) : blink::chain_schedule(4, 0);
  auto const flat = blink::star_schedule(3);
  for (auto const kind : {blink::collective::all_reduce, blink::collective::reduce,
                          blink::collective::reduce_scatter}) {
    auto const& trees = kind == blink::collective::reduce_scatter ? flat : deep;
    for (std::uint32_t const threads : {1U, 3U}) {
      bool const in_place = (static_cast<unsigned>(kind) + threads) % 2 == 0;
      SCOPED_TRACE(testing::Message()
                   << to_text(kind) << ", threads " << threads << ", in place " << in_place);
      EXPECT_EQ((run_reducer_in_blocks<TypeParam, blink::whole_chunks>(trees, kind, 71, in_place,
                                                                       threads)),
                "");
      if constexpr (TestFixture::fits_into_packets) {
        EXPECT_EQ((run_reducer_in_blocks<TypeParam, blink::small_packets>(trees, kind, 37, in_place,
                                                                          threads)),
                  "");
      }
    }
  }
}

REGISTER_TYPED_TEST_SUITE_P(reducer_conformance, is_associative_and_commutative_within_its_error,
                            keeps_what_is_combined_with_its_neutral_element,
                            gives_what_a_loop_over_the_ranks_gives,
                            gives_that_in_blocks_of_a_kernel_too);

}  // namespace blink_test
