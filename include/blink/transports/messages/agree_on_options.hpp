// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Returns the fault in this rank's options, or an empty text. It does not throw, because a rank
/// with a fault must still take part in the agreement.
template <message_channel Channel>
[[nodiscard]] std::string fault_of_options(communicator_options const& options) {
  try {
    validate(options);
    if (options.team_size == 1) return {};
    return communicator_text<Channel>(
        std::string("team_size above 1, expected 1 because one thread calls ") + Channel::name);
  } catch (precondition_error const& fault) {
    return fault.what();
  }
}

/// Replaces each number by its largest value on all ranks. Collective. The channel has no other
/// message with the tag in flight.
///
/// longest: a peer that has sent nothing by then counts as missing
/// Moves:   ceil(log2 n) messages from each rank, in as many steps.
/// Throws:  collective_error if a peer is missing; error if the channel breaks.
template <message_channel Channel, std::size_t Count>
void largest_of_all(Channel& channel, int tag, std::array<std::uint64_t, Count>& numbers,
                    std::chrono::nanoseconds longest) {
  struct step {
    std::array<std::uint64_t, Count> sent, received;
    typename Channel::request sending{}, receiving{};
  };
  int const ranks = channel.rank_count();
  auto const end = std::chrono::steady_clock::now() + longest;
  for (int distance = 1; distance < ranks; distance *= 2) {
    int const from = (channel.rank() + ranks - distance) % ranks;
    auto here = std::make_unique<step>();
    here->sent = numbers;
    channel.receive(&here->received, sizeof(here->received), from, tag, here->receiving);
    channel.send(&here->sent, sizeof(here->sent), (channel.rank() + distance) % ranks, tag,
                 here->sending);
    auto const are_done = [&] {  // both are tested, so that each of them is complete at the end
      bool const is_sent = channel.is_done(here->sending);
      return channel.is_done(here->receiving) && is_sent;
    };
    while (!are_done()) {
      if (!channel.is_intact()) throw error(channel.problem());
      bool is_missing = std::chrono::steady_clock::now() > end;
      if constexpr (loss_tolerant_channel<Channel>)
        is_missing = is_missing || channel.is_lost(from);
      if (is_missing) {
        if (channel.is_done(here->sending)) {
          take_back(channel, here->receiving);
        } else {
          static_cast<void>(here.release());  // the channel may still use it
        }
        throw collective_error(
            communicator_text<Channel>("rank " + std::to_string(from) +
                                       " has not compared its options, expected all ranks to"),
            channel.rank(), from, -1, -1);
      }
      std::this_thread::yield();
    }
    for (std::size_t k = 0; k < Count; ++k) {
      numbers[k] = std::max(numbers[k], here->received[k]);
    }
  }
}

}  // namespace detail

/// Compares the options that must be equal on all ranks. Collective over the channel's ranks.
///
/// tag:    of the messages, not in use before
/// Moves:  an all-reduce of 15 numbers.
/// Throws: precondition_error on all ranks if an option is out of range on one rank or differs
///         between ranks; collective_error if a peer does not answer; error if the channel breaks.
template <message_channel Channel>
void agree_on_options(Channel& channel, int tag, communicator_options const& options,
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
  std::array<std::uint64_t, 2 * all.size() + 1> largest{};
  for (std::size_t k = 0; k < all.size(); ++k) {
    largest[2 * k] = all[k].value;
    largest[2 * k + 1] = ~all[k].value;
  }
  auto const fault = detail::fault_of_options<Channel>(options);
  if (!fault.empty()) largest.back() = static_cast<std::uint64_t>(channel.rank()) + 1;
  auto const longest = std::max(options.waits.deadline, communicator_options{}.waits.deadline);
  detail::largest_of_all(channel, tag, largest, longest);
  if (!fault.empty()) throw precondition_error(fault);
  if (largest.back() != 0) {
    throw precondition_error(detail::communicator_text<Channel>(
        "an option is out of range on rank " + std::to_string(largest.back() - 1)));
  }
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (largest[2 * k] == ~largest[2 * k + 1]) continue;
    throw precondition_error(
        detail::communicator_text<Channel>(std::string(all[k].name) + " differs between ranks"));
  }
}

}}  // namespace blink::BLINK_ABI
