// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/readers/detail/json_checks.hpp>
#include <blink/topology/readers/detail/json_text.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Reads a machine from JSON text.
///
///     {"name": "pair", "unit": "GB/s",
///      "nodes": [{"id": 0, "kind": "gpu", "label": "gpu0", "server": 0},
///                {"id": 1, "kind": "gpu"}, {"id": 2, "kind": "switch"}],
///      "links": [{"src": 0, "dst": 1, "capacity": 12.5, "latency": 1e-6, "kind": "nvlink"}]}
///
/// - A link is one direction. Its `latency` (seconds) and `kind` (`to_text(link_kind)`) are
///   optional.
/// - `label` and `server` of a node are optional. Without `server` a GPU is in server 0, and a
///   switch is in none.
/// - `uuids` (a list) and `bus_id` of a node name its device. They change no plan.
/// - A switch may have `"copies": true` (it forwards what it receives to several nodes) and
///   `"reduces": true` (it adds up what it receives).
/// - A capacity is a number of at most 9 decimals, or a fraction as text ("25/3"). Capacities
///   become integers. A unit has the fewest steps that make all of them exact, or `steps_per_unit`.
/// - A link may repeat the machine's unit. If the machine names no unit, the first link must.
/// - The counts `gpus` and `switches` are checked. `directed_links` is not: a link may be deleted
///   by hand. `source`, `group` and `note` are for people.
/// - Any other key is refused, because it may change the meaning of the file.
///
/// file:   the name that errors start with
/// Post:   `validate` accepts the machine.
/// Throws: input_error `FILE:LINE: PLACE: found ..., expected ...`.
[[nodiscard]] topology read_json(std::string_view text, std::string const& file = "text",
                                 input_limits const& limits = {});

/// Reads the file at `path`.
///
/// Throws: input_error as `read_json`, or if the file cannot be read.
[[nodiscard]] inline topology read_json_file(std::string const& path,
                                             input_limits const& limits = {}) {
  return read_json(detail::file_text(path, "a machine description", limits.bytes), path, limits);
}

namespace detail {

class machine_from_json : json_checks {
 public:
  using json_checks::json_checks;

  topology read(json_value const& top) {
    require_kind(top, json_kind::object, "the file", "an object with nodes and links");
    known_keys(top, "",
               {"name", "source", "group", "note", "unit", "steps_per_unit", "gpus", "switches",
                "directed_links", "nodes", "links"});
    for (auto const* text : {"name", "source", "group", "note"}) {
      if (auto const* value = top.find(text)) {
        require_kind(*value, json_kind::string, text, "text");
      }
    }
    if (auto const* value = top.find("name")) machine_.name = value->text;
    read_unit(top);
    read_nodes(required(top, "", "nodes"));
    read_links(required(top, "", "links"));
    quantise(top.find("steps_per_unit"));
    auto const ranks = machine_.rank_positions().size();
    check_count(top, "gpus", ranks);
    check_count(top, "switches", machine_.nodes.size() - ranks);
    count(top, "directed_links");
    if (ranks == 0) fail(required(top, "", "nodes"), "nodes", "no GPU", "at least one");
    try {
      validate(machine_);
    } catch (input_error const& fault) {
      fail_at(file(), top.line, fault.what());
    }
    return std::move(machine_);
  }

 private:
  void known_keys(json_value const& object, std::string const& path,
                  std::initializer_list<std::string_view> keys) const {
    for (std::size_t i = 0; i < object.keys.size(); ++i) {
      auto const& key = object.keys[i];
      auto const& value = object.items[i];
      std::string list;
      bool known = false;
      for (auto const each : keys) {
        known = known || each == key;
        list += (list.empty() ? "" : ", ") + std::string(each);
      }
      if (!known) {
        fail_at(file(), value.line,
                (path.empty() ? "" : path + ": ") + "unknown key " + in_quotes(key) +
                    ", expected one of " + list);
      }
    }
  }
  std::optional<std::int64_t> count(json_value const& top, std::string const& key) const {
    auto const* value = top.find(key);
    if (value == nullptr) return std::nullopt;
    return integer(*value, key, 0, std::numeric_limits<std::int64_t>::max());
  }
  void check_count(json_value const& top, std::string const& key, std::size_t real) const {
    auto const claimed = count(top, key);
    if (claimed && static_cast<std::size_t>(*claimed) != real) {
      fail(*top.find(key), key, std::to_string(*claimed),
           std::to_string(real) + ", the number in the file");
    }
  }
  std::string text_of(json_value const& value, std::string const& path,
                      std::string const& expected) const {
    require_kind(value, json_kind::string, path, expected);
    if (value.text.empty()) fail(value, path, "''", expected);
    return value.text;
  }
  void read_unit(json_value const& top) {
    if (auto const* value = top.find("unit")) {
      machine_.unit = text_of(*value, "unit", "the name of a unit");
      return;
    }
    machine_.unit.clear();  // the first link has it
  }

  void read_nodes(json_value const& list) {
    require_kind(list, json_kind::array, "nodes", "a list");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      auto const& item = list.items[i];
      auto const path = "nodes[" + std::to_string(i) + "]";
      require_kind(item, json_kind::object, path, "an object");
      known_keys(item, path,
                 {"id", "kind", "label", "server", "box", "copies", "reduces", "uuids", "bus_id"});
      struct node n;
      auto const& id = required(item, path, "id");
      n.id =
          static_cast<int>(integer(id, path + ".id", 0, std::numeric_limits<std::int32_t>::max()));
      auto const& kind = required(item, path, "kind");
      if (kind.kind != json_kind::string || (kind.text != "gpu" && kind.text != "switch")) {
        fail(kind, path + ".kind", excerpt(kind), "\"gpu\" or \"switch\"");
      }
      n.kind = kind.text == "gpu" ? node_kind::rank : node_kind::switch_node;
      n.label = kind.text + std::to_string(n.id);
      if (auto const* label = item.find("label")) {
        require_kind(*label, json_kind::string, path + ".label", "text");
        n.label = label->text;
      }
      n.server = n.kind == node_kind::rank ? 0 : -1;
      auto const* server = item.find("server");
      if (server == nullptr) server = item.find("box");  // in files of earlier versions
      if (server != nullptr) {
        n.server = static_cast<int>(
            integer(*server, path + ".server", -1, std::numeric_limits<std::int32_t>::max()));
      }
      for (auto const& [key, able] : {std::pair("copies", &n.copies), {"reduces", &n.reduces}}) {
        auto const* value = item.find(key);
        if (value == nullptr) continue;
        require_kind(*value, json_kind::boolean, path + "." + key, "true or false");
        *able = value->text == "true";
        if (*able && n.kind == node_kind::rank) {
          fail(*value, path + "." + key, "true for a GPU", "a switch");
        }
      }
      read_device_names(item, path, n);
      if (!position_.emplace(n.id, static_cast<int>(i)).second) {
        fail(id, path + ".id", std::to_string(n.id) + " a second time",
             "an id that no other node has");
      }
      machine_.nodes.push_back(std::move(n));
    }
  }

  void read_device_names(json_value const& item, std::string const& path, struct node& n) const {
    if (auto const* list = item.find("uuids")) {
      require_kind(*list, json_kind::array, path + ".uuids", "a list");
      for (std::size_t i = 0; i < list->items.size(); ++i) {
        n.uuids.push_back(
            text_of(list->items[i], path + ".uuids[" + std::to_string(i) + "]", "a UUID"));
      }
    }
    if (auto const* id = item.find("bus_id")) {
      n.bus_id = text_of(*id, path + ".bus_id", "a bus id such as 0000:06:00.0");
    }
  }

  int end_of(json_value const& item, std::string const& path, std::string const& key) const {
    auto const& value = required(item, path, key);
    auto const id = integer(value, path + "." + key, 0, std::numeric_limits<std::int32_t>::max());
    auto const at = position_.find(static_cast<int>(id));
    if (at == position_.end()) fail(value, path + "." + key, value.text, "the id of a node");
    return at->second;
  }
  rational capacity_of(json_value const& value, std::string const& path) const {
    auto const number = value.kind == json_kind::number   ? read_decimal(value.text, max_decimals)
                        : value.kind == json_kind::string ? rational::from_text(value.text)
                                                          : std::nullopt;
    if (!number || *number <= rational(0)) {
      fail(value, path, excerpt(value),
           "a positive number of at most " + std::to_string(max_decimals) + " decimals");
    }
    return *number;
  }
  void read_links(json_value const& list) {
    require_kind(list, json_kind::array, "links", "a list");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      auto const& item = list.items[i];
      auto const path = "links[" + std::to_string(i) + "]";
      require_kind(item, json_kind::object, path, "an object");
      known_keys(item, path, {"src", "dst", "capacity", "unit", "latency", "kind"});
      struct link l;
      l.tail = end_of(item, path, "src");
      l.head = end_of(item, path, "dst");
      if (l.tail == l.head) {
        fail(required(item, path, "dst"), path + ".dst", "the node at the other end",
             "another node");
      }
      auto const& capacity = required(item, path, "capacity");
      capacities_.emplace_back(capacity_of(capacity, path + ".capacity"), capacity.line);
      if (auto const* unit = item.find("unit")) {
        auto const name = text_of(*unit, path + ".unit", "the name of a unit");
        if (machine_.unit.empty() && i == 0) machine_.unit = name;
        if (name != machine_.unit) {
          fail(*unit, path + ".unit", in_quotes(name),
               in_quotes(machine_.unit) + ", the machine's");
        }
      } else if (machine_.unit.empty()) {
        fail_at(file(), item.line, path + ": 'unit' is missing here and in the machine");
      }
      if (auto const* latency = item.find("latency")) {
        l.latency_seconds =
            latency->kind == json_kind::number ? std::strtod(latency->text.c_str(), nullptr) : -1;
        if (!(l.latency_seconds >= 0 && l.latency_seconds <= max_latency_seconds)) {
          fail(*latency, path + ".latency", excerpt(*latency), "seconds, 0 to 3600");
        }
      }
      if (auto const* kind = item.find("kind")) {
        require_kind(*kind, json_kind::string, path + ".kind", "the name of a link kind");
        try {
          l.kind = read_link_kind(kind->text);
        } catch (input_error const& fault) {
          fail_at(file(), kind->line, path + ".kind: " + fault.what());
        }
      }
      machine_.links.push_back(l);
    }
    if (machine_.unit.empty()) fail_at(file(), list.line, "the machine: 'unit' is missing");
  }

  /// Makes capacities integers: with the fewest steps of a unit, or with the given number.
  void quantise(json_value const* asked) {
    std::int64_t steps = 1;
    for (auto const& [capacity, line] : capacities_) {
      auto const common = common_steps(steps, capacity.denominator(), max_steps);
      if (!common) {
        fail_at(file(), line,
                "capacity " + capacity.to_text() +
                    ": the capacities need a common denominator above " +
                    std::to_string(max_steps) + ", expected coarser numbers");
      }
      steps = *common;
    }
    if (asked != nullptr) {
      auto const claimed = integer(*asked, "steps_per_unit", 1, max_steps);
      if (claimed % steps != 0) {
        fail(*asked, "steps_per_unit", asked->text, "a multiple of " + std::to_string(steps));
      }
      steps = claimed;
    }
    machine_.steps_per_unit = steps;
    for (std::size_t i = 0; i < capacities_.size(); ++i) {
      auto const& [capacity, line] = capacities_[i];
      try {
        machine_.links[i].capacity = (capacity * steps).numerator();
      } catch (overflow_error const&) {
        fail_at(file(), line,
                "links[" + std::to_string(i) + "].capacity: " + capacity.to_text() +
                    " is too large, expected at most 62 bits");
      }
    }
  }

  static constexpr double max_latency_seconds = 3600;
  static constexpr int max_decimals = 9;
  static constexpr std::int64_t max_steps = 1'000'000'000;

  topology machine_;
  std::unordered_map<int, int> position_;             // of a node id
  std::vector<std::pair<rational, int>> capacities_;  // of each link, with its line
};

}  // namespace detail

inline topology read_json(std::string_view text, std::string const& file,
                          input_limits const& limits) {
  auto const top = detail::json_builder(text, file, limits).parse();
  return detail::machine_from_json(file).read(top);
}

}}  // namespace blink::BLINK_ABI
