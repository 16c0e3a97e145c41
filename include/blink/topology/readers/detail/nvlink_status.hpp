// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/readers/detail/rate_text.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The NVLinks of one GPU, as `nvidia-smi nvlink -s` prints them.
struct nvlink_gpu {
  std::string model;                             ///< "Tesla V100-SXM2-32GB"
  std::map<int, std::optional<rational>> links;  ///< GB/s by number; nothing: inactive
  bool has_none_active = false;                  ///< the program says so of all links
};

/// The output of `nvidia-smi nvlink -s`, by the number of the GPU. `nvidia-smi -L` gives the models
/// only.
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

/// Finds the lines of `nvidia-smi nvlink -s` in a text that may hold others.
///
/// - "GPU 0: NAME (UUID: ...)" begins a GPU.
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
      last->model = name.substr(first, name.find_last_not_of(" \t") + 1 - first);
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
