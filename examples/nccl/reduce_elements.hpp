// SPDX-License-Identifier: Apache-2.0
#pragma once

// All reductions of one element type: what a translation unit of its own compiles, as each operation on each
// type is a kernel.

#include <blink/collective.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/transports/cuda/rank_buffers.hpp>

#include "element_types.hpp"
#include "platform.hpp"
#include "premultiplied_sum.hpp"

#include <cstddef>
#include <optional>
#include <vector>

/// X(name) for each type that the library is built for; all unless said otherwise.
#ifndef BLINK_NCCL_BUILT_TYPES
#define BLINK_NCCL_BUILT_TYPES BLINK_NCCL_ALL_TYPES
#endif

namespace blink_nccl {

/// factors: by rank, of a pre-multiplied sum
template <platform P, data_type Type>
void reduce_elements(world_t<P>& world, typename world_t<P>::prepared_type& plan,
                     blink::collective kind,
                     std::vector<blink::detail::plain_buffers> const& buffers, operation what,
                     std::vector<std::optional<given_factor>> const& factors,
                     typename world_t<P>::streams const& on) {
  using T = element_t<Type>;
  premultiplied_sum<T, total_t<T>> all{};
  for (std::size_t rank = 0; rank < factors.size(); ++rank) {
    if (factors[rank]) all.set(rank, *factors[rank]);
  }
  with_reducer<T>(what, all, [&](auto const& reducer) {
    world.template call<blink::scheduled_chunks, T>(plan, kind, buffers, 0, reducer, on);
  });
}

}  // namespace blink_nccl

/// In a header: the kernels of a platform are compiled elsewhere. In one source for each type: here.
#define BLINK_NCCL_REDUCTIONS(Platform, name)                                                     \
  template void blink_nccl::reduce_elements<Platform, blink_nccl::data_type::name>(               \
      blink_nccl::world_t<Platform>&, blink_nccl::world_t<Platform>::prepared_type&,              \
      blink::collective, std::vector<blink::detail::plain_buffers> const&, blink_nccl::operation, \
      std::vector<std::optional<blink_nccl::given_factor>> const&,                                \
      blink_nccl::world_t<Platform>::streams const&)
