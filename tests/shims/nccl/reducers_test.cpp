// SPDX-License-Identifier: Apache-2.0
// Every operation on every type, for three ranks with the elements 1, 2 and 3.

#include <blink/reducers/reducer.hpp>

#include <element_types.hpp>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>

// The sources of a folder may be compiled as one.
namespace reducers_test { namespace {

using namespace blink_nccl;

template <class T>
float combined(operation what) {
  premultiplied_sum<T, total_t<T>> factors{};
  std::array<T, 3> const times{static_cast<T>(2.0F), static_cast<T>(1.0F), static_cast<T>(4.0F)};
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    given_factor given;
    if (rank == 2) {
      given.at = &times[rank];
    } else {
      std::memcpy(given.value.data(), &times[rank], sizeof(T));
    }
    factors.set(rank, given);
  }
  float result = -1;
  with_reducer<T>(what, factors, [&](auto const& reduce) {
    auto const lifted = [&](int rank) {
      return blink::detail::lift(reduce, static_cast<T>(static_cast<float>(rank + 1)),
                                 blink::element_place{0, rank});
    };
    auto const total = reduce(reduce(lifted(0), lifted(1)), lifted(2));
    result = static_cast<float>(
        static_cast<T>(blink::detail::finish(reduce, total, 3, blink::element_place{})));
  });
  return result;
}

template <data_type Type>
void check_type() {
  SCOPED_TRACE(to_text(Type));
  using T = element_t<Type>;
  static_assert(sizeof(T) == bytes_of(Type));
  EXPECT_EQ(combined<T>(operation::sum), 6.0F);
  EXPECT_EQ(combined<T>(operation::prod), 6.0F);
  EXPECT_EQ(combined<T>(operation::max), 3.0F);
  EXPECT_EQ(combined<T>(operation::min), 1.0F);
  EXPECT_EQ(combined<T>(operation::avg), 2.0F);
  EXPECT_EQ(combined<T>(static_cast<operation>(operation_count + 1)), 2.0F + 2.0F + 12.0F);
}

TEST(nccl_reducers, all_operations_on_all_types) {
#define BLINK_NCCL_CHECK(name) check_type<data_type::name>();
  BLINK_NCCL_ALL_TYPES(BLINK_NCCL_CHECK)
#undef BLINK_NCCL_CHECK
}

}}  // namespace reducers_test
