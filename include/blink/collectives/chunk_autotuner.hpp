// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

// Chunk sizes from a formula or from measurements. This header needs no other part of the library.

namespace blink { inline namespace BLINK_ABI {

/// Returns the chunk size with which a pipeline over a tree ends earliest.
///
/// A part of S bytes in chunks of c bytes takes (S / c + h - 1) (a + c / b) seconds over a tree of
/// height h. The derivative vanishes at c = sqrt(a b S / (h - 1)).
///
/// step_seconds:     a, the time that a chunk of any size costs on an edge
/// bytes_per_second: b, of an edge
/// part_bytes:       S, the bytes that this tree carries
/// height:           h; for an all-reduce twice the height of the tree
/// Returns:          at most `part_bytes`, all of it for a height of one; at least 1.
/// Pre:              no argument is negative, `bytes_per_second` is positive.
[[nodiscard]] inline double best_chunk_bytes(double step_seconds, double bytes_per_second,
                                             double part_bytes, int height) {
  expects(step_seconds >= 0 && bytes_per_second > 0 && part_bytes >= 0 && height >= 0,
          "best_chunk_bytes: an argument is out of range, expected a positive rate and no negative "
          "argument");
  double const most = std::max(1.0, part_bytes);
  if (height <= 1) return most;
  return std::clamp(std::sqrt(step_seconds * bytes_per_second * part_bytes / (height - 1)), 1.0,
                    most);
}

/// Limits and steps of `chunk_autotuner`.
struct chunk_autotuner_options {
  std::size_t first_bytes = 16 << 10;  ///< the first size that is tried
  std::size_t smallest_bytes = 1 << 10;
  std::size_t largest_bytes = 16 << 20;
  std::size_t granule_bytes = 256;  ///< sizes are multiples of it
  double growth = 2;                ///< factor of an increase; more than 1
  int decreases = 16;               ///< additive steps from a size that was too large down to 0
  int samples = 3;                  ///< measurements of one size; their median counts
  double tolerance = 0.02;  ///< a throughput that is lower by at most this fraction counts as
                            ///< equal, because of noise
  double relapse = 0.25;  ///< after settling: search again if the throughput falls by this fraction
};

/// Finds the chunk size with the highest throughput while the program runs, by multiplicative
/// increase and additive decrease.
///
/// Use: run an iteration with `bytes()`, then `report` its throughput, again and again. While
///      larger chunks are faster, the size grows by a factor. Once they are slower, it shrinks in
///      equal steps while that helps. Then the best size stays. A lasting fall of throughput, for
///      example when another job shares the links, starts the search again.
///
/// The throughput is assumed to have one peak over the chunk size: small chunks pay for their
/// steps, large ones for filling the pipeline.
///
/// Source: Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", MLSys 2020,
///         section 4.2.1.
/// Time:   O(1) a report; settles after samples * (log(largest / first) / log(growth) + decreases)
///         reports or fewer.
class chunk_autotuner {
 public:
  /// Pre: smallest <= first <= largest, granule > 0, growth > 1, decreases > 0, samples > 0,
  ///      0 <= tolerance < 1, 0 < relapse <= 1.
  explicit chunk_autotuner(chunk_autotuner_options const& options = {}) : options_(options) {
    expects(options.smallest_bytes <= options.first_bytes &&
                options.first_bytes <= options.largest_bytes && options.granule_bytes > 0 &&
                options.growth > 1 && options.decreases > 0 && options.samples > 0 &&
                options.tolerance >= 0 && options.tolerance < 1 && options.relapse > 0 &&
                options.relapse <= 1,
            "chunk_autotuner: an option is out of range, expected values as "
            "chunk_autotuner_options says");
    begin(options.first_bytes);
  }

  /// The chunk size for the next iteration.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  /// True once the search is over.
  [[nodiscard]] bool settled() const { return phase_ == phase::settled; }

  /// Takes the throughput of an iteration with `bytes()`, in any unit.
  ///
  /// Pre: it is finite and not negative.
  void report(double throughput) {
    expects(
        std::isfinite(throughput) && throughput >= 0,
        "chunk_autotuner: a throughput is infinite, negative or not a number, expected at least 0");
    samples_.push_back(throughput);
    if (static_cast<int>(samples_.size()) < options_.samples) return;
    auto const middle = samples_.begin() + static_cast<std::ptrdiff_t>(samples_.size() / 2);
    std::nth_element(samples_.begin(), middle, samples_.end());
    double const median = *middle;
    samples_.clear();
    switch (phase_) {
      case phase::increase:
        return after_increase(median);
      case phase::decrease:
        return after_decrease(median);
      case phase::settled:
        if (median < best_throughput_ * (1 - options_.relapse)) begin(bytes_);
    }
  }

 private:
  enum class phase { increase, decrease, settled };

  void begin(std::size_t bytes) {
    phase_ = phase::increase;
    best_throughput_ = -1;
    worse_ = 0;
    bytes_ = best_bytes_ = allowed(static_cast<double>(bytes));
  }

  void after_increase(double throughput) {
    bool const not_worse = throughput >= best_throughput_ * (1 - options_.tolerance);
    remember(throughput);
    auto const larger = allowed(static_cast<double>(bytes_) * options_.growth);
    if (not_worse && larger > bytes_) {
      bytes_ = larger;
      return;
    }
    // The size is too large, or at the limit. The peak is at most two factors of growth below.
    phase_ = phase::decrease;
    step_ = static_cast<double>(bytes_) / options_.decreases;
    lowest_ = static_cast<double>(best_bytes_) / options_.growth;
    shrink();
  }

  void after_decrease(double throughput) {
    worse_ = throughput < best_throughput_ * (1 - options_.tolerance) && bytes_ < best_bytes_
                 ? worse_ + 1
                 : 0;
    remember(throughput);
    shrink();
  }

  /// One step down, or the end of the search.
  void shrink() {
    constexpr int enough = 2;  // once may be noise
    double const next = static_cast<double>(bytes_) - step_;
    if (worse_ < enough && next >= lowest_ && allowed(next) < bytes_) {
      bytes_ = allowed(next);
      return;
    }
    phase_ = phase::settled;
    bytes_ = best_bytes_;
  }

  void remember(double throughput) {
    if (throughput <= best_throughput_) return;
    best_throughput_ = throughput;
    best_bytes_ = bytes_;
  }

  [[nodiscard]] std::size_t allowed(double bytes) const {
    auto const granule = static_cast<double>(options_.granule_bytes);
    auto const rounded = static_cast<std::size_t>(std::floor(bytes / granule) * granule);
    return std::clamp(rounded, options_.smallest_bytes, options_.largest_bytes);
  }

  chunk_autotuner_options options_;
  phase phase_ = phase::increase;
  std::size_t bytes_ = 0;
  std::size_t best_bytes_ = 0;
  double best_throughput_ = -1;
  double step_ = 0;    ///< of a decrease
  double lowest_ = 0;  ///< where decreases end
  int worse_ = 0;      ///< decreases in a row that did not help
  std::vector<double> samples_;
};

}}  // namespace blink::BLINK_ABI
