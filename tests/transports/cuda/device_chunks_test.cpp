// SPDX-License-Identifier: Apache-2.0
// How kernels move chunks, tested without a GPU: 16 bytes at a time if all addresses allow it, the
// rest by elements. Buffers lie at every address, and counts are around whole packs. Elements and
// partial results have many sizes. Results are exact compared with a loop. An access of 16 bytes at
// an unaligned address ends the program.

#include <blink/collectives.hpp>

#include "support/emulated_blocks.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

// The sources of a folder may be compiled as one.
namespace device_chunks_test { namespace {

using blink_test::collective_case;
using blink_test::emulated_device;
using blink_test::emulation;

/// N bytes, all different, at any address.
template <std::size_t N>
struct loose {
  std::array<std::uint8_t, N> bytes;

  static loose from_bits(std::uint64_t bits) {
    loose result{};
    for (auto& byte : result.bytes) {
      byte = static_cast<std::uint8_t>(bits >> 56);
      bits = (bits + 1) * 0xd1342543de82ef95u;
    }
    return result;
  }
  friend bool operator==(loose const&, loose const&) = default;
};
static_assert(alignof(loose<16>) == 1 && sizeof(loose<12>) == 12);

template <class To, class From, std::size_t N>
std::array<To, N> each_as(std::array<From, N> const& from) {
  std::array<To, N> to{};
  for (std::size_t k = 0; k < N; ++k) to[k] = static_cast<To>(from[k]);
  return to;
}
template <class Word, std::size_t N>
std::array<Word, N> sum_of(std::array<Word, N> const& a, std::array<Word, N> const& b) {
  std::array<Word, N> total{};
  for (std::size_t k = 0; k < N; ++k) total[k] = static_cast<Word>(a[k] + b[k]);
  return total;
}

/// Sums of bytes, combined as they are.
struct byte_sums {
  template <std::size_t N>
  loose<N> operator()(loose<N> const& a, loose<N> const& b) const {
    return {sum_of(a.bytes, b.bytes)};
  }
};

/// The same in words: connections carry another type, the accumulator.
template <class Word>
struct word_sums {
  template <std::size_t N>
  using words = std::array<Word, N>;

  template <std::size_t N>
  words<N> lift(loose<N> const& value) const {
    return each_as<Word>(value.bytes);
  }
  template <std::size_t N>
  words<N> operator()(words<N> const& a, words<N> const& b) const {
    return sum_of(a, b);
  }
  template <std::size_t N>
  loose<N> finish(words<N> const& total, int) const {
    return {each_as<std::uint8_t>(total)};
  }
};

/// Sums in words that connections carry as another type.
template <class Word, class Sent>
struct sent_sums : word_sums<Word> {
  template <std::size_t N>
  std::array<Sent, N> send(std::array<Word, N> const& total) const {
    return each_as<Sent>(total);
  }
  template <std::size_t N>
  std::array<Word, N> recv(std::array<Sent, N> const& sent) const {
    return each_as<Word>(sent);
  }
};

/// Connections carry a smaller type than buffers; small integers are still exact.
struct halved_sums {
  double operator()(double a, double b) const { return a + b; }
  float send(double total) const { return static_cast<float>(total); }
  double recv(float sent) const { return sent; }
};

/// A random schedule with few trees, which take few threads.
blink::schedule small_schedule(std::mt19937_64& random, blink::collective kind) {
  auto source = blink_test::random_schedule(random, 2, kind);
  while (source.trees.size() > 2) source = blink_test::random_schedule(random, 2, kind);
  return source;
}

template <class Transport, class T, class Reducer>
void walk_everywhere(Reducer const& reduce) {
  constexpr std::array kinds{blink::collective::all_reduce, blink::collective::reduce_scatter,
                             blink::collective::all_gather};
  std::mt19937_64 random(sizeof(T));
  auto const some_shift = [&] { return random() % 16 / alignof(T) * alignof(T); };
  for (std::uint32_t const threads : {1U, 3U}) {
    for (std::size_t part = 0; part < kinds.size(); ++part) {
      auto const kind = kinds[(part + threads) % kinds.size()];
      auto const source = small_schedule(random, kind);
      emulation how;
      how.block_threads = threads;
      how.slot_bytes = 1024;
      emulated_device<Transport> device(source, how);
      auto const run = [&](std::size_t count) {
        collective_case what{kind, count, false, 0, random() * 2};
        if (random() % 3 != 0) {
          what.input_shift = some_shift();
          what.output_shift = some_shift();
        }
        SCOPED_TRACE(testing::Message()
                     << sizeof(T) << " bytes each, " << to_text(kind) << ", count " << count
                     << ", threads " << threads << ", shifts " << what.input_shift << " and "
                     << what.output_shift);
        ASSERT_EQ(device.template run<T>(what, reduce), "");
      };
      // Every count once, distributed over the kinds and numbers of threads.
      std::size_t const first = part + (threads == 3 ? kinds.size() : 0);
      for (std::size_t count = first; count <= 70; count += 2 * kinds.size()) run(count);
      run(256 + part);
    }
  }
}

template <class Transport, class Reducer>
void walk_every_size(Reducer const& reduce) {
  walk_everywhere<Transport, loose<1>>(reduce);
  walk_everywhere<Transport, loose<2>>(reduce);
  walk_everywhere<Transport, loose<4>>(reduce);
  walk_everywhere<Transport, loose<8>>(reduce);
  walk_everywhere<Transport, loose<12>>(reduce);
  walk_everywhere<Transport, loose<16>>(reduce);
}

TEST(device_chunks, elements_combined_as_they_are) {
  walk_every_size<blink::slot_peer_transport>(byte_sums{});
}

TEST(device_chunks, elements_combined_in_peers_buffers) {
  walk_every_size<blink::reaching_peer_transport>(byte_sums{});
}

TEST(device_chunks, accumulators_of_the_same_size) {
  walk_every_size<blink::slot_peer_transport>(word_sums<std::uint8_t>{});
}

TEST(device_chunks, larger_accumulators) {
  walk_every_size<blink::slot_peer_transport>(word_sums<std::uint32_t>{});
}

TEST(device_chunks, partial_results_of_another_size) {
  walk_every_size<blink::slot_peer_transport>(sent_sums<std::uint64_t, std::uint16_t>{});
  walk_everywhere<blink::slot_peer_transport, double>(halved_sums{});
}

TEST(device_chunks, partial_results_of_another_size_in_peers_buffers) {
  walk_every_size<blink::reaching_peer_transport>(sent_sums<std::uint32_t, std::uint8_t>{});
  walk_everywhere<blink::reaching_peer_transport, double>(halved_sums{});
}

}}  // namespace device_chunks_test
