// SPDX-License-Identifier: Apache-2.0
#pragma once

// The operation that `ncclRedOpCreatePreMulSum` makes; each rank has its own factor.

#include <blink/core/config.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>

#include "abi.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace blink_nccl {

/// A rank's factor as passed by the program.
struct given_factor {
  data_type type = data_type::float32;
  std::array<std::byte, 8> value{};  ///< the factor, of that type, if `at` is null
  void const* at = nullptr;          ///< otherwise the address of the factor, which is read when
                                     ///< the call runs
};

/// Sum of factor times element, in `Total`.
template <class T, class Total>
struct premultiplied_sum {
  static constexpr bool is_commutative = true;
  static constexpr bool lift_at_source = true;  ///< other processes do not know the factor

  union factor {
    Total value;
    T const* at;
  };
  factor of_rank[blink::device_call::most_ranks];  ///< only those of this process are set
  std::uint64_t is_address;                        ///< one bit by rank
  static_assert(blink::device_call::most_ranks <= 64, "one bit for each rank");

  void set(std::size_t rank, given_factor const& given) {
    if (given.at != nullptr) {
      of_rank[rank].at = static_cast<T const*>(given.at);
      is_address |= std::uint64_t{1} << rank;
    } else {
      T value{};
      std::memcpy(&value, given.value.data(), sizeof value);
      of_rank[rank].value = static_cast<Total>(value);
    }
  }
  BLINK_HOST_DEVICE Total lift(T const& element, blink::element_place const& place) const {
    auto const& own = of_rank[place.rank];
    bool const is_there = (is_address >> place.rank & 1U) != 0;
    Total const times = is_there ? static_cast<Total>(*own.at) : own.value;
    return blink::prod{}(times, static_cast<Total>(element));
  }
  BLINK_HOST_DEVICE Total operator()(Total const& a, Total const& b) const {
    return blink::sum{}(a, b);
  }
};
static_assert(blink::reducer_for<premultiplied_sum<int, int>, int>);
static_assert(std::is_trivially_copyable_v<premultiplied_sum<double, double>>);

}  // namespace blink_nccl
