// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "networks.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

namespace blink_bench {

/// Gradients that one all-reduce averages.
struct bucket {
  std::size_t parameters = 0;
  double ready_seconds = 0;  ///< from the begin of the iteration
};

/// One iteration of data-parallel training on one rank, without its communication.
struct iteration {
  std::vector<bucket> buckets;  ///< in the order in which they are ready
  double compute_seconds = 0;   ///< forward and backward pass
};

/// Sizes from which on a bucket takes no further layer. The defaults are those of PyTorch's
/// DistributedDataParallel.
struct bucket_limits {
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t bytes = std::size_t{25} << 20;
};

/// The buckets of a network, and the times at which a V100 has computed them.
///
/// The backward pass takes the time of training without that of the forward pass. Its layers take
/// parts in proportion to their work, the last layer first. A layer's gradients are ready at the
/// end of its part. Buckets take layers in that order, and are ready with their last layer.
///
/// images: of one rank
/// Source: S. Li et al., "PyTorch distributed: experiences on accelerating data parallel training",
///         VLDB 2020 (buckets, and all-reduces during the backward pass).
[[nodiscard]] inline iteration make_iteration(network const& trained, int images,
                                              bucket_limits const& limits = {}) {
  iteration result;
  result.compute_seconds = images / trained.training_images;
  double const forward = images / trained.forward_images;
  double const backward = result.compute_seconds - forward;
  double const all_work = trained.multiply_adds();
  double work = 0;
  bucket open;
  for (auto each = trained.layers.rbegin(); each != trained.layers.rend(); ++each) {
    work += each->multiply_adds;
    open.parameters += each->parameters;
    open.ready_seconds = forward + backward * work / all_work;
    auto const limit = result.buckets.empty() ? limits.first_bytes : limits.bytes;
    bool const is_last = std::next(each) == trained.layers.rend();
    if (open.parameters * sizeof(float) < limit && !is_last) continue;
    result.buckets.push_back(open);
    open = {};
  }
  return result;
}

/// The time of an iteration whose all-reduces run one after the other beside the computation.
///
/// all_reduce_seconds: time of an all-reduce of so many parameters, alone
template <class AllReduceSeconds>
[[nodiscard]] double overlapped_seconds(iteration const& one,
                                        AllReduceSeconds const& all_reduce_seconds) {
  double end = 0;
  for (auto const& each : one.buckets) {
    end = std::max(end, each.ready_seconds) + all_reduce_seconds(each.parameters);
  }
  return std::max(end, one.compute_seconds);
}

}  // namespace blink_bench
