// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/transports/mpi/channel.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The fault in this rank's options, or an empty text. It is returned, not thrown, because a rank
/// with a fault must still take part in the agreement.
[[nodiscard]] inline std::string fault_of_options(communicator_options const& options) {
  try {
    validate(options);
    expects(options.team_size == 1,
            "mpi_communicator: team_size above 1, expected 1 because one thread calls MPI");
  } catch (precondition_error const& fault) {
    return fault.what();
  }
  return {};
}

}  // namespace detail

/// Compares the options that must be equal on all ranks. Collective over the channel's
/// communicator.
///
/// Moves:  one all-reduce of 15 numbers.
/// Throws: precondition_error on all ranks if an option is out of range on one rank or differs
///         between ranks; error if the MPI library fails.
inline void agree_on_options(mpi_channel const& channel, communicator_options const& options,
                             std::size_t eager_limit, std::size_t zero_copy_threshold) {
  struct option {
    char const* name;
    std::uint64_t value;
  };
  auto const bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  std::array const all{option{"window", options.window},
                       option{"slot_bytes", options.slot_bytes},
                       option{"eager_limit", eager_limit},
                       option{"zero_copy_threshold", zero_copy_threshold},
                       option{"costs.chunk_seconds", bits(options.costs.chunk_seconds)},
                       option{"costs.bytes_per_second", bits(options.costs.bytes_per_second)},
                       option{"costs.latency_seconds", bits(options.costs.latency_seconds)}};
  // For each option its value and its complement: the ranks agree exactly if the two maxima match.
  // The last number is 1 + the largest rank with an option out of range, or 0 if there is none.
  std::array<std::uint64_t, 2 * all.size() + 1> mine{}, largest{};
  for (std::size_t k = 0; k < all.size(); ++k) {
    mine[2 * k] = all[k].value;
    mine[2 * k + 1] = ~all[k].value;
  }
  auto const fault = detail::fault_of_options(options);
  if (!fault.empty()) mine.back() = static_cast<std::uint64_t>(channel.rank()) + 1;
  int const code = MPI_Allreduce(mine.data(), largest.data(), static_cast<int>(mine.size()),
                                 MPI_UINT64_T, MPI_MAX, channel.comm());
  if (code != MPI_SUCCESS) throw error("MPI_Allreduce: " + mpi_error_text(code));
  if (!fault.empty()) throw precondition_error(fault);
  if (largest.back() != 0) {
    throw precondition_error("mpi_communicator: an option is out of range on rank " +
                             std::to_string(largest.back() - 1));
  }
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (largest[2 * k] == ~largest[2 * k + 1]) continue;
    throw precondition_error(std::string("mpi_communicator: ") + all[k].name +
                             " differs between ranks");
  }
}

}}  // namespace blink::BLINK_ABI
