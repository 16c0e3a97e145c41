// SPDX-License-Identifier: Apache-2.0
#include <blink/reducers/arithmetic.hpp>
#include <blink/running/walk/detail/stream_copy.hpp>
#include <blink/running/walk/detail/streamed_sum.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace streamed_sum_test {

using blink::detail::streamed_sum;

constexpr std::size_t line = blink::detail::streamed_line;

/// Elements at an offset from the begin of a line, between elements that must not change.
template <class T>
class guarded {
 public:
  guarded(std::size_t offset, std::size_t count)
      : all_((count + offset) * sizeof(T) + 3 * line, std::byte{0xa5}),
        first_(reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(all_.data()) + 2 * line - 1) /
                                    line * line) +
               offset),
        count_(count) {}
  [[nodiscard]] T* data() { return first_; }
  [[nodiscard]] bool rest_is_whole() const {
    auto const* const from = reinterpret_cast<std::byte const*>(first_);
    auto const* const to = reinterpret_cast<std::byte const*>(first_ + count_);
    auto const is_whole = [](std::byte one) { return one == std::byte{0xa5}; };
    return std::all_of(all_.data(), from, is_whole) &&
           std::all_of(to, all_.data() + all_.size(), is_whole);
  }

 private:
  std::vector<std::byte> all_;
  T* first_;
  std::size_t count_;
};

template <class T>
void expect_sums(std::mt19937& random, std::uint32_t sources, std::uint32_t places) {
  std::size_t const offset = random() % (line / sizeof(T));
  std::size_t const count = random() % 300;
  std::size_t const first = random() % (count + 1);
  std::size_t const some = random() % (count - first + 1);
  bool const in_place = random() % 2 == 0;
  std::vector<guarded<T>> from, to;
  auto const streamed = static_cast<std::uint32_t>(random() % places);  // and maybe others
  std::vector<bool> streams;
  std::vector<std::size_t> offsets;  // any, for places that do not bypass the caches
  for (std::uint32_t k = 0; k < places; ++k) {
    streams.push_back(k == streamed || random() % 2 == 0);
    offsets.push_back(streams.back() ? offset : random() % 20);
  }
  std::vector<T> expected(count, T{});
  for (std::uint32_t k = 0; k < sources; ++k) {
    bool const is_place = in_place && k < places;
    auto& one = from.emplace_back(is_place ? offsets[k] : random() % 20, count);
    for (std::size_t i = 0; i < count; ++i) {
      one.data()[i] = static_cast<T>(static_cast<int>(random() % 8));
      expected[i] = static_cast<T>(expected[i] + one.data()[i]);
    }
  }
  for (std::uint32_t k = 0; k < places; ++k) to.emplace_back(offsets[k], count);
  auto const place = [&](std::uint32_t k) -> guarded<T>& {
    return in_place && k < sources ? from[k] : to[k];
  };
  std::vector<std::vector<T>> before;
  streamed_sum<T> sum;
  for (auto& one : from) sum.add_source(one.data(), random() % 2 == 0);
  for (std::uint32_t k = 0; k < places; ++k) {
    if (!(in_place && k < sources)) std::fill_n(to[k].data(), count, T{});
    before.emplace_back(place(k).data(), place(k).data() + count);
    sum.add_place(place(k).data(), streams[k]);
  }
  ASSERT_TRUE(sum.fits());
  sum.make(first, some, blink::sum{});
  blink::detail::finish_streaming();
  for (std::uint32_t k = 0; k < places; ++k) {
    for (std::size_t i = 0; i < count; ++i) {
      bool const is_made = first <= i && i < first + some;
      ASSERT_EQ(place(k).data()[i], is_made ? expected[i] : before[k][i]) << k << ' ' << i;
    }
  }
  for (auto const& one : from) EXPECT_TRUE(one.rest_is_whole());
  for (auto const& one : to) EXPECT_TRUE(one.rest_is_whole());
}

TEST(streamed_sum, any_part_wherever_lines_begin) {
  std::mt19937 random(1);
  for (std::uint32_t sources = 2; sources <= streamed_sum<int>::most; ++sources) {
    for (std::uint32_t places = 1; places <= streamed_sum<int>::most; ++places) {
      for (int k = 0; k < 6; ++k) {
        expect_sums<float>(random, sources, places);
        expect_sums<std::uint8_t>(random, sources, places);
        expect_sums<std::int16_t>(random, sources, places);
        expect_sums<std::complex<double>>(random, sources, places);
      }
    }
  }
}

TEST(streamed_sum, what_does_not_fit) {
  alignas(line) float data[64] = {};
  auto const with = [&](std::uint32_t sources, std::vector<float*> const& places, bool streams) {
    streamed_sum<float> sum;
    for (std::uint32_t k = 0; k < sources; ++k) sum.add_source(data, false);
    for (auto* const place : places) sum.add_place(place, streams);
    return sum.fits();
  };
  EXPECT_TRUE(with(2, {data, data + 16}, true));
  EXPECT_TRUE(with(2, {data + 3, data + 19}, true));
  EXPECT_FALSE(with(2, {data, data + 17}, true));  // different offsets in their lines
  EXPECT_FALSE(with(2, {data, data + 16}, false));
  for (bool const first : {false, true}) {  // only one bypasses the caches
    streamed_sum<float> sum;
    for (int k = 0; k < 2; ++k) sum.add_source(data, false);
    sum.add_place(data, first);
    sum.add_place(data + 17, !first);
    EXPECT_TRUE(sum.fits());
  }
  EXPECT_FALSE(with(1, {data}, true));
  EXPECT_FALSE(with(2, {}, true));
  EXPECT_TRUE(with(8, std::vector<float*>(8, data), true));
  EXPECT_FALSE(with(9, {data}, true));
  EXPECT_FALSE(with(2, std::vector<float*>(9, data), true));
  auto* const between =
      reinterpret_cast<std::complex<float>*>(data + 1);  // never at the begin of a line
  streamed_sum<std::complex<float>> sum;
  sum.add_source(between, true);
  sum.add_source(between, true);
  sum.add_place(between, true);
  EXPECT_FALSE(sum.fits());
  struct three {
    char messages[3];
  };
  EXPECT_FALSE(streamed_sum<three>::suits);
}

}  // namespace streamed_sum_test
