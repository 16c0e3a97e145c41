// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/topology/readers/detail/cluster_builder.hpp>
#include <blink/topology/readers/detail/json_text.hpp>
#include <blink/topology/readers/detail/yaml_text.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads the entries of one topology of Slurm's topology.yaml.
class slurm_yaml_reader {
 public:
  slurm_yaml_reader(std::string_view text, std::string const& file, cluster_builder& builder)
      : file_(file), builder_(builder), all_(yaml_reader(text, file, {}).read()) {}

  [[nodiscard]] static bool accepts(std::string_view text) {
    while (!text.empty()) {
      auto const end = std::min(text.find('\n'), text.size());
      auto line = without_blanks(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.empty() || line.starts_with('#') || line.starts_with("---")) continue;
      return line.starts_with("- ") && without_blanks(line.substr(2)).starts_with("topology:");
    }
    return false;
  }

  void read() {
    auto const& chosen = choose();
    for (std::size_t i = 0; i < chosen.keys.size(); ++i) {
      auto const& key = chosen.keys[i];
      if (key == "tree") read_entries(chosen.items[i], "switches", "switch");
      if (key == "block") read_entries(chosen.items[i], "blocks", "block");
      if (key != "tree" && key != "block" && key != "topology" && key != "cluster_default" &&
          key != "flat") {
        builder_.remark(chosen.items[i].line, "unknown key " + in_quotes(key));
      }
    }
  }

 private:
  [[nodiscard]] static std::string_view without_blanks(std::string_view text) {
    return text.substr(std::min(text.find_first_not_of(" \t\r"), text.size()));
  }

  [[nodiscard]] json_value const& choose() {
    json_value const* first = nullptr;
    json_value const* chosen = nullptr;
    std::size_t count = 0;
    for (auto const& each : all_.items) {
      expect(each, json_kind::object, "a topology with tree or block");
      if (each.find("tree") == nullptr && each.find("block") == nullptr) continue;
      ++count;
      if (first == nullptr) first = &each;
      auto const* is_default = each.find("cluster_default");
      if (chosen == nullptr && is_default != nullptr && is_same_word(is_default->text, "true")) {
        chosen = &each;
      }
    }
    if (first == nullptr) fail_at(file_, 1, "no topology has switches, expected tree or block");
    if (chosen == nullptr) chosen = first;
    if (count > 1) {
      auto const* name = chosen->find("topology");
      builder_.remark(chosen->line, "topology " + in_quotes(name == nullptr ? "" : name->text) +
                                        " counts, of " + std::to_string(count));
    }
    return *chosen;
  }

  void expect(json_value const& value, json_kind kind, std::string const& expected) const {
    if (value.kind == kind) return;
    fail_at(file_, value.line,
            "found " + (value.text.empty() ? std::string("a list") : in_quotes(value.text)) +
                ", expected " + expected);
  }

  /// A host list, which may be a list of host lists.
  [[nodiscard]] std::string host_list(json_value const& value) const {
    if (value.kind == json_kind::null) return {};
    if (value.kind == json_kind::array) {
      std::string result;
      for (auto const& item : value.items) {
        expect(item, json_kind::string, "names");
        result += item.text + ",";
      }
      return result;
    }
    expect(value, json_kind::string, "names");
    return value.text;
  }

  void read_entries(json_value const& topology, std::string_view list, std::string_view name) {
    expect(topology, json_kind::object, std::string(list));
    for (std::size_t i = 0; i < topology.keys.size(); ++i) {
      if (topology.keys[i] == "block_sizes") continue;
      if (topology.keys[i] != list) {
        builder_.remark(topology.items[i].line, "unknown key " + in_quotes(topology.keys[i]));
        continue;
      }
      expect(topology.items[i], json_kind::array, "a list of " + std::string(list));
      for (auto const& item : topology.items[i].items) read_entry(item, name);
    }
  }

  void read_entry(json_value const& item, std::string_view name) {
    expect(item, json_kind::object, "an entry with " + std::string(name));
    cluster_entry entry;
    entry.line = item.line;
    entry.is_block = name == "block";
    for (std::size_t i = 0; i < item.keys.size(); ++i) {
      auto const& key = item.keys[i];
      auto const& value = item.items[i];
      if (key == name) {
        expect(value, json_kind::string, "a name");
        entry.name = value.text;
      } else if (key == "nodes") {
        entry.nodes = host_list(value);
      } else if (key == "children" && !entry.is_block) {
        entry.children = host_list(value);
      } else {
        builder_.remark(value.line, "unknown key " + in_quotes(key));
      }
    }
    builder_.add(std::move(entry));
  }

  std::string const& file_;
  cluster_builder& builder_;
  json_value all_;
};

}}}  // namespace blink::BLINK_ABI::detail
