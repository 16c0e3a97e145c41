// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/readers/nvml_calls.hpp>

#include <dlfcn.h>

#include <string>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// NVML of the driver of this machine. The library is loaded when it is asked for, so that programs
/// start without a driver, and stays.
///
/// Throws: resource_error that says which library or function is missing.
[[nodiscard]] inline nvml_calls load_nvml(std::string const& library = "libnvidia-ml.so.1") {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw resource_error(std::string("no NVIDIA driver: ") + dlerror());
  }
  auto const find = [&](auto& function, char const* name, bool is_needed = true) {
    void* const address = dlsym(handle, name);
    if (address == nullptr && is_needed) {
      throw resource_error(library + ": no function " + name + ", expected a newer driver");
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  nvml_calls result{};
  find(result.init, "nvmlInit_v2");
  find(result.shutdown, "nvmlShutdown");
  find(result.error_text, "nvmlErrorString");
  find(result.device_count, "nvmlDeviceGetCount_v2");
  find(result.device, "nvmlDeviceGetHandleByIndex_v2");
  find(result.pci_info, "nvmlDeviceGetPciInfo_v3");
  find(result.capability, "nvmlDeviceGetCudaComputeCapability");
  find(result.nvlink_state, "nvmlDeviceGetNvLinkState");
  find(result.nvlink_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
  find(result.nvlink_remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType", false);
  return result;
}

}}  // namespace blink::BLINK_ABI
