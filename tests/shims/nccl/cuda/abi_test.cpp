// SPDX-License-Identifier: Apache-2.0
// Compares our declarations with those of the installed NCCL: equal values, and parameters that are
// passed alike.

#include <abi.hpp>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

namespace {

using namespace blink_nccl;

template <class A, class B>
constexpr bool passes_alike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
    std::is_class_v<A> == std::is_class_v<B> &&
    std::is_floating_point_v<A> == std::is_floating_point_v<B>;

template <class A, class B>
struct calls_alike : std::false_type {};
template <class ResultA, class... A, class ResultB, class... B>
  requires(sizeof...(A) == sizeof...(B))
struct calls_alike<ResultA (*)(A...), ResultB (*)(B...)>
    : std::bool_constant<passes_alike<ResultA, ResultB> && (passes_alike<A, B> && ...)> {};
static_assert(!calls_alike<int (*)(int), int (*)(void*)>::value);

#if NCCL_VERSION_CODE >= 22800
#define BLINK_NCCL_COMPARE(name, parameters) \
  static_assert(calls_alike<decltype(&nccl##name), result(*) parameters>::value, #name);
BLINK_NCCL_FUNCTIONS(BLINK_NCCL_COMPARE)
#endif

static_assert(int{ncclSuccess} == static_cast<int>(result::success) &&
              int{ncclUnhandledCudaError} == static_cast<int>(result::cuda_error) &&
              int{ncclSystemError} == static_cast<int>(result::system_error) &&
              int{ncclInternalError} == static_cast<int>(result::internal_error) &&
              int{ncclInvalidArgument} == static_cast<int>(result::invalid_argument) &&
              int{ncclInvalidUsage} == static_cast<int>(result::invalid_usage) &&
              int{ncclRemoteError} == static_cast<int>(result::remote_error) &&
              int{ncclInProgress} == static_cast<int>(result::in_progress));
static_assert(int{ncclInt8} == static_cast<int>(data_type::int8) &&
              int{ncclUint8} == static_cast<int>(data_type::uint8) &&
              int{ncclInt32} == static_cast<int>(data_type::int32) &&
              int{ncclUint32} == static_cast<int>(data_type::uint32) &&
              int{ncclInt64} == static_cast<int>(data_type::int64) &&
              int{ncclUint64} == static_cast<int>(data_type::uint64) &&
              int{ncclFloat16} == static_cast<int>(data_type::float16) &&
              int{ncclFloat32} == static_cast<int>(data_type::float32) &&
              int{ncclFloat64} == static_cast<int>(data_type::float64) &&
              int{ncclBfloat16} == static_cast<int>(data_type::bfloat16));
#if NCCL_VERSION_CODE >= 22400
static_assert(int{ncclFloat8e4m3} == static_cast<int>(data_type::float8_e4m3) &&
              int{ncclFloat8e5m2} == static_cast<int>(data_type::float8_e5m2));
#endif
static_assert(int{ncclSum} == static_cast<int>(operation::sum) &&
              int{ncclProd} == static_cast<int>(operation::prod) &&
              int{ncclMax} == static_cast<int>(operation::max) &&
              int{ncclMin} == static_cast<int>(operation::min) &&
              int{ncclAvg} == static_cast<int>(operation::avg) &&
              int{ncclNumOps} == operation_count);
static_assert(int{ncclScalarDevice} == static_cast<int>(residence::device) &&
              int{ncclScalarHostImmediate} == static_cast<int>(residence::host_immediate));
static_assert(sizeof(ncclUniqueId) == sizeof(unique_id));
static_assert(NCCL_SPLIT_NOCOLOR == no_color && NCCL_CONFIG_UNDEF_INT == unset_number);
static_assert(offsetof(ncclConfig_t, size) == offsetof(configuration, size) &&
              offsetof(ncclConfig_t, magic) == offsetof(configuration, magic) &&
              offsetof(ncclConfig_t, version) == offsetof(configuration, version) &&
              offsetof(ncclConfig_t, blocking) == offsetof(configuration, blocking));

}  // namespace

int main() {
  ncclConfig_t const initial = NCCL_CONFIG_INITIALIZER;
  return initial.magic == configuration::expected_magic ? 0 : 1;
}
