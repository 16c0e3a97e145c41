// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

namespace blink { inline namespace BLINK_ABI {

/// What NVML says about the place of a device. The layout is NVML's own (`nvmlPciInfo_t`, version 3).
struct nvml_pci_info {
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_and_vendor;
  unsigned subsystem;
  char bus_id[32];
};

/// The functions of NVIDIA's management library that `read_driver` needs, with its signatures: the
/// library itself (`load_nvml`), or a test's own. All return 0 for success.
struct nvml_calls {
  int (*init)();                                            ///< nvmlInit_v2
  int (*shutdown)();                                        ///< nvmlShutdown
  char const* (*error_text)(int);                           ///< nvmlErrorString
  int (*device_count)(unsigned* count);                     ///< nvmlDeviceGetCount_v2
  int (*device)(unsigned index, void** handle);             ///< nvmlDeviceGetHandleByIndex_v2
  int (*pci_info)(void* handle, nvml_pci_info* info);       ///< nvmlDeviceGetPciInfo_v3
  int (*capability)(void* handle, int* major, int* minor);  ///< nvmlDeviceGetCudaComputeCapability
  int (*nvlink_state)(void* handle, unsigned link, unsigned* is_active);
  ///< nvmlDeviceGetNvLinkState: an error for links that the device does not have
  int (*nvlink_remote)(void* handle, unsigned link, nvml_pci_info* info);
  ///< nvmlDeviceGetNvLinkRemotePciInfo_v2
  int (*nvlink_remote_type)(void* handle, unsigned link, unsigned* type);
  ///< nvmlDeviceGetNvLinkRemoteDeviceType: 0 GPU, 1 processor, 2 switch; null before NVML 11.6
};

}}  // namespace blink::BLINK_ABI
