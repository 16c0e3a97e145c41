// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/schedule/tuning_table.hpp>
#include <blink/transports/host/basic_thread_ranks.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Measures collectives of ranks that are threads of this process, and checks every element.

namespace blink::tools {

/// The store mode of plain loops.
enum class store : std::uint8_t { plain, streams };

/// The measurement to make.
struct perf_request {
  tuning_table algorithms;     ///< also names the collective
  std::string type = "float";  ///< one of `perf_types`
  std::string op = "sum";      ///< one of `perf_ops`; without meaning if nothing is reduced
  std::size_t bytes = 0;       ///< of the whole buffer, rounded down to whole elements
  int iterations = 20;
  int warm_up = 2;
  bool in_place = false;
  bool is_shaped = false;  ///< links as slow as the schedule's, instead of memory
  bool binds = false;      ///< each rank to its share of the cores
  /// the baseline instead of the collective, see `plain_loops`
  std::optional<store> by_plain_loops{};
  communicator_options options;
};

/// The result of a measurement. Rates are those of nccl-tests: algbw = bytes / time, and busbw is
/// algbw times a share. That is the share of the buffer that the best algorithm moves over each
/// rank's port.
struct perf_result {
  std::size_t bytes = 0;     ///< of the whole buffer
  std::size_t count = 0;     ///< elements of the buffer, or of one rank's segment
  double seconds = 0;        ///< median; from the last rank's entry to the last one's return
  double least_seconds = 0;  ///< of all iterations
  double algbw = 0;          ///< bytes / second
  double busbw = 0;          ///< bytes / second
  std::uint64_t wrong = 0;   ///< elements that differ from a serial loop, in all iterations
};

inline std::vector<std::string> const perf_types{"int8",  "uint8", "int32",
                                                 "int64", "float", "double"};
inline std::vector<std::string> const perf_ops{"sum", "prod", "min", "max", "avg"};

/// Runs the collective `warm_up` + `iterations` times. Inputs are written just before each run, and
/// every element of every result is compared with a serial loop.
///
/// Throws: input_error for an unknown type or operation; what the communicator throws.
[[nodiscard]] perf_result measure(perf_request const& request);

/// The same for one element type. Each type has its own source file, because there are many
/// instances.
template <class T>
[[nodiscard]] perf_result measure_type(perf_request const& request);

}  // namespace blink::tools
