// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/topology/readers/detail/cluster_builder.hpp>
#include <blink/topology/readers/detail/json_keys.hpp>
#include <blink/topology/readers/detail/json_text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads the instances of topograph's engine "graph".
class topograph_reader {
 public:
  topograph_reader(std::string_view text, std::string const& file, cluster_builder& builder)
      : file_(file), builder_(builder), all_(json_builder(text, file, {}).parse()) {}

  [[nodiscard]] static bool accepts(std::string_view text) {
    auto const first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    return has_json_keys(text.substr(first), {"instances"}) &&
           text.find("\"network_layers\"") != std::string_view::npos;
  }

  void read() {
    auto const& list = member(all_, "instances", json_kind::array, "a list of instances");
    for (auto const& each : list.items) {
      if (each.kind != json_kind::object) {
        fail_at(file_, each.line,
                "found no instance, expected {\"id\": ..., \"network_layers\": ...}");
      }
      auto const& id = member(each, "id", json_kind::string, "the name of a node");
      auto const& layers = member(each, "network_layers", json_kind::array, "switches");
      std::size_t below = none;
      for (auto const& layer : layers.items) {
        if (layer.kind != json_kind::string) {
          fail_at(file_, layer.line, "a network layer is no text, expected the name of a switch");
        }
        below = add_layer(layer, below);
      }
      if (layers.items.empty()) {
        fail_at(file_, each.line,
                "instance " + in_quotes(id.text) + " has no network layers, expected a switch");
      }
      expect_one_name(id);
      entries_[position_.at(layers.items.front().text)].nodes += id.text + ",";
    }
    for (auto& entry : entries_) builder_.add(std::move(entry));
  }

 private:
  static constexpr std::size_t none = SIZE_MAX;

  [[nodiscard]] json_value const& member(json_value const& object, std::string_view key,
                                         json_kind kind, std::string const& expected) const {
    auto const* value = object.find(key);
    if (value != nullptr && value->kind == kind) return *value;
    fail_at(file_, value == nullptr ? object.line : value->line,
            in_quotes(key) + (value == nullptr ? " is missing" : " has another value") +
                ", expected " + expected);
  }

  void expect_one_name(json_value const& name) const {
    if (name.text.find_first_of(",[ ") == std::string::npos) return;
    fail_at(file_, name.line, "found " + in_quotes(name.text) + ", expected one name");
  }

  /// Adds the switch above `below`, and returns its position.
  std::size_t add_layer(json_value const& layer, std::size_t below) {
    expect_one_name(layer);
    auto const [known, is_new] = position_.try_emplace(layer.text, entries_.size());
    if (is_new) {
      entries_.push_back({layer.text, layer.line});
      above_.push_back(none);
    }
    auto const here = known->second;
    if (below != none && above_[below] != here) {
      if (above_[below] != none) {
        fail_at(file_, layer.line,
                in_quotes(entries_[below].name) + " is below " + in_quotes(layer.text) + " and " +
                    in_quotes(entries_[above_[below]].name) + ", expected one switch above it");
      }
      above_[below] = here;
      entries_[here].children += entries_[below].name + ",";
    }
    return here;
  }

  std::string const& file_;
  cluster_builder& builder_;
  json_value all_;
  std::unordered_map<std::string, std::size_t> position_;  // of an entry
  std::vector<cluster_entry> entries_;
  std::vector<std::size_t> above_;  // by entry
};

}}}  // namespace blink::BLINK_ABI::detail
