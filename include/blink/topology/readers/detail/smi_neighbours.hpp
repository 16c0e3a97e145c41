// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/nccl_rates.hpp>
#include <blink/topology/readers/detail/gpu_models.hpp>
#include <blink/topology/readers/detail/mig_devices.hpp>
#include <blink/topology/readers/detail/nvlink_status.hpp>
#include <blink/topology/readers/detail/peer_access.hpp>
#include <blink/topology/readers/detail/table_machine_builder.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The output of other commands of nvidia-smi in the same text as the table of topo -m.
class smi_neighbours {
 public:
  explicit smi_neighbours(std::string_view text)
      : nvlinks_(read_nvlink_lines(text)),
        without_access_(peer_access_reader(text).pairs_without()) {}

  /// The rate of one link by the models of the GPUs, the slowest one. Nothing if no model is known.
  [[nodiscard]] std::optional<reasoned_rate> rate_of(link_kind kind) const {
    std::optional<reasoned_rate> result;
    for (auto const& [number, gpu] : nvlinks_) {
      auto const model = gpu_model_of(gpu.model);
      if (!model) continue;
      std::optional<rational> rate;
      std::string what = "one link of " + std::string(model->name);
      if (kind == link_kind::nvlink) rate = nvlink_line_rate(model->sm);
      if (kind == link_kind::pcie && !model->pcie.empty()) {
        constexpr std::int64_t lanes = 16;
        rate = pcie_rate(lanes, model->pcie);
        what = "x16 of " + std::string(model->name);
      }
      if (rate && (!result || *rate < result->rate)) result = {*rate, what};
    }
    return result;
  }

  /// The numbers of the GPUs that these commands list.
  [[nodiscard]] std::set<int> gpus() const {
    std::set<int> result;
    for (auto const& [number, gpu] : nvlinks_) result.insert(number);
    return result;
  }

  /// The UUIDs of a GPU, as `node::uuids`.
  [[nodiscard]] std::vector<std::string> uuids_of(int gpu) const {
    auto const found = nvlinks_.find(gpu);
    return found == nvlinks_.end() ? std::vector<std::string>() : found->second.uuids;
  }

  /// The MIG devices of a GPU.
  [[nodiscard]] std::vector<mig_device> parts_of(int gpu) const {
    std::vector<mig_device> result;
    auto const found = nvlinks_.find(gpu);
    if (found == nvlinks_.end()) return result;
    for (auto const& [number, uuid] : found->second.parts) {
      mig_device part{number};
      if (!uuid.empty()) part.uuids.push_back(uuid);
      result.push_back(std::move(part));
    }
    return result;
  }

  [[nodiscard]] std::vector<std::string> remarks() const {
    auto result = inactive_nvlinks(nvlinks_);
    for (auto const& [number, gpu] : nvlinks_) {
      if (gpu.uuids.size() < 2) continue;
      result.push_back("GPU" + std::to_string(number) + " has several UUIDs (" + gpu.uuids[0] +
                       " and " + gpu.uuids[1] + "): the lists may be of different hosts");
    }
    constexpr std::size_t most = 6;
    std::size_t count = 0;
    std::string pairs;
    for (auto const& [a, b] : without_access_) {
      if (a == b || ++count > most) continue;
      pairs += (pairs.empty() ? "" : ", ");
      pairs += "GPU" + std::to_string(a) + " and GPU" + std::to_string(b);
    }
    if (count == 0) return result;
    if (count > most) pairs += " and " + std::to_string(count - most) + " more pairs";
    result.push_back("no peer access between " + pairs +
                     " (topo -p2p): they exchange data through the host's memory");
    return result;
  }

 private:
  nvlink_status nvlinks_;
  std::set<std::pair<int, int>> without_access_;
};

}}}  // namespace blink::BLINK_ABI::detail
