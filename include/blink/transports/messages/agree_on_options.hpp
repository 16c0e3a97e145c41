// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/transports/host/compared_options.hpp>
#include <blink/transports/host/process_environment.hpp>
#include <blink/transports/messages/gather_over_channel.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// True if ranks of one host share memory, by the options and by BLINK_SHARED_MEMORY.
///
/// Throws: input_error if that variable is neither 0 nor 1.
[[nodiscard]] inline bool wants_shared_memory(communicator_options const& options) {
  return environment_flag("BLINK_SHARED_MEMORY", true) && options.shares_memory;
}

/// Returns the fault in this rank's options, or an empty text. It does not throw, because a rank
/// with a fault must still take part in the agreement.
template <message_channel Channel>
[[nodiscard]] std::string fault_of_options(communicator_options const& options) {
  try {
    validate(options);
    static_cast<void>(wants_shared_memory(options));
    static_cast<void>(wanted_order(options));
    if (options.team_size == 1) return {};
    return communicator_text<Channel>(
        std::string("team_size above 1, expected 1 because one thread calls ") + Channel::name);
  } catch (error const& fault) {
    return fault.what();
  }
}

/// The time that a rank waits for the others while a communicator is made.
[[nodiscard]] inline nanoseconds longest_meeting(communicator_options const& options) {
  return std::max(options.waits.deadline, communicator_options{}.waits.deadline);
}

}  // namespace detail

/// Compares the options that must be equal on all ranks. Collective over the channel's ranks.
///
/// tag:     of the messages, not in use before
/// Returns: the `host()` of each rank's channel, by rank
/// Moves:   an all-gather of twelve numbers.
/// Throws:  precondition_error on all ranks if an option is out of range on one rank or differs
///          between ranks; collective_error if a peer does not answer; error if the channel breaks.
template <message_channel Channel>
[[nodiscard]] std::vector<std::uint64_t> agree_on_options(Channel& channel, int tag,
                                                          communicator_options const& options,
                                                          std::size_t eager_limit,
                                                          std::size_t zero_copy_threshold) {
  constexpr std::size_t common = detail::compared_option_names.size();
  constexpr auto names = [] {
    std::array<char const*, common + 2> all{};
    for (std::size_t k = 0; k < common; ++k) all[k] = detail::compared_option_names[k];
    all[common] = "eager_limit";
    all[common + 1] = "zero_copy_threshold";
    return all;
  }();
  struct introduction {
    std::array<std::uint64_t, common + 2> options;
    std::uint64_t has_fault;  // 1: an option is out of range
    std::uint64_t host;
  };
  auto const fault = detail::fault_of_options<Channel>(options);
  bool const is_valid = fault.empty();
  introduction own{{}, is_valid ? 0u : 1u, channel.host()};
  auto const known =
      detail::options_to_compare(options, is_valid ? detail::wanted_order(options) : options.order,
                                 is_valid && detail::wants_shared_memory(options));
  std::copy(known.begin(), known.end(), own.options.begin());
  own.options[common] = eager_limit;
  own.options[common + 1] = zero_copy_threshold;
  auto const all = detail::gather_over_channel(channel, tag, own, detail::longest_meeting(options),
                                               "compared its options");
  if (!fault.empty()) throw precondition_error(fault);
  auto const refuse = [](std::string const& text) {
    throw precondition_error(detail::communicator_text<Channel>(text));
  };
  std::vector<std::uint64_t> hosts;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].has_fault != 0)
      refuse("an option is out of range on rank " + std::to_string(rank));
    hosts.push_back(all[rank].host);
  }
  auto const difference = detail::difference_of_options(
      names, all, [](introduction const& each) { return each.options; });
  if (!difference.empty()) refuse(difference);
  return hosts;
}

}}  // namespace blink::BLINK_ABI
