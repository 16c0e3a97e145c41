// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/detail/device_names.hpp>
#include <blink/topology/readers/detail/mig_devices.hpp>
#include <blink/topology/readers/nvml_calls.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Initialises NVML, and shuts it down at the end of its life.
class nvml_library {
 public:
  explicit nvml_library(nvml_calls const& calls) : calls_(calls) {
    expect(calls_.init(), "nvmlInit");
  }
  nvml_library(nvml_library const&) = delete;
  nvml_library& operator=(nvml_library const&) = delete;
  ~nvml_library() { calls_.shutdown(); }

  void expect(int result, std::string const& what) const {
    if (result == 0) return;
    throw resource_error(what + ": " + calls_.error_text(result) + " (" + std::to_string(result) +
                         ")");
  }
  /// False for a call that the device does not know, or what it asks for is not there for us.
  [[nodiscard]] bool has(int result, std::string const& what) const {
    constexpr int not_supported = 3, no_permission = 4, not_found = 6, function_not_found = 13;
    if (result == not_supported || result == no_permission || result == not_found ||
        result == function_not_found) {
      return false;
    }
    expect(result, what);
    return true;
  }

 private:
  nvml_calls const& calls_;
};

/// One GPU as the driver knows it.
struct driver_gpu {
  std::string bus_id;
  int index = 0;  ///< NVML's number of the device
  int capability = 0;
  struct neighbour {
    std::string bus_id;
    std::string_view pci_class;
    int links = 0;
  };
  std::vector<neighbour> neighbours;  ///< by NVLink; none in MIG mode
  std::vector<std::string> uuids;     ///< as `node::uuids`
  bool is_split = false;              ///< in MIG mode
  std::vector<mig_device> parts;      ///< its MIG devices
};

/// A bus id of NVML, whose domain has eight digits, with four digits as Linux writes it.
inline std::string short_bus_id(char const* text) {
  auto all = in_small_letters(text);
  if (all.size() == 16 && all.starts_with("0000")) all.erase(0, 4);
  return all;
}

/// Reads the GPUs of this machine from NVML.
class driver_gpu_reader {
 public:
  explicit driver_gpu_reader(nvml_calls const& calls) : calls_(calls), nvml_(calls) {}

  /// Throws: resource_error that names the GPU and the call that failed.
  [[nodiscard]] std::vector<driver_gpu> read() {
    unsigned count = 0;
    nvml_.expect(calls_.device_count(&count), "nvmlDeviceGetCount");
    std::vector<driver_gpu> result;
    for (unsigned index = 0; index < count; ++index) result.push_back(read_gpu(index));
    return result;
  }

 private:
  [[nodiscard]] driver_gpu read_gpu(unsigned index) {
    auto const name = "GPU " + std::to_string(index);
    void* handle = nullptr;
    nvml_.expect(calls_.device(index, &handle), name + ", nvmlDeviceGetHandleByIndex");
    nvml_pci_info place{};
    nvml_.expect(calls_.pci_info(handle, &place), name + ", nvmlDeviceGetPciInfo");
    int major = 0, minor = 0;
    nvml_.expect(calls_.capability(handle, &major, &minor),
                 name + ", nvmlDeviceGetCudaComputeCapability");
    driver_gpu gpu;
    gpu.bus_id = short_bus_id(place.bus_id);
    gpu.index = static_cast<int>(index);
    gpu.capability = 10 * major + minor;
    gpu.uuids = uuids_of(handle, name);
    gpu.is_split = is_in_mig_mode(handle, name);
    if (gpu.is_split) {
      read_parts(handle, name, gpu);
    } else {
      read_nvlinks(handle, gpu);
    }
    return gpu;
  }

  /// The UUID of a GPU or of a MIG device; none from a driver that hides it.
  [[nodiscard]] std::vector<std::string> uuids_of(void* handle, std::string const& name) const {
    if (calls_.uuid == nullptr) return {};
    std::array<char, 97> text{};  // NVML writes at most 96, with the end
    if (!nvml_.has(calls_.uuid(handle, text.data(), 96), name + ", nvmlDeviceGetUUID")) return {};
    return {text.data()};
  }

  [[nodiscard]] bool is_in_mig_mode(void* handle, std::string const& name) const {
    if (calls_.mig_mode == nullptr || calls_.mig_count == nullptr || calls_.mig_device == nullptr) {
      return false;
    }
    unsigned now = 0, later = 0;
    return nvml_.has(calls_.mig_mode(handle, &now, &later), name + ", nvmlDeviceGetMigMode") &&
           now == 1;
  }

  /// Reads the MIG devices of a GPU. Their numbers may have gaps.
  void read_parts(void* handle, std::string const& name, driver_gpu& gpu) const {
    unsigned most = 0;
    nvml_.expect(calls_.mig_count(handle, &most), name + ", nvmlDeviceGetMaxMigDeviceCount");
    for (unsigned index = 0; index < most; ++index) {
      auto const part_name = name + ", MIG device " + std::to_string(index);
      void* part = nullptr;
      if (!nvml_.has(calls_.mig_device(handle, index, &part),
                     part_name + ", nvmlDeviceGetMigDeviceHandleByIndex")) {
        continue;
      }
      mig_device device{static_cast<int>(index), uuids_of(part, part_name)};
      add_instances(part, gpu, device);
      gpu.parts.push_back(std::move(device));
    }
  }

  /// Adds the other form of a MIG device's UUID, which CUDA accepts: "MIG-GPU-8932f937-…/1/0".
  void add_instances(void* part, driver_gpu const& gpu, mig_device& device) const {
    if (calls_.gpu_instance == nullptr || calls_.compute_instance == nullptr) return;
    unsigned gpu_instance = 0, compute_instance = 0;
    if (gpu.uuids.empty() || calls_.gpu_instance(part, &gpu_instance) != 0 ||
        calls_.compute_instance(part, &compute_instance) != 0) {
      return;
    }
    auto text = "MIG-" + gpu.uuids.front() + "/" + std::to_string(gpu_instance) + "/" +
                std::to_string(compute_instance);
    // Drivers before R470 state this form only.
    if (device.uuids.empty() || device.uuids.front() != text) {
      device.uuids.push_back(std::move(text));
    }
  }

  void read_nvlinks(void* handle, driver_gpu& gpu) const {
    constexpr unsigned most_links = 36;
    constexpr std::string_view classes[] = {"0x030200", "0x068001", "0x068000"};
    for (unsigned link = 0; link < most_links; ++link) {
      unsigned is_active = 0;
      if (calls_.nvlink_state(handle, link, &is_active) != 0) break;  // no more links
      if (is_active == 0) continue;
      nvml_pci_info far{};
      if (calls_.nvlink_remote(handle, link, &far) != 0) continue;
      unsigned type = 0;
      bool const is_reported = calls_.nvlink_remote_type != nullptr &&
                               calls_.nvlink_remote_type(handle, link, &type) == 0 && type < 3;
      auto const far_id = short_bus_id(far.bus_id);
      auto known = std::find_if(gpu.neighbours.begin(), gpu.neighbours.end(),
                                [&](auto const& each) { return each.bus_id == far_id; });
      if (known == gpu.neighbours.end()) {
        known = gpu.neighbours.insert(known, {far_id, is_reported ? classes[type] : "", 0});
      }
      ++known->links;
    }
  }

  nvml_calls const& calls_;
  nvml_library nvml_;
};

}}}  // namespace blink::BLINK_ABI::detail
