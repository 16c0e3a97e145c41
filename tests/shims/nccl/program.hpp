// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parts of the tests' programs for NCCL: communicators, memory of devices, one thread for all
// ranks or one for each.

#include "emulated_platform.hpp"
#include <functions.hpp>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink_test {

using namespace blink_nccl;

inline stream_handle stream_number(int number) {
  return reinterpret_cast<stream_handle>(static_cast<std::intptr_t>(number));
}
inline shared_devices& devices() {
  return emulated_platform::devices();
}

/// Elements in memory of a device. Like cudaFree, the destructor waits for work that still runs.
template <class T>
class elements {
 public:
  elements(int device, std::size_t count, T fill = T{})
      : device_(device),
        count_(count),
        data_(static_cast<T*>(devices().allocate(device, count * sizeof(T) + 1))) {
    for (std::size_t k = 0; k < count_; ++k) data_[k] = fill;
  }
  elements(elements const&) = delete;
  elements& operator=(elements const&) = delete;
  ~elements() {
    // Copies between two devices may be in a stream of either device.
    for (int device = 0; device < devices().device_count(); ++device) devices().synchronize(device);
    devices().release(device_, data_);
  }
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] T& operator[](std::size_t k) const { return data_[k]; }

 private:
  int device_;
  std::size_t count_;
  T* data_;
};

/// Calls `call(rank)` by a thread for each of the ranks. Returns the results.
template <class Call>
std::vector<result> by_threads_of(std::vector<std::size_t> const& ranks, Call const& call) {
  std::vector<result> results(ranks.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      threads.emplace_back([&, k] { results[k] = call(ranks[k]); });
    }
  }
  return results;
}

/// Communicators of all ranks, and a stream for each.
struct program {
  std::vector<int> device;  ///< by rank
  std::vector<communicator*> comm;

  explicit program(std::vector<int> on) : device(std::move(on)), comm(device.size()) {
    EXPECT_EQ(ncclCommInitAll(comm.data(), static_cast<int>(device.size()), device.data()),
              result::success)
        << ncclGetLastError(nullptr);
  }
  program(program const&) = delete;
  program& operator=(program const&) = delete;
  ~program() {
    for (auto* const one : comm) EXPECT_EQ(ncclCommDestroy(one), result::success);
  }
  [[nodiscard]] std::size_t size() const { return device.size(); }
  /// The stream of a rank; ranks on one device have different streams.
  [[nodiscard]] static stream_handle stream(std::size_t rank) {
    return stream_number(static_cast<int>(rank % 3) + 1);
  }
  void synchronize() const {
    for (std::size_t rank = 0; rank < size(); ++rank) {
      devices().synchronize(device[rank], emulated_platform::stream_of(stream(rank)));
    }
  }
  /// One thread calls for all ranks, in a group. Returns the group's result.
  template <class Call>
  result by_one_thread(Call const& call) const {
    EXPECT_EQ(ncclGroupStart(), result::success);
    for (std::size_t rank = 0; rank < size(); ++rank) (void)call(rank);
    return ncclGroupEnd();
  }
  /// One thread for each rank. Returns the result of each call.
  template <class Call>
  std::vector<result> by_threads(Call const& call) const {
    std::vector<std::size_t> ranks(size());
    std::iota(ranks.begin(), ranks.end(), std::size_t{0});
    return by_threads_of(ranks, call);
  }
};

/// Sets BLINK_DEADLINE for the communicators that are made during its life.
class with_deadline {
 public:
  explicit with_deadline(char const* seconds) { setenv("BLINK_DEADLINE", seconds, 1); }
  with_deadline(with_deadline const&) = delete;
  with_deadline& operator=(with_deadline const&) = delete;
  ~with_deadline() { unsetenv("BLINK_DEADLINE"); }
};

inline unique_id new_id() {
  unique_id id{};
  EXPECT_EQ(ncclGetUniqueId(&id), result::success);
  return id;
}
/// A configuration of communicators that do not block.
inline configuration not_blocking() {
  return {sizeof(configuration), configuration::expected_magic, 22809, 0};
}
/// The result of `ncclCommGetAsyncError`.
inline result async_error(communicator* comm) {
  result code = result::internal_error;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &code), result::success);
  return code;
}
/// An all-reduce in place of the first elements.
inline result sum_on_stream(communicator* comm, elements<float> const& data, int stream,
                            std::size_t count = 1) {
  return ncclAllReduce(data.data(), data.data(), count, data_type::float32, operation::sum, comm,
                       stream_number(stream));
}

/// A configuration of collectives that sets nothing.
inline collective_configuration unset_configuration() {
  collective_configuration made{};
  made.size = sizeof made;
  made.magic = collective_configuration::expected_magic;
  made.version = interface_version;
  made.least_blocks = made.most_blocks = made.most_multicast_blocks = unset_number;
  made.cluster_size = made.policy = unset_number;
  made.forces_algorithms = 1;
  return made;
}
/// The rank of a communicator and its number of ranks, as text such as "1 of 3".
inline std::string place_in(communicator* comm) {
  int rank = -1, count = -1;
  EXPECT_EQ(ncclCommUserRank(comm, &rank), result::success) << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclCommCount(comm, &count), result::success);
  return std::to_string(rank) + " of " + std::to_string(count);
}

/// Expects that a call fails with this code and that the last error contains this text.
inline void expect_refused(result found, result expected, std::string const& part,
                           communicator* comm = nullptr) {
  EXPECT_EQ(found, expected);
  std::string const text = ncclGetLastError(comm);
  EXPECT_NE(text.find(part), std::string::npos) << "the error is: " << text;
}

}  // namespace blink_test
