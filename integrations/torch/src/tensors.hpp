// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine.hpp"
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace blink_torch {

/// A tensor as consecutive bytes: its own, or a copy if its elements lie otherwise.
class flat_tensor {
 public:
  flat_tensor() = default;
  explicit flat_tensor(at::Tensor const& given)
      : given_(given), memory_(given.resolve_conj().contiguous()) {}

  [[nodiscard]] void* data() const { return memory_.data_ptr(); }
  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(memory_.numel()); }
  [[nodiscard]] std::size_t bytes() const {
    return count() * static_cast<std::size_t>(memory_.element_size());
  }
  [[nodiscard]] segment bytes_here() const { return {data(), bytes()}; }
  /// Of so many equal parts, each.
  [[nodiscard]] std::vector<segment> parts(int count) const {
    auto const each = bytes() / static_cast<std::size_t>(count);
    std::vector<segment> result;
    for (int k = 0; k < count; ++k) {
      result.push_back(
          {static_cast<std::byte*>(data()) + static_cast<std::size_t>(k) * each, each});
    }
    return result;
  }
  /// Copies results to the user's tensor, unless they are there.
  void write_back() const {
    if (memory_.is_same(given_)) return;
    at::NoGradGuard const no_gradients;
    auto given = given_;
    given.copy_(memory_);
  }
  [[nodiscard]] at::Tensor const& memory() const { return memory_; }

 private:
  at::Tensor given_, memory_;
};

[[nodiscard]] inline std::vector<flat_tensor> flat(std::vector<at::Tensor> const& all) {
  return {all.begin(), all.end()};
}
[[nodiscard]] inline std::vector<segment> segments_of(std::vector<flat_tensor> const& all) {
  std::vector<segment> result;
  for (auto const& each : all) result.push_back(each.bytes_here());
  return result;
}
inline void write_back(std::vector<flat_tensor> const& all) {
  for (auto const& each : all) each.write_back();
}

inline void expect_on_host(at::Tensor const& tensor, char const* call) {
  TORCH_CHECK(tensor.defined(), "blink: ", call, ": a tensor is undefined, expected elements");
  TORCH_CHECK(tensor.device().is_cpu(), "blink: ", call, ": a tensor on ", tensor.device().str(),
              ", expected tensors on the CPU");
  TORCH_CHECK(tensor.layout() == c10::kStrided, "blink: ", call,
              ": a sparse tensor, expected dense ones (all_reduce also takes sparse ones)");
}
inline void expect_on_host(std::vector<at::Tensor> const& all, char const* call) {
  for (auto const& each : all) expect_on_host(each, call);
}
/// Lists with one entry, as PyTorch calls a backend for each process.
template <class List>
void expect_one(List const& list, char const* call, char const* what) {
  TORCH_CHECK(list.size() == 1, "blink: ", call, ": ", list.size(), " ", what, ", expected one");
}
inline void expect_alike(at::Tensor const& a, at::Tensor const& b, char const* call) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "blink: ", call, ": tensors of types ",
              toString(a.scalar_type()), " and ", toString(b.scalar_type()),
              ", expected equal types");
}

/// The rows of a tensor that go to each rank, or come from it.
///
/// split:  rows for each rank; empty: as many for each
/// which:  "input" or "output"
/// Throws: c10::Error if the rows cannot be split so.
[[nodiscard]] std::vector<segment> split_rows(flat_tensor const& all, at::Tensor const& tensor,
                                              std::vector<std::int64_t> const& split, int ranks,
                                              char const* which);

/// Throws: c10::Error for an operation or a type that blink does not reduce.
[[nodiscard]] reduction reduction_of(at::Tensor const& data, c10d::ReduceOp const& what,
                                     char const* call);

}  // namespace blink_torch
