// SPDX-License-Identifier: Apache-2.0
#include "tensors.hpp"

#include <blink/reducers/operation_of.hpp>

#include <algorithm>
#include <numeric>

namespace blink_torch {
namespace {

[[nodiscard]] blink::element_type type_of(at::Tensor const& data, char const* call) {
  switch (data.scalar_type()) {
    case at::kChar:
      return blink::element_type::int8;
    case at::kByte:
      return blink::element_type::uint8;
    case at::kShort:
      return blink::element_type::int16;
    case at::kInt:
      return blink::element_type::int32;
    case at::kLong:
      return blink::element_type::int64;
    case at::kHalf:
      return blink::element_type::float16;
    case at::kBFloat16:
      return blink::element_type::bfloat16;
    case at::kFloat:
      return blink::element_type::float32;
    case at::kDouble:
      return blink::element_type::float64;
    case at::kBool:
      return blink::element_type::boolean;
    case at::kComplexFloat:
      return blink::element_type::complex64;
    case at::kComplexDouble:
      return blink::element_type::complex128;
    default:
      TORCH_CHECK(false, "blink: ", call, ": elements of type ", toString(data.scalar_type()),
                  " are not reduced, expected integers, floating point, bool or complex");
  }
}

[[nodiscard]] blink::operation operation_of(c10d::ReduceOp const& what, char const* call) {
  using kind = c10d::ReduceOp;
  switch (static_cast<kind::RedOpType>(what)) {
    case kind::SUM:
      return blink::operation::sum;
    case kind::AVG:
      return blink::operation::average;
    case kind::PRODUCT:
      return blink::operation::product;
    case kind::MIN:
      return blink::operation::min;
    case kind::MAX:
      return blink::operation::max;
    case kind::BAND:
      return blink::operation::bit_and;
    case kind::BOR:
      return blink::operation::bit_or;
    case kind::BXOR:
      return blink::operation::bit_xor;
    default:
      TORCH_CHECK(false, "blink: ", call,
                  ": an operation that blink does not know, expected sum, average, product, min, "
                  "max or a bitwise one");
  }
}

}  // namespace

std::vector<segment> split_rows(flat_tensor const& all, at::Tensor const& tensor,
                                std::vector<std::int64_t> const& split, int ranks,
                                char const* which) {
  auto const rows = tensor.dim() == 0 ? std::int64_t{1} : tensor.size(0);
  std::vector<segment> result;
  if (split.empty()) {
    TORCH_CHECK(rows % ranks == 0, "blink: all_to_all: ", rows, " rows of the ", which, " among ",
                ranks, " ranks, expected a multiple");
    return all.parts(ranks);
  }
  TORCH_CHECK(split.size() == static_cast<std::size_t>(ranks), "blink: all_to_all: ", split.size(),
              " sizes of the ", which, "'s split, expected one for each of ", ranks, " ranks");
  auto const sum = std::accumulate(split.begin(), split.end(), std::int64_t{0});
  TORCH_CHECK(sum == rows && std::all_of(split.begin(), split.end(), [](auto n) { return n >= 0; }),
              "blink: all_to_all: the ", which, "'s split sums to ", sum, ", expected its ", rows,
              " rows");
  auto const row = rows == 0 ? 0 : all.bytes() / static_cast<std::size_t>(rows);
  auto* at = static_cast<std::byte*>(all.data());
  for (auto const count : split) {
    auto const bytes = static_cast<std::size_t>(count) * row;
    result.push_back({at, bytes});
    at += bytes;
  }
  return result;
}

reduction reduction_of(at::Tensor const& data, c10d::ReduceOp const& what, char const* call) {
  reduction const result{type_of(data, call), operation_of(what, call)};
  TORCH_CHECK(blink::has_operation(result.type, result.what), "blink: ", call,
              ": elements of type ", toString(data.scalar_type()), " have no ",
              std::string(blink::to_text(result.what)), ", expected another operation");
  return result;
}

}  // namespace blink_torch
