// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/all_reduce.hpp>
#include <blink/collectives/barrier.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/detail/communicator_buffer.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/default_schedules.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Measures calls of one collective, on buffers that the timer allocates.
template <communicator Comm>
class call_timer {
 public:
  call_timer(Comm& comm, collective kind, std::size_t bytes)
      : me_(comm),
        meeting_(comm.prepare(star_schedule(comm.rank_count()))),
        kind_(kind),
        count_(std::max<std::size_t>(
            1, bytes / buffer_bytes(kind, 1, sizeof(float), comm.rank_count()))),
        input_(communicator_buffer<float>(comm, blocks(has_input_blocks(kind)) * count_)),
        output_(communicator_buffer<float>(comm, blocks(has_output_blocks(kind)) * count_)),
        longest_(communicator_buffer<double>(comm, 2)) {}

  /// Returns the seconds of a call, the same number on all ranks.
  ///
  /// Each call starts from a barrier. Inputs are written just before it and outputs read after it,
  /// as in programs, because the time depends on whose cache holds them. Without the barrier an
  /// algorithm would pay for its effect on the writing of the next inputs.
  [[nodiscard]] double seconds(prepared_schedule& prepared, std::size_t chunk_bytes) {
    using clock = std::chrono::steady_clock;
    constexpr std::size_t most_calls = 16;
    std::size_t const calls =
        std::clamp<std::size_t>((std::size_t{1} << 20) / (count_ * sizeof(float)), 1, most_calls);
    double own = 0;
    auto const begin = clock::now();
    for (std::size_t call = 0; call < calls; ++call) {
      std::fill_n(input_.data(), input_.size(), static_cast<float>(++round_ % 8));
      barrier(me_);
      auto const start = clock::now();
      if (has_reduce_phase(kind_)) {
        run(prepared, chunk_bytes, sum{});
      } else {
        run(prepared, chunk_bytes, no_reducer{});
      }
      own += std::chrono::duration<double>(clock::now() - start).count();
      read_output();
    }
    longest_.data()[0] = own / static_cast<double>(calls);
    longest_.data()[1] = std::chrono::duration<double>(clock::now() - begin).count();
    all_reduce(me_, meeting_, static_cast<double const*>(longest_.data()), longest_.data(), 2,
               max{});
    spent_ += longest_.data()[1];
    return longest_.data()[0];
  }

  /// Seconds that all measurements took so far, the same number on all ranks.
  [[nodiscard]] double spent() const { return spent_; }

  /// A schedule and chunk size to measure.
  struct candidate {
    prepared_schedule* prepared = nullptr;
    std::size_t chunk_bytes = 0;
  };
  /// Returns the lower quartile, in seconds, of `calls` calls of each candidate.
  ///
  /// Candidates are measured in turns of a few calls, so that a machine that is slow for a while
  /// slows all of them. No turn of three calls begins after `limit` seconds for each candidate; the
  /// least of only three times counts. The first call of a turn does not count, because it finds
  /// the caches as other candidates left them. The median is not used, because the first calls try
  /// store modes (`store_mode_tuner`).
  [[nodiscard]] std::vector<double> quartiles(std::vector<candidate> const& of, int calls,
                                              double limit) {
    constexpr int turn = 3;
    std::vector<std::vector<double>> all(of.size());
    double const end = spent_ + limit * static_cast<double>(of.size());
    for (int call = 0; call < calls && (call == 0 || spent_ < end); call += turn) {
      for (std::size_t k = 0; k < of.size(); ++k) {
        static_cast<void>(seconds(*of[k].prepared, of[k].chunk_bytes));
        for (int more = call; more < std::min(call + turn, calls); ++more) {
          all[k].push_back(seconds(*of[k].prepared, of[k].chunk_bytes));
        }
      }
    }
    std::vector<double> result;
    for (auto& times : all) {
      auto const quarter = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
      std::nth_element(times.begin(), quarter, times.end());
      result.push_back(*quarter);
    }
    return result;
  }

 private:
  void read_output() {
    constexpr std::size_t line = 64 / sizeof(float);
    float all = 0;
    for (std::size_t k = 0; k < output_.size(); k += line) all += output_.data()[k];
    has_read_ = all;
  }
  [[nodiscard]] std::size_t blocks(bool in_blocks) const {
    return in_blocks ? static_cast<std::size_t>(me_.rank_count()) : 1;
  }
  template <class Reducer>
  void run(prepared_schedule& prepared, std::size_t chunk_bytes, Reducer const& reducer) {
    collective_call<scheduled_chunks, Comm, float, Reducer> call(
        me_, prepared, kind_, input_.data(), output_.data(), {count_, chunk_bytes}, reducer);
    run_to_end(me_, kind_, call);
  }

  Comm& me_;
  prepared_schedule& meeting_;
  collective kind_;
  std::size_t count_;
  decltype(communicator_buffer<float>(std::declval<Comm&>(), 1)) input_, output_;
  decltype(communicator_buffer<double>(std::declval<Comm&>(), 1)) longest_;
  std::uint64_t round_ = 0;
  double spent_ = 0;
  float volatile has_read_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
