// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/detail/device_names.hpp>
#include <blink/topology/detail/node_labels.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The meaning of plain numbers in a list of devices.
enum class device_numbers : std::uint8_t {
  ids,     ///< of nodes, as in `subset`
  labels,  ///< of the driver: 3 is the rank with the label "gpu3"
};

/// The ids of the ranks that a list of devices names, in the order of the list.
///
/// Entries stand between commas, and blanks around them do not count:
/// - 3 or 4-6: numbers; `numbers` says of what. Of ids only `subset` checks that they exist.
/// - 0:1 and 0.1: the rank with the label "gpu0:1" (a MIG device) or "gpu0/1" (a tile).
/// - GPU-8932f937, MIG-…, 12ff74a1-…: a UUID or its beginning, in letters of any case. No other
///   UUID of the machine may begin so. Without GPU- or MIG- it has 8 characters or more.
/// - MIG-GPU-8932f937/1/0: a MIG device by the UUID of its GPU and its two instances.
/// - 0000:06:00.0, 00000000:06:00.0 or 06:00.0: a bus id.
///
/// name:   what errors start with, such as "--ranks"
/// Source: CUDA C++ Programming Guide, CUDA_VISIBLE_DEVICES; ROCm's documentation of
///         ROCR_VISIBLE_DEVICES. Both end a list at its first invalid entry; this is an error here.
/// Time:   O(nodes) for each entry.
/// Throws: input_error for an entry that is none of these, and for one that names no rank, several,
///         or a GPU that is split. It lists what the machine has.
[[nodiscard]] std::vector<int> select_devices(topology const& machine, std::string_view list,
                                              std::string const& name, device_numbers numbers);

namespace detail {

/// Reads ids such as "4" or "4-6": the first and the last. Nothing for other texts, and for ids
/// above 100000, which are typing errors.
[[nodiscard]] inline std::optional<std::pair<int, int>> read_id_range(std::string_view text) {
  constexpr int most = 100'000;
  auto const number = [](std::string_view digits) -> std::optional<int> {
    int value = 0;
    auto const* const end = digits.data() + digits.size();
    auto const [rest, failure] = std::from_chars(digits.data(), end, value);
    bool const is_id = failure == std::errc{} && rest == end && 0 <= value && value <= most;
    return is_id ? std::optional(value) : std::nullopt;
  };
  auto const dash = text.find('-');
  auto const first = number(text.substr(0, dash));
  auto const last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return std::pair(*first, *last);
}

/// Finds the ranks that the entries of a list name.
class device_finder {
 public:
  device_finder(topology const& machine, std::string const& name, device_numbers numbers)
      : machine_(machine), name_(name), numbers_(numbers) {}

  [[nodiscard]] std::vector<int> ids_of(std::string_view list) const {
    std::vector<int> result;
    for (std::size_t at = 0;; ++at) {
      auto const end = std::min(list.find(',', at), list.size());
      add(without_blanks(list.substr(at, end - at)), result);
      if (end == list.size()) return result;
      at = end;
    }
  }

 private:
  [[nodiscard]] node const& at(int position) const {
    return machine_.nodes[static_cast<std::size_t>(position)];
  }

  [[nodiscard]] static std::string_view without_blanks(std::string_view text) {
    auto const first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
  }

  void add(std::string_view entry, std::vector<int>& result) const {
    if (auto const range = read_id_range(entry)) {
      for (int number = range->first; number <= range->second; ++number) {
        auto const digits = std::to_string(number);
        result.push_back(numbers_ == device_numbers::ids ? number
                                                         : rank_labelled(entry, "gpu" + digits));
      }
    } else if (auto const label = label_of_part(entry)) {
      result.push_back(rank_labelled(entry, *label));
    } else if (auto const place = read_pci_address(entry)) {
      result.push_back(rank_at(entry, *place));
    } else if (is_uuid(entry)) {
      result.push_back(rank_of_uuid(entry));
    } else {
      throw input_error(found(entry) +
                        ", expected ids such as 0,1,4-6, UUIDs such as GPU-8932f937 or bus ids "
                        "such as 06:00.0");
    }
  }

  /// "gpu0:1" for "0:1", and "gpu0/1" for "0.1".
  [[nodiscard]] static std::optional<std::string> label_of_part(std::string_view entry) {
    auto const mark = entry.find_first_of(":.");
    constexpr std::string_view digits = "0123456789";
    if (mark == std::string_view::npos || mark == 0 || mark + 1 == entry.size() ||
        entry.find_first_not_of(digits) != mark ||
        entry.find_first_not_of(digits, mark + 1) != std::string_view::npos) {
      return std::nullopt;
    }
    std::string result = "gpu" + std::string(entry);
    if (entry[mark] == '.') result[mark + 3] = '/';
    return result;
  }

  [[nodiscard]] static bool is_uuid(std::string_view entry) {
    constexpr std::size_t least = 8;
    auto const text = in_small_letters(entry);
    if (text.starts_with("gpu-") || text.starts_with("mig-")) return text.size() > 4;
    return text.size() >= least && text.find_first_not_of("0123456789abcdef-") == std::string::npos;
  }

  [[nodiscard]] int rank_labelled(std::string_view entry, std::string const& label) const {
    std::vector<std::string> labels, parts;
    for (int const rank : machine_.rank_positions()) {
      auto const& n = at(rank);
      if (n.label == label) return n.id;
      bool const is_part = n.label.starts_with(label + ":") || n.label.starts_with(label + "/");
      (is_part ? parts : labels).push_back(printable(n.label));
    }
    fail(entry, label + " is " + (parts.empty() ? "not" : "split") + " in machine " + quoted_name(),
         parts.empty() ? labels : parts);
  }

  [[nodiscard]] int rank_at(std::string_view entry, pci_address const& place) const {
    std::vector<int> found;
    std::vector<std::string> all;
    for (int const rank : machine_.rank_positions()) {
      auto const its = read_pci_address(at(rank).bus_id);
      if (!its) continue;
      if (place.agrees_with(*its)) found.push_back(rank);
      all.push_back(printable(at(rank).bus_id));
    }
    if (found.size() == 1) return at(found[0]).id;
    if (found.empty()) fail(entry, "no rank of machine " + quoted_name() + " has this bus id", all);
    fail_several(entry, found);
  }

  [[nodiscard]] int rank_of_uuid(std::string_view entry) const {
    auto const wanted = in_small_letters(entry);
    std::vector<int> same, begin_so;
    std::vector<std::string> all;
    for (int v = 0; v < static_cast<int>(machine_.nodes.size()); ++v) {
      bool is_same = false, begins_so = false;
      for (auto const& uuid : at(v).uuids) {
        auto const text = in_small_letters(uuid);
        is_same = is_same || text == wanted;
        begins_so = begins_so || begins_with(text, wanted);
      }
      if (is_same) same.push_back(v);
      if (begins_so) begin_so.push_back(v);
      if (at(v).kind == node_kind::rank && !at(v).uuids.empty()) all.push_back(shown(v));
    }
    auto const& found = same.empty() ? begin_so : same;
    if (found.empty()) fail(entry, "no rank of machine " + quoted_name() + " has this UUID", all);
    if (found.size() > 1) fail_several(entry, found);
    if (at(found[0]).kind == node_kind::rank) return at(found[0]).id;
    fail(entry, "a GPU that is split", parts_of(found[0]));
  }

  /// True for a beginning. One with instances ("mig-gpu-8932/1/0") is a beginning before them.
  [[nodiscard]] static bool begins_with(std::string_view uuid, std::string_view wanted) {
    auto const mark = wanted.find('/');
    if (mark == std::string_view::npos) return uuid.starts_with(wanted);
    auto const instances = std::min(uuid.find('/'), uuid.size());
    return uuid.starts_with(wanted.substr(0, mark)) &&
           uuid.substr(instances) == wanted.substr(mark);
  }

  /// The ranks that are linked to a switch.
  [[nodiscard]] std::vector<std::string> parts_of(int v) const {
    std::vector<bool> is_part(machine_.nodes.size());
    for (auto const& l : machine_.links) {
      if (l.tail == v) is_part[static_cast<std::size_t>(l.head)] = true;
      if (l.head == v) is_part[static_cast<std::size_t>(l.tail)] = true;
    }
    std::vector<std::string> result;
    for (int const rank : machine_.rank_positions()) {
      if (is_part[static_cast<std::size_t>(rank)]) result.push_back(shown(rank));
    }
    return result;
  }

  /// "3 (GPU-8932…)" for the rank with id 3.
  [[nodiscard]] std::string shown(int v) const {
    auto const& n = at(v);
    auto const& text = n.uuids.empty() ? n.label : n.uuids.front();
    return (n.kind == node_kind::rank ? std::to_string(n.id) : printable(n.label)) + " (" +
           printable(text.substr(0, 2 * longest)) + ")";
  }

  [[nodiscard]] std::string quoted_name() const { return in_quotes(machine_.name); }

  /// The beginning of errors. Drivers take the entries before an invalid one.
  [[nodiscard]] std::string found(std::string_view entry) const {
    return name_ + ": found " + in_quotes(entry, longest) +
           (numbers_ == device_numbers::labels ? ", where programs end the list" : "");
  }

  [[noreturn]] void fail_several(std::string_view entry, std::vector<int> const& found) const {
    std::vector<std::string> names;
    for (int const v : found) names.push_back(shown(v));
    fail(entry, std::to_string(found.size()) + " devices of machine " + quoted_name() + " fit",
         names);
  }

  [[noreturn]] void fail(std::string_view entry, std::string const& fact,
                         std::vector<std::string> const& known) const {
    constexpr std::size_t most = 16;
    throw input_error(found(entry) + ": " + fact + ", expected " +
                      (known.empty() ? "numbers, because the machine states none"
                                     : "one of " + few_of(known, most)));
  }

  static constexpr std::size_t longest = 60;  // of texts in errors

  topology const& machine_;
  std::string const& name_;
  device_numbers numbers_;
};

}  // namespace detail

inline std::vector<int> select_devices(topology const& machine, std::string_view list,
                                       std::string const& name, device_numbers numbers) {
  return detail::device_finder(machine, name, numbers).ids_of(list);
}

/// The ids of the ranks that the job's environment makes visible, by CUDA_VISIBLE_DEVICES,
/// ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or ZE_AFFINITY_MASK.
///
/// value_of: the value of a variable by its name, or null: `std::getenv`
/// Throws:   input_error as `select_devices`. Also if no variable is set, or if two differ: each of
///           them may hide devices from the other.
template <class Environment>
[[nodiscard]] std::vector<int> visible_devices(topology const& machine,
                                               Environment const& value_of) {
  std::string name, list;
  for (char const* const each : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                 "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}) {
    char const* const value = value_of(each);
    if (value == nullptr) continue;
    if (!name.empty() && list != value) {
      throw input_error(name + "=" + detail::in_quotes(list) + " and " + each + "=" +
                        detail::in_quotes(value) + " differ, expected one of them");
    }
    if (name.empty()) {
      name = each;
      list = value;
    }
  }
  if (name.empty()) {
    throw input_error(
        "CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ZE_AFFINITY_MASK are "
        "not set, expected one of them");
  }
  return select_devices(machine, list, name, device_numbers::labels);
}

}}  // namespace blink::BLINK_ABI
