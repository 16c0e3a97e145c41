// SPDX-License-Identifier: Apache-2.0
#include "sparse.hpp"

#include <blink/core/error.hpp>

#include "tensors.hpp"

#include <array>
#include <cstdint>

namespace blink_torch {
namespace {

constexpr std::size_t most_dimensions = 16;

/// The shape of a tensor, which ranks compare before they exchange elements.
struct shape {
  std::int64_t sparse_dimensions = 0, dense_dimensions = 0, elements = 0;
  std::array<std::int64_t, most_dimensions> sizes{};
};

[[nodiscard]] shape shape_of(at::Tensor const& data) {
  if (static_cast<std::size_t>(data.dim()) > most_dimensions) {
    throw blink::precondition_error("a sparse tensor of " + std::to_string(data.dim()) +
                                    " dimensions, expected at most " +
                                    std::to_string(most_dimensions));
  }
  shape result{data.sparse_dim(), data.dense_dim(), data._nnz()};
  for (std::int64_t k = 0; k < data.dim(); ++k) {
    result.sizes[static_cast<std::size_t>(k)] = data.size(k);
  }
  return result;
}

/// The same tensor of each rank, whose sizes differ by the number of elements.
[[nodiscard]] std::vector<at::Tensor> gather(engine& by, at::Tensor const& own,
                                             std::vector<shape> const& shapes, bool is_values) {
  std::vector<at::Tensor> result;
  for (auto const& each : shapes) {
    auto sizes = own.sizes().vec();
    sizes[is_values ? 0 : 1] = each.elements;
    result.push_back(at::empty(sizes, own.options()));
  }
  auto const mine = own.contiguous();
  std::vector<segment> places;
  for (auto const& each : result) {
    places.push_back({each.data_ptr(), static_cast<std::size_t>(each.numel()) *
                                           static_cast<std::size_t>(each.element_size())});
  }
  by.all_gather(mine.data_ptr(), places);
  return result;
}

}  // namespace

void sum_sparse(engine& by, at::Tensor data, int ranks) {
  auto const own = data.coalesce();
  auto const mine = shape_of(own);
  std::vector<shape> shapes(static_cast<std::size_t>(ranks));
  std::vector<segment> places;
  for (auto& each : shapes) places.push_back({&each, sizeof each});
  by.all_gather(&mine, places);
  for (std::size_t rank = 0; rank < shapes.size(); ++rank) {
    auto const& theirs = shapes[rank];
    if (theirs.sparse_dimensions == mine.sparse_dimensions &&
        theirs.dense_dimensions == mine.dense_dimensions && theirs.sizes == mine.sizes) {
      continue;
    }
    throw blink::precondition_error("rank " + std::to_string(rank) +
                                    " has a sparse tensor of another shape, expected equal shapes");
  }
  auto const indices = gather(by, own.indices(), shapes, false);
  auto const values = gather(by, own.values(), shapes, true);
  auto const all = at::_sparse_coo_tensor_unsafe(at::cat(indices, 1), at::cat(values, 0),
                                                 own.sizes(), own.options());
  data.copy_(all.coalesce());  // adds up elements at one place
}

}  // namespace blink_torch
