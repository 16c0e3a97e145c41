// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/readers/detail/rate_text.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The NVLinks of one GPU, as `nvidia-smi nvlink -s` prints them, and its MIG devices.
struct nvlink_gpu {
  std::string model;                             ///< "Tesla V100-SXM2-32GB"
  std::vector<std::string> uuids;                ///< several if the lists contradict each other
  std::map<int, std::string> parts;              ///< UUIDs of its MIG devices by number
  std::map<int, std::optional<rational>> links;  ///< GB/s by number; nothing: inactive
  bool has_none_active = false;                  ///< the program says so of all links
};

/// The output of `nvidia-smi nvlink -s`, by the number of the GPU. `nvidia-smi -L` gives models,
/// UUIDs and MIG devices only.
using nvlink_status = std::map<int, nvlink_gpu>;

/// The number behind a word, up to a colon: 3 for "Link 3: 25 GB/s". Nothing for another line.
[[nodiscard]] inline std::optional<int> number_behind(std::string_view word,
                                                      std::vector<std::string_view> const& words) {
  constexpr std::size_t most_digits = 4;
  if (words.size() < 2 || words[0] != word || !words[1].ends_with(':')) return std::nullopt;
  auto const digits = words[1].substr(0, words[1].size() - 1);
  if (!is_digits(digits) || digits.size() > most_digits) return std::nullopt;
  return static_cast<int>(read_decimal(digits, 0)->numerator());
}

/// The number of a MIG device: 3 for "MIG 1g.5gb Device 3: ...". Nothing for another line.
[[nodiscard]] inline std::optional<int> mig_number(std::vector<std::string_view> const& words) {
  if (words.size() < 4 || words[0] != "MIG") return std::nullopt;
  return number_behind("Device", {words.begin() + 2, words.end()});
}

/// The UUID of a line such as "GPU 0: NAME (UUID: GPU-8932f937-...)"; empty if there is none.
[[nodiscard]] inline std::string uuid_in(std::string_view line) {
  constexpr std::string_view mark = "(UUID: ";
  auto const begin = line.find(mark);
  if (begin == std::string_view::npos) return {};
  auto const text = line.substr(begin + mark.size());
  return std::string(text.substr(0, text.find_first_of(") \t")));
}

/// Finds the lines of `nvidia-smi nvlink -s` and `nvidia-smi -L` in a text that may hold others.
///
/// - "GPU 0: NAME (UUID: ...)" begins a GPU.
/// - "MIG 1g.5gb Device 0: (UUID: ...)" is a MIG device of the last GPU.
/// - "Link 3: 25.781 GB/s" and "Link 3: <inactive>" are its links. The printed rate is the
///   signalling rate, which is above that of data.
/// - A line with "all links are inactive" is about the last GPU.
[[nodiscard]] inline nvlink_status read_nvlink_lines(std::string_view text) {
  nvlink_status result;
  nvlink_gpu* last = nullptr;
  for (auto const& line : text_lines(text)) {
    auto const words = words_of(line);
    if (auto const gpu = number_behind("GPU", words); gpu && words.size() > 2) {
      auto name = std::string_view(line).substr(line.find(':') + 1);
      name = name.substr(0, name.find("(UUID"));
      auto const first = name.find_first_not_of(" \t");
      if (first == std::string_view::npos) continue;
      last = &result[*gpu];
      auto uuid = uuid_in(line);
      bool const is_known =
          std::find(last->uuids.begin(), last->uuids.end(), uuid) != last->uuids.end();
      if (!uuid.empty() && !is_known) last->uuids.push_back(std::move(uuid));
      last->model = name.substr(first, name.find_last_not_of(" \t") + 1 - first);
    } else if (auto const part = mig_number(words); part && last) {
      last->parts[*part] = uuid_in(line);
    } else if (auto const link = number_behind("Link", words); link && last && words.size() > 2) {
      auto const rate = read_rate(words[2]);
      if (rate || words[2] == "<inactive>") last->links[*link] = rate;
    } else if (last && line.find("all links are inactive") != std::string::npos) {
      last->has_none_active = true;
    }
  }
  return result;
}

/// "GPU3: NVLinks 3, 5 are inactive" of each GPU with such links.
[[nodiscard]] inline std::vector<std::string> inactive_nvlinks(nvlink_status const& status) {
  std::vector<std::string> result;
  for (auto const& [number, gpu] : status) {
    std::string list;
    for (auto const& [link, rate] : gpu.links) {
      if (!rate) list += (list.empty() ? "" : ", ") + std::to_string(link);
    }
    auto const name = "GPU" + std::to_string(number);
    if (gpu.has_none_active) {
      result.push_back(name + ": all NVLinks are inactive");
    } else if (!list.empty()) {
      result.push_back(name + ": inactive NVLinks " + list);
    }
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
