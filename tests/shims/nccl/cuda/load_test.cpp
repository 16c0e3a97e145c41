// SPDX-License-Identifier: Apache-2.0
// Loads libnccl.so.2 like PyTorch and asks for its version. With a GPU, two ranks on it reduce all
// types that the library is built for, and other communicators are made from theirs. Without one,
// the library starts and reports that there is no device.

#include <abi.hpp>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <element_types.hpp>
#include <fallback.hpp>
#include <function_list.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace blink_nccl;

int fail(char const* what) {
  std::printf("failed: %s\n", what);
  return 1;
}

constexpr std::size_t count = 1 << 16;

struct two_ranks {
  other_library const& nccl;
  communicator* comm[2] = {};
  void* data[2] = {};
  int built = 0;
};

/// Rank 0 has ones, rank 1 twos; after the call both have the result. Returns the error, if any.
template <data_type Type>
std::string check_type(two_ranks& all) {
  using T = element_t<Type>;
  bool const is_whole = std::is_integral_v<T>;
  float const expected[operation_count] = {3.0F, 2.0F, 2.0F, 1.0F, is_whole ? 1.0F : 1.5F};
  for (int number = 0; number < operation_count; ++number) {
    auto const what = static_cast<operation>(number);
    std::vector<T> values(count);
    (void)all.nccl.GroupStart();
    for (int rank = 0; rank < 2; ++rank) {
      values.assign(count, static_cast<T>(static_cast<float>(rank + 1)));
      (void)cudaMemcpy(all.data[rank], values.data(), count * sizeof(T), cudaMemcpyHostToDevice);
      (void)all.nccl.AllReduce(all.data[rank], all.data[rank], count, Type, what, all.comm[rank],
                               nullptr);
    }
    auto const code = all.nccl.GroupEnd();
    std::string const text = all.nccl.GetLastError(nullptr);
    if (code == result::invalid_usage && text.find("built without") != std::string::npos) return "";
    if (code != result::success) return text;
    if (cudaDeviceSynchronize() != cudaSuccess) return "cudaDeviceSynchronize";
    for (void* const one : all.data) {
      (void)cudaMemcpy(values.data(), one, count * sizeof(T), cudaMemcpyDeviceToHost);
      for (T const found : values) {
        if (static_cast<float>(found) == expected[number]) continue;
        return to_text(what) + " of " + to_text(Type) + " is " +
               std::to_string(static_cast<float>(found));
      }
    }
  }
  ++all.built;
  return "";
}

/// The sum of 1, 2, 4, ... over all ranks of a communicator. Returns the error, if any.
std::string check_sum(other_library const& nccl, std::vector<communicator*> const& comm) {
  std::vector<float*> data(comm.size());
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    auto const own = static_cast<float>(1 << rank);
    (void)cudaMalloc(&data[rank], sizeof own);
    (void)cudaMemcpy(data[rank], &own, sizeof own, cudaMemcpyHostToDevice);
  }
  (void)nccl.GroupStart();
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    (void)nccl.AllReduce(data[rank], data[rank], 1, data_type::float32, operation::sum, comm[rank],
                         nullptr);
  }
  if (nccl.GroupEnd() != result::success) return nccl.GetLastError(nullptr);
  if (cudaDeviceSynchronize() != cudaSuccess) return "cudaDeviceSynchronize";
  for (float* const one : data) {
    float found = 0;
    (void)cudaMemcpy(&found, one, sizeof found, cudaMemcpyDeviceToHost);
    (void)cudaFree(one);
    if (found != static_cast<float>((1 << comm.size()) - 1)) return std::to_string(found);
  }
  return "";
}
/// Begins communicators by `make(rank, where)` in a group, checks a sum over them, and destroys
/// them. Returns the error, if any.
template <class Make>
std::string check_made(other_library const& nccl, std::size_t ranks, Make const& make) {
  std::vector<communicator*> made(ranks);
  (void)nccl.GroupStart();
  for (std::size_t rank = 0; rank < ranks; ++rank) (void)make(static_cast<int>(rank), &made[rank]);
  if (nccl.GroupEnd() != result::success) return nccl.GetLastError(nullptr);
  auto const wrong = check_sum(nccl, made);
  for (auto* const one : made) {
    if (nccl.CommDestroy(one) != result::success) return nccl.GetLastError(nullptr);
  }
  return wrong;
}
/// Grows, shrinks, suspends, revokes and splits. Returns the error, if any.
std::string check_derived(other_library const& nccl, communicator* const (&comm)[2]) {
  unique_id id{};
  if (nccl.CommGetUniqueId(comm[0], &id) != result::success) return nccl.GetLastError(nullptr);
  auto wrong = check_made(nccl, 3, [&](int rank, communicator** where) {
    return rank < 2 ? nccl.CommGrow(comm[rank], 3, nullptr, -1, where, nullptr)
                    : nccl.CommGrow(nullptr, 3, &id, rank, where, nullptr);
  });
  if (!wrong.empty()) return "grown: " + wrong;
  int excluded = 0;
  wrong = check_made(nccl, 1, [&](int, communicator** where) {
    return nccl.CommShrink(comm[1], &excluded, 1, where, nullptr, 0);
  });
  if (!wrong.empty()) return "shrunk: " + wrong;
  std::uint64_t bytes = 0;
  (void)nccl.CommMemStats(comm[0], memory_statistic::total_bytes, &bytes);
  if (bytes == 0) return "no memory";
  for (auto* const one : comm) {
    result code{};
    if (nccl.CommRevoke(one, 0) != result::success) return nccl.GetLastError(nullptr);
    if (nccl.CommGetAsyncError(one, &code) != result::success || code != result::success) {
      return "revoked: not idle";
    }
  }
  wrong = check_made(nccl, 2, [&](int rank, communicator** where) {
    return nccl.CommSplit(comm[rank], 0, rank, where, nullptr);
  });
  return wrong.empty() ? "" : "split after a revoke: " + wrong;
}

int reduce_on_one_gpu(other_library const& nccl) {
  int const twice[2] = {0, 0};
  two_ranks all{nccl};
  if (nccl.CommInitAll(all.comm, 2, twice) != result::success) {
    return fail(nccl.GetLastError(nullptr));
  }
  for (void*& one : all.data) {
    if (nccl.MemAlloc(&one, count * 8) != result::success) return fail("ncclMemAlloc");
  }
  std::string wrong;
#define BLINK_NCCL_CHECK(name) \
  if (wrong.empty()) wrong = check_type<data_type::name>(all);
  BLINK_NCCL_ALL_TYPES(BLINK_NCCL_CHECK)
#undef BLINK_NCCL_CHECK
  if (!wrong.empty()) return fail(wrong.c_str());
  if (all.built == 0) return fail("the library reduces no type");
  wrong = check_derived(nccl, all.comm);
  if (!wrong.empty()) return fail(wrong.c_str());
  for (int rank = 0; rank < 2; ++rank) {
    if (nccl.MemFree(all.data[rank]) != result::success) return fail("ncclMemFree");
    if (nccl.CommDestroy(all.comm[rank]) != result::success) return fail("ncclCommDestroy");
  }
  std::printf("two ranks on one GPU: reductions of %d types are right\n", all.built);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return fail("usage: load_test PATH_OF_LIBNCCL");
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(dlerror());
  other_library const nccl(library);
#define BLINK_NCCL_EXPECT(type, name, parameters) \
  if (nccl.name == nullptr) return fail("no nccl" #name);
  BLINK_NCCL_FUNCTIONS(BLINK_NCCL_EXPECT)
#undef BLINK_NCCL_EXPECT
  int version = 0;
  if (nccl.GetVersion(&version) != result::success || version != interface_version) {
    return fail("ncclGetVersion");
  }
  unique_id id{};
  if (nccl.GetUniqueId(&id) != result::success) return fail("ncclGetUniqueId");
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) return reduce_on_one_gpu(nccl);
  communicator* comm = nullptr;
  if (nccl.CommInitRank(&comm, 1, id, 0) != result::cuda_error || comm != nullptr) {
    return fail("no error of CUDA, expected one because there is no device");
  }
  std::string const text = nccl.GetLastError(nullptr);
  if (text.find("no CUDA device") == std::string::npos) return fail(text.c_str());
  std::printf("skipped: %s\n", text.c_str());
  return 77;
}
