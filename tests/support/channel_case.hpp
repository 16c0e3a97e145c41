// SPDX-License-Identifier: Apache-2.0
#pragma once

// Calls of collectives from within kernels, in several channels, compared with a serial loop.

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/schedule/schedule.hpp>

#include "collective_case.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace blink_test {

/// A kernel that calls collectives repeatedly in each channel. Blocks take turns among the
/// channels.
template <class T, class Reducer>
struct calling_kernel {
  struct one_call {
    T* input = nullptr;
    T* output = nullptr;
    std::size_t count = 0;
    std::size_t scrambled = 0;  ///< elements of the input that no rank needs after the call
  };
  one_call const* calls = nullptr;  ///< by channel, then in the order of calls
  std::uint32_t channels = 0;
  std::uint32_t calls_each = 0;
  std::uint32_t blocks = 1;
  Reducer reduce{};

  template <class Group, class Channels>
  BLINK_HOST_DEVICE void operator()(Group const group, Channels const& own,
                                    std::uint32_t block) const {
    for (std::uint32_t channel = block; channel < channels; channel += blocks) {
      for (std::uint32_t k = 0; k < calls_each; ++k) {
        auto const& call = calls[channel * calls_each + k];
        auto const end = own.run(group, channel, call.input, call.output, call.count, reduce);
        if (end != blink::status::ok) return;
        for (std::size_t e = group.thread_rank(); e < call.scrambled; e += group.size()) {
          call.input[e] = value_from<T>(e);  // the caller may use it again
        }
      }
    }
  }
};

/// The buffers of such kernels, for all ranks or those of one process.
template <class T, class Reducer>
class channel_case {
 public:
  using kernel = calling_kernel<T, Reducer>;

  /// counts: by channel, then by call; each channel has as many calls
  channel_case(collective_case const& first, blink::schedule const& trees,
               std::vector<std::vector<std::size_t>> const& counts, int first_rank, int ranks,
               Reducer const& reduce = {})
      : plan_(trees), reduce_(reduce) {
    for (int rank = first_rank; rank < first_rank + ranks; ++rank) {
      auto& own = *ranks_.emplace_back(std::make_unique<rank_calls>());
      for (std::size_t channel = 0; channel < counts.size(); ++channel) {
        for (std::size_t k = 0; k < counts[channel].size(); ++k) {
          auto what = first;
          what.count = counts[channel][k];
          what.seed += 1000003 * channel + 17 * k;
          own.cases.push_back(what);
          auto& mine = own.buffers.emplace_back(what, trees.rank_count, rank);
          own.calls.push_back(
              {mine.input, mine.output, what.count, what.is_in_place ? 0 : mine.input_count});
        }
      }
    }
    channels_ = static_cast<std::uint32_t>(counts.size());
    calls_each_ = static_cast<std::uint32_t>(counts[0].size());
  }

  /// The kernels by rank of this process.
  [[nodiscard]] std::vector<kernel> kernels(std::uint32_t blocks = 1) const {
    std::vector<kernel> result;
    for (auto const& own : ranks_) {
      result.push_back({own->calls.data(), channels_, calls_each_, blocks, reduce_});
    }
    return result;
  }
  /// The differences from a serial loop; empty if all calls are right.
  [[nodiscard]] std::string wrong() {
    std::string all;
    for (auto& own : ranks_) {
      for (std::size_t k = 0; k < own->cases.size(); ++k) {
        auto const text = what_is_wrong(own->cases[k], plan_, own->buffers[k], reduce_);
        if (text.empty()) continue;
        all += "rank " + std::to_string(own->buffers[k].rank) + ", channel " +
               std::to_string(k / calls_each_) + ", call " + std::to_string(k % calls_each_) +
               ": " + text + "\n";
      }
    }
    return all;
  }
  /// Restores the buffers of all calls that are not in place.
  void forget() {
    for (auto& own : ranks_) {
      for (std::size_t k = 0; k < own->cases.size(); ++k) {
        auto& mine = own->buffers[k];
        for (std::size_t e = 0; e < mine.output_count; ++e) {
          mine.output[e] = value_from<T>(0x55aa55aa);
        }
        for (std::size_t e = 0; e < mine.input_count; ++e) {
          mine.input[e] = input_element<T>(own->cases[k].seed, mine.rank, e);
        }
      }
    }
  }

 private:
  struct rank_calls {
    std::vector<collective_case> cases;
    std::vector<rank_buffers<T>> buffers;
    std::vector<typename kernel::one_call> calls;
  };

  blink::schedule plan_;
  Reducer reduce_;
  std::vector<std::unique_ptr<rank_calls>> ranks_;
  std::uint32_t channels_ = 0, calls_each_ = 0;
};

}  // namespace blink_test
