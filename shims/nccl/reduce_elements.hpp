// SPDX-License-Identifier: Apache-2.0
#pragma once

// All reductions of one element type. A separate translation unit compiles each type, because each
// operation on each type is a kernel.

#include <blink/core/collective.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>

#include "element_types.hpp"
#include "platform.hpp"
#include "premultiplied_sum.hpp"

#include <cstddef>
#include <optional>
#include <vector>

/// X(name) for each type that the library is built for; by default all types.
#ifndef BLINK_NCCL_BUILT_TYPES
#define BLINK_NCCL_BUILT_TYPES BLINK_NCCL_ALL_TYPES
#endif

namespace blink_nccl {

/// chunk_bytes: 0: as in the schedule
/// factors:     by rank of this process, of a pre-multiplied sum; kernels need no others
template <platform P, class Transport, data_type Type>
void reduce_elements(ranks_t<P, Transport>& ranks,
                     typename ranks_t<P, Transport>::prepared_type& prepared,
                     std::size_t chunk_bytes, blink::collective kind,
                     std::vector<blink::detail::plain_buffers> const& buffers, operation what,
                     std::vector<std::optional<given_factor>> const& factors,
                     typename ranks_t<P, Transport>::streams const& on) {
  using T = element_t<Type>;
  premultiplied_sum<T, total_t<T>> all{};
  auto const first = static_cast<std::size_t>(ranks.first_rank());
  for (std::size_t k = 0; k < factors.size(); ++k) {
    if (factors[k]) all.set(first + k, *factors[k]);
  }
  with_reducer<T>(what, all, [&](auto const& reducer) {
    ranks.template call<blink::scheduled_chunks, T>(prepared, kind, buffers, chunk_bytes, reducer,
                                                    on);
  });
}

}  // namespace blink_nccl

/// With `extern`, in a header: the kernels of a platform are compiled elsewhere. With an empty
/// argument, in one source for each type: the kernels are compiled there.
#define BLINK_NCCL_REDUCTIONS(where, Platform, name)                            \
  BLINK_NCCL_REDUCTIONS_OVER(where, Platform, blink_nccl::transport_here, name) \
  BLINK_NCCL_REDUCTIONS_OVER(where, Platform, blink_nccl::link_across, name)
#define BLINK_NCCL_REDUCTIONS_OVER(where, Platform, Transport, name)                            \
  where template void                                                                           \
  blink_nccl::reduce_elements<Platform, Transport, blink_nccl::data_type::name>(                \
      blink_nccl::ranks_t<Platform, Transport>&,                                                \
      blink_nccl::ranks_t<Platform, Transport>::prepared_type&, std::size_t, blink::collective, \
      std::vector<blink::detail::plain_buffers> const&, blink_nccl::operation,                  \
      std::vector<std::optional<blink_nccl::given_factor>> const&,                              \
      blink_nccl::ranks_t<Platform, Transport>::streams const&);
