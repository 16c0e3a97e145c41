// SPDX-License-Identifier: Apache-2.0
// Compares our declarations with those of the installed NCCL: equal values, and parameters that are
// passed alike.

#include <abi.hpp>
#include <function_list.hpp>
#include <nccl.h>
#if NCCL_VERSION_CODE >= 23203
#include <nccl_device/host.h>
#endif

#include <cstddef>
#include <type_traits>

namespace {

using namespace blink_nccl;

template <class A, class B>
constexpr bool passes_alike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
    std::is_class_v<A> == std::is_class_v<B> &&
    std::is_floating_point_v<A> == std::is_floating_point_v<B>;
template <>
constexpr bool passes_alike<void, void> = true;

template <class A, class B>
struct calls_alike : std::false_type {};
template <class ResultA, class... A, class ResultB, class... B>
  requires(sizeof...(A) == sizeof...(B))
struct calls_alike<ResultA (*)(A...), ResultB (*)(B...)>
    : std::bool_constant<passes_alike<ResultA, ResultB> && (passes_alike<A, B> && ...)> {};
static_assert(!calls_alike<int (*)(int), int (*)(void*)>::value);

#define BLINK_NCCL_COMPARE(type, name, parameters) \
  static_assert(calls_alike<decltype(&nccl##name), type(*) parameters>::value, #name);
#if NCCL_VERSION_CODE >= 22800
BLINK_NCCL_FUNCTIONS_2_28(BLINK_NCCL_COMPARE)
#endif
#if NCCL_VERSION_CODE >= 23203
BLINK_NCCL_FUNCTIONS_2_32(BLINK_NCCL_COMPARE)
BLINK_NCCL_DEVICE_FUNCTIONS(BLINK_NCCL_COMPARE)

static_assert(int{ncclTimeout} == static_cast<int>(result::timeout) &&
              int{ncclNumResults} == result_count);
static_assert(NCCL_SHRINK_ABORT == shrink_aborts && NCCL_SUSPEND_MEM == suspends_memory);
static_assert(int{ncclStatGpuMemSuspend} == static_cast<int>(memory_statistic::suspendable_bytes) &&
              int{ncclStatGpuMemSuspended} == static_cast<int>(memory_statistic::is_suspended) &&
              int{ncclStatGpuMemPersist} == static_cast<int>(memory_statistic::persistent_bytes) &&
              int{ncclStatGpuMemTotal} == static_cast<int>(memory_statistic::total_bytes));

/// The same size, and these fields at the same places.
#define BLINK_NCCL_SAME_PLACE(theirs, their_field, ours, our_field) \
  static_assert(offsetof(theirs, their_field) == offsetof(ours, our_field), #their_field);
static_assert(sizeof(ncclCollConfig_t) == sizeof(collective_configuration));
BLINK_NCCL_SAME_PLACE(ncclCollConfig_t, magic, collective_configuration, magic)
BLINK_NCCL_SAME_PLACE(ncclCollConfig_t, version, collective_configuration, version)
BLINK_NCCL_SAME_PLACE(ncclCollConfig_t, ext, collective_configuration, extensions)
BLINK_NCCL_SAME_PLACE(ncclCollConfig_t, minCTAs, collective_configuration, least_blocks)
BLINK_NCCL_SAME_PLACE(ncclCollConfig_t, algSelection, collective_configuration, algorithms)
BLINK_NCCL_SAME_PLACE(ncclCollConfig_t, forceAlgSelection, collective_configuration,
                      forces_algorithms)
BLINK_NCCL_SAME_PLACE(ncclCollConfig_t, CTAPolicy, collective_configuration, policy)
BLINK_NCCL_SAME_PLACE(ncclCollConfig_t, userProfilerTag, collective_configuration, profiler_tag)
BLINK_NCCL_SAME_PLACE(ncclCollConfig_t, launchCompletionEvent, collective_configuration,
                      launch_event)
static_assert(sizeof(ncclSimInfo_t) == sizeof(simulation_info));
BLINK_NCCL_SAME_PLACE(ncclSimInfo_t, magic, simulation_info, magic)
BLINK_NCCL_SAME_PLACE(ncclSimInfo_t, estimatedTime, simulation_info, time)
static_assert(sizeof(ncclEncryptionConfig_t) == sizeof(encryption_configuration));
BLINK_NCCL_SAME_PLACE(ncclEncryptionConfig_t, mode, encryption_configuration, mode)
static_assert(sizeof(ncclCommProperties_t) == sizeof(communicator_properties));
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, rank, communicator_properties, rank)
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, nRanks, communicator_properties, rank_count)
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, cudaDev, communicator_properties, device)
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, nvmlDev, communicator_properties, management_device)
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, deviceApiSupport, communicator_properties,
                      has_device_interface)
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, multimemSupport, communicator_properties, has_multicast)
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, ginType, communicator_properties, network_kind)
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, nLsaTeams, communicator_properties, load_store_teams)
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, hostRmaSupport, communicator_properties, has_windows)
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, commHash, communicator_properties, hash)
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, ginSupport, communicator_properties, network_kinds)
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, devCommRuntimeVersionSize, communicator_properties,
                      device_communicator_bytes)
BLINK_NCCL_SAME_PLACE(ncclCommProperties_t, cftSupport, communicator_properties, has_fabric)
static_assert(offsetof(ncclTeam_t, rank) == offsetof(rank_team, rank) &&
              offsetof(ncclTeam_t, stride) == offsetof(rank_team, stride));
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
  bool is_right = initial.magic == configuration::expected_magic;
#if NCCL_VERSION_CODE >= 23203
  ncclSimInfo_t const simulated = NCCL_SIM_INFO_INITIALIZER;
  ncclCollConfig_t const call = NCCL_COLLCONFIG_INITIALIZER;
  is_right = is_right && simulated.magic == simulation_info::expected_magic &&
             simulated.estimatedTime == simulation_info::unknown_time &&
             call.magic == collective_configuration::expected_magic;
#endif
  return is_right ? 0 : 1;
}
