// SPDX-License-Identifier: Apache-2.0
#pragma once

// A random collective with its buffers, and its expected result by a serial loop.

#include "program.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace blink_test {

enum class what {
  all_reduce,
  reduce,
  reduce_scatter,
  broadcast,
  bcast,
  all_gather,
  all_to_all,
  gather,
  scatter
};

/// A factor that is a power of two, and not the same on all ranks.
inline int factor_of(std::size_t rank) {
  return rank % 2 == 0 ? 2 : 1;
}

/// 1 or 2, so that sums and products of several are exact in all types.
inline int value_of(std::size_t rank, std::size_t index) {
  return 1 + static_cast<int>((rank * 7 + index * 13 + index / 5) % 2);
}

template <class T>
T expected_total(int operation, std::size_t ranks, std::size_t index) {
  int total = operation == 1 ? 1 : operation == 3 ? 100 : 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    int const value = value_of(rank, index);
    if (operation == 1) total *= value;
    if (operation == 2) total = std::max(total, value);
    if (operation == 3) total = std::min(total, value);
    if (operation == 0 || operation == 4) total += value;
    if (operation == 5) total += factor_of(rank) * value;
  }
  int const count = static_cast<int>(ranks);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(operation == 4 ? total / count : total);
  } else {
    float const exact = static_cast<float>(total);
    return static_cast<T>(operation == 4 ? exact / static_cast<float>(count) : exact);
  }
}

/// One call of all ranks, with the buffers of the ranks of this process. All other values are drawn
/// alike in all processes.
template <class T>
class one_call {
 public:
  /// devices: of the ranks from `first` on
  one_call(std::size_t ranks, std::size_t first, std::vector<int> const& devices, what kind,
           data_type type, std::mt19937_64& random)
      : first_(first), kind_(kind), type_(type), ranks_(ranks) {
    constexpr std::size_t counts[] = {0, 1, 2, 37, 300};
    count_ = counts[random() % 5];
    root_ = random() % ranks_;
    operation_ = static_cast<int>(random() % 6);
    in_place_ = random() % 3 == 0 || kind == what::bcast;
    is_configured_ = random() % 2 == 0;
    bool const has_blocks_in =
        kind == what::reduce_scatter || kind == what::all_to_all || kind == what::scatter;
    bool const has_blocks_out =
        kind == what::all_gather || kind == what::all_to_all || kind == what::gather;
    in_blocks_ = has_blocks_in ? ranks_ : 1;
    out_blocks_ = has_blocks_out ? ranks_ : 1;
    std::size_t const room = count_ * ranks_;
    for (std::size_t own = 0; own < devices.size(); ++own) {
      std::size_t const rank = first + own;
      inputs_.push_back(std::make_unique<elements<T>>(devices[own], room));
      outputs_.push_back(std::make_unique<elements<T>>(devices[own], room));
      in_.push_back(inputs_[own]->data());
      out_.push_back(outputs_[own]->data());
      if (in_place_) {
        in_[own] = out_[own] = inputs_[own]->data();
        if (in_blocks_ > out_blocks_) out_[own] += rank * count_;
        if (out_blocks_ > in_blocks_) in_[own] += rank * count_;
      }
      for (std::size_t k = 0; k < count_ * in_blocks_; ++k) {
        in_[own][k] = static_cast<T>(static_cast<float>(value_of(rank, k)));
      }
    }
  }

  /// own: the operation that the rank has made
  result make(std::size_t rank, communicator* comm, operation own) const {
    auto const stream = program::stream(rank);
    void const* const in = in_[rank - first_];
    void* const out = out_[rank - first_];
    auto const reduce = operation_ == 5 ? own : static_cast<operation>(operation_);
    int const root = static_cast<int>(root_);
    if (is_configured_ && rank != 0 && kind_ != what::bcast) {
      auto const config = unset_configuration();
      return make_configured(in, out, rank, reduce, root, comm, rank == 1 ? &config : nullptr);
    }
    switch (kind_) {
      case what::all_reduce:
        return ncclAllReduce(in, out, count_, type_, reduce, comm, stream);
      case what::reduce:
        return ncclReduce(in, rank == root_ ? out : nullptr, count_, type_, reduce, root, comm,
                          stream);
      case what::reduce_scatter:
        return ncclReduceScatter(in, out, count_, type_, reduce, comm, stream);
      case what::broadcast:
        return ncclBroadcast(rank == root_ ? in : nullptr, out, count_, type_, root, comm, stream);
      case what::bcast:
        return ncclBcast(out, count_, type_, root, comm, stream);
      case what::all_gather:
        return ncclAllGather(in, out, count_, type_, comm, stream);
      case what::all_to_all:
        return ncclAlltoAll(in, out, count_, type_, comm, stream);
      case what::gather:
        return ncclGather(in, rank == root_ ? out : nullptr, count_, type_, root, comm, stream);
      case what::scatter:
        return ncclScatter(rank == root_ ? in : nullptr, out, count_, type_, root, comm, stream);
    }
    return result::internal_error;
  }

  [[nodiscard]] std::string wrong() const {
    for (std::size_t rank = first_; rank < first_ + out_.size(); ++rank) {
      bool const is_to_root = kind_ == what::reduce || kind_ == what::gather;
      if (is_to_root && rank != root_) continue;
      for (std::size_t k = 0; k < count_ * out_blocks_; ++k) {
        T const expected = expected_at(rank, k);
        T const found = out_[rank - first_][k];
        if (static_cast<float>(expected) == static_cast<float>(found)) continue;
        return "kind " + std::to_string(static_cast<int>(kind_)) + " operation " +
               std::to_string(operation_) + " count " + std::to_string(count_) +
               (in_place_ ? " in place" : "") + " rank " + std::to_string(rank) + " element " +
               std::to_string(k) + ": " + std::to_string(static_cast<float>(found)) +
               ", expected " + std::to_string(static_cast<float>(expected));
      }
    }
    return "";
  }

 private:
  /// The same by the functions that take a configuration. Other ranks may call those without.
  result make_configured(void const* in, void* out, std::size_t rank, operation reduce, int root,
                         communicator* comm, collective_configuration const* config) const {
    auto const stream = program::stream(rank);
    switch (kind_) {
      case what::all_reduce:
        return ncclAllReduceConfig(in, out, count_, type_, reduce, comm, stream, config);
      case what::reduce:
        return ncclReduceConfig(in, rank == root_ ? out : nullptr, count_, type_, reduce, root,
                                comm, stream, config);
      case what::reduce_scatter:
        return ncclReduceScatterConfig(in, out, count_, type_, reduce, comm, stream, config);
      case what::broadcast:
        return ncclBroadcastConfig(rank == root_ ? in : nullptr, out, count_, type_, root, comm,
                                   stream, config);
      case what::bcast:
        break;  // it has none
      case what::all_gather:
        return ncclAllGatherConfig(in, out, count_, type_, comm, stream, config);
      case what::all_to_all:
        return ncclAlltoAllConfig(in, out, count_, type_, comm, stream, config);
      case what::gather:
        return ncclGatherConfig(in, rank == root_ ? out : nullptr, count_, type_, root, comm,
                                stream, config);
      case what::scatter:
        return ncclScatterConfig(rank == root_ ? in : nullptr, out, count_, type_, root, comm,
                                 stream, config);
    }
    return result::internal_error;
  }
  static T moved(std::size_t rank, std::size_t index) {
    return static_cast<T>(static_cast<float>(value_of(rank, index)));
  }
  [[nodiscard]] T expected_at(std::size_t rank, std::size_t k) const {
    switch (kind_) {
      case what::all_reduce:
      case what::reduce:
        return expected_total<T>(operation_, ranks_, k);
      case what::reduce_scatter:
        return expected_total<T>(operation_, ranks_, rank * count_ + k);
      case what::broadcast:
      case what::bcast:
        return moved(root_, k);
      case what::all_gather:
      case what::gather:
        return moved(k / count_, k % count_);
      case what::all_to_all:
        return moved(k / count_, rank * count_ + k % count_);
      case what::scatter:
        return moved(root_, rank * count_ + k);
    }
    return T{};
  }

  std::size_t first_;
  what kind_;
  data_type type_;
  std::size_t ranks_;
  std::size_t count_ = 0, root_ = 0, in_blocks_ = 1, out_blocks_ = 1;
  int operation_ = 0;
  bool in_place_ = false;
  bool is_configured_ = false;
  std::vector<std::unique_ptr<elements<T>>> inputs_, outputs_;
  std::vector<T*> in_, out_;
};

}  // namespace blink_test
