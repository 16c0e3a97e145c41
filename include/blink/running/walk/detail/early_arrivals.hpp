// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/order.hpp>
#include <blink/running/walk/detail/chunk_address.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>

#include <bit>
#include <cstdint>

// Order `any`: while a rank waits for some arrivals of a chunk, it combines the others in the order
// of arrival, and frees their slots. Only one combination is left for the last arrival.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// True if a rank combines before all has arrived. On a GPU it does not, because a block has no
/// memory for sums.
#if BLINK_DEVICE_PASS
template <class Reducer>
inline constexpr bool combines_on_arrival = false;
#else
template <class Reducer>
inline constexpr bool combines_on_arrival = order_of<Reducer> == order_promise::any;
#endif

/// True if the present chunk of `here` can be read from this connection.
BLINK_EITHER_SIDE
template <transport Transport>
[[nodiscard]] BLINK_HOST_DEVICE bool has_arrived_at(Transport const transport,
                                                    tree_task const& here, endpoint const& end) {
  if (!transport.is_present(end.peer)) return false;
  if (presence_offers_input<Transport> && end.way == transfer_mode::pull_input) return true;
  return transport.has_arrived(end.connection, end.first + here.done);
}

/// The arrivals, as bits, that can be combined while another one is awaited. 0: none, or nothing is
/// awaited any more.
template <transport Transport>
[[nodiscard]] std::uint64_t combinable_arrivals(Transport const transport, tree_task const& here) {
  if (here.early.sums == nullptr || here.done == here.chunks) return 0;
  std::uint64_t arrivals = 0;
  std::uint32_t awaited = 0;
  for (std::uint32_t k = 0; k < here.in_count; ++k) {
    std::uint64_t const bit = std::uint64_t{1} << k;
    endpoint const& end = here.in[k];
    if (is_combined(here, k)) continue;
    if (has_arrived_at(transport, here, end)) {
      arrivals |= bit;
    } else {
      ++awaited;
    }
  }
  return awaited == 0 ? 0 : arrivals;
}

/// The number of sources of the next combination: the sums so far or this rank's input, and the
/// arrivals of `bits`.
[[nodiscard]] inline std::uint32_t early_source_count(tree_task const& here, std::uint64_t bits) {
  bool const has_first = here.early.combined != 0 || here.reads_input;
  return static_cast<std::uint32_t>(std::popcount(bits)) + (has_first ? 1 : 0);
}

/// Source `k` of that combination.
template <class T, transport Transport>
[[nodiscard]] chunk_source early_source(Transport const transport, tree_task const& here,
                                        call_buffers<T> const& buffers, std::uint64_t bits,
                                        std::uint32_t k) {
  bool const has_sums = here.early.combined != 0;
  if (has_sums || here.reads_input) {
    if (k == 0 && has_sums) return {here.early.sums, source_kind::sums, transport.rank(), false, 0};
    if (k == 0) return input_of_chunk(transport, here, buffers);
    --k;
  }
  for (; k > 0; --k) bits &= bits - 1;
  return arrival_of_chunk<T>(transport, here, static_cast<std::uint32_t>(std::countr_zero(bits)));
}

/// The arrivals that are not in the sums yet.
[[nodiscard]] inline std::uint64_t late_arrivals(tree_task const& here) {
  std::uint64_t const all =
      here.in_count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here.in_count) - 1;
  return all & ~here.early.combined;
}

}}}  // namespace blink::BLINK_ABI::detail
