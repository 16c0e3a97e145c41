// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/readers/detail/loaded_library.hpp>

#include <dlfcn.h>

#include <string>

namespace blink { inline namespace BLINK_ABI {

/// The PCI place of a device. The layout is that of NVML's `nvmlPciInfo_t`, version 3.
struct nvml_pci_info {
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_and_vendor;
  unsigned subsystem;
  char bus_id[32];
};

/// The functions of NVIDIA's management library that `read_driver` calls, with the library's types.
/// They are the library's own (`load_nvml`) or those of a test. All return 0 for success.
struct nvml_calls {
  int (*init)();                                            ///< nvmlInit_v2
  int (*shutdown)();                                        ///< nvmlShutdown
  char const* (*error_text)(int);                           ///< nvmlErrorString
  int (*device_count)(unsigned* count);                     ///< nvmlDeviceGetCount_v2
  int (*device)(unsigned index, void** handle);             ///< nvmlDeviceGetHandleByIndex_v2
  int (*pci_info)(void* handle, nvml_pci_info* info);       ///< nvmlDeviceGetPciInfo_v3
  int (*capability)(void* handle, int* major, int* minor);  ///< nvmlDeviceGetCudaComputeCapability
  int (*nvlink_state)(void* handle, unsigned link, unsigned* is_active);
  ///< nvmlDeviceGetNvLinkState: fails for links that the device does not have
  int (*nvlink_remote)(void* handle, unsigned link, nvml_pci_info* info);
  ///< nvmlDeviceGetNvLinkRemotePciInfo_v2
  int (*nvlink_remote_type)(void* handle, unsigned link, unsigned* type);
  ///< nvmlDeviceGetNvLinkRemoteDeviceType: 0 GPU, 1 processor, 2 switch; null before NVML 11.6
  int (*uuid)(void* handle, char* text, unsigned bytes);
  ///< nvmlDeviceGetUUID, also of MIG devices; null: UUIDs are not asked for

  // MIG devices; null before NVML 11.
  int (*mig_mode)(void* handle, unsigned* now, unsigned* later);  ///< nvmlDeviceGetMigMode
  int (*mig_count)(void* handle, unsigned* most);  ///< nvmlDeviceGetMaxMigDeviceCount
  int (*mig_device)(void* handle, unsigned index, void** device);
  ///< nvmlDeviceGetMigDeviceHandleByIndex: 6 (not found) for an index that is free
  int (*gpu_instance)(void* device, unsigned* id);      ///< nvmlDeviceGetGpuInstanceId
  int (*compute_instance)(void* device, unsigned* id);  ///< nvmlDeviceGetComputeInstanceId
};

/// Loads NVML, the library of this machine's driver, and keeps it loaded. Programs that do not call
/// this start without a driver.
///
/// Throws: resource_error that names the missing library or function.
[[nodiscard]] inline nvml_calls load_nvml(std::string const& library = "libnvidia-ml.so.1") {
  detail::loaded_library const functions(library, RTLD_LOCAL, "no NVIDIA driver", "a newer driver");
  nvml_calls result{};
  functions.find(result.init, "nvmlInit_v2");
  functions.find(result.shutdown, "nvmlShutdown");
  functions.find(result.error_text, "nvmlErrorString");
  functions.find(result.device_count, "nvmlDeviceGetCount_v2");
  functions.find(result.device, "nvmlDeviceGetHandleByIndex_v2");
  functions.find(result.pci_info, "nvmlDeviceGetPciInfo_v3");
  functions.find(result.capability, "nvmlDeviceGetCudaComputeCapability");
  functions.find(result.nvlink_state, "nvmlDeviceGetNvLinkState");
  functions.find(result.nvlink_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  functions.find(result.nvlink_remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType", false);
  functions.find(result.uuid, "nvmlDeviceGetUUID");
  functions.find(result.mig_mode, "nvmlDeviceGetMigMode", false);
  functions.find(result.mig_count, "nvmlDeviceGetMaxMigDeviceCount", false);
  functions.find(result.mig_device, "nvmlDeviceGetMigDeviceHandleByIndex", false);
  functions.find(result.gpu_instance, "nvmlDeviceGetGpuInstanceId", false);
  functions.find(result.compute_instance, "nvmlDeviceGetComputeInstanceId", false);
  return result;
}

}}  // namespace blink::BLINK_ABI
