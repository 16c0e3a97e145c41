// SPDX-License-Identifier: Apache-2.0
#include "gpu_probe.hpp"

#include <blink/core/detail/json_fields.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/best_ring.hpp>
#include <blink/topology/fit_machine.hpp>

#include "probe_report.hpp"
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

extern char** environ;

namespace blink::tools {
namespace gpu_probe_parts {

/// Reads rates, and checks that they are those of `gpus` GPUs.
class rates_reader {
 public:
  rates_reader(detail::json_fields const& fields, std::size_t gpus)
      : fields_(fields), gpus_(gpus) {}

  [[nodiscard]] measured_rates read(nlohmann::json const& value, std::string const& where) const {
    measured_rates result;
    for (std::size_t k = 0; k < gpus_; ++k) result.host_of.push_back(static_cast<int>(k));
    result.together.assign(gpus_, 0);
    result.alone = table(value, where, "alone", gpus_);
    result.start_up = table(value, where, "start_up", gpus_);
    result.between = table(value, where, "between", gpus_);
    result.loaded = table(value, where, "loaded", gpus_);
    result.out = list(fields_.field(value, where, "out"), where + ".out", gpus_);
    result.in = list(fields_.field(value, where, "in"), where + ".in", gpus_);
    auto const& levels = fields_.array(fields_.field(value, where, "levels"), where + ".levels");
    for (auto const& each : levels) {
      auto const place = where + ".levels" + fields_.at(result.levels.size());
      cluster_level level;
      level.cluster_of = fields_.integers(fields_.field(each, place, "cluster_of"), place);
      for (int const c : level.cluster_of) {
        if (c < 0 || c >= static_cast<int>(gpus_)) {
          fields_.fail(place + ".cluster_of",
                       "found " + std::to_string(c) + ", expected the number of a cluster");
        }
      }
      level.out = list(fields_.field(each, place, "out"), place + ".out", level.clusters());
      level.in = list(fields_.field(each, place, "in"), place + ".in", level.clusters());
      level.between = table(each, place, "between", level.clusters());
      result.levels.push_back(std::move(level));
    }
    return result;
  }

 private:
  [[nodiscard]] std::vector<double> list(nlohmann::json const& value, std::string const& where,
                                         std::size_t size) const {
    std::vector<double> result;
    for (auto const& each : fields_.array(value, where)) {
      auto const place = where + fields_.at(result.size());
      result.push_back(fields_.number(each, place));
      if (result.back() < 0 || result.back() > 1e15) {
        fields_.fail(place, "found " + each.dump() + ", expected a number from 0 to 1e15");
      }
    }
    if (result.size() != size) {
      fields_.fail(where,
                   std::to_string(result.size()) + " entries, expected " + std::to_string(size));
    }
    return result;
  }
  [[nodiscard]] host_table table(nlohmann::json const& value, std::string const& where,
                                 char const* key, std::size_t size) const {
    auto const place = where + "." + key;
    host_table result;
    for (auto const& row : fields_.array(fields_.field(value, where, key), place)) {
      result.push_back(list(row, place + fields_.at(result.size()), size));
    }
    if (result.size() != size) {
      fields_.fail(place,
                   std::to_string(result.size()) + " rows, expected " + std::to_string(size));
    }
    return result;
  }

  detail::json_fields const& fields_;
  std::size_t gpus_;
};

/// True for bus ids such as 0000:0A:00.0 and 00000000:0a:00.0.
[[nodiscard]] inline bool is_same_device(std::string const& a, std::string const& b) {
  auto const plain = [](std::string const& id) {
    auto const first = id.find_first_not_of("0:");
    std::string result = first == std::string::npos ? "" : id.substr(first);
    for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return result;
  };
  return plain(a) == plain(b);
}

/// The program beside this one, or the one that BLINK_PROBE_GPUS names.
[[nodiscard]] inline std::string program() {
  if (char const* const named = std::getenv("BLINK_PROBE_GPUS")) return named;
  std::error_code fault;
  auto const own = std::filesystem::read_symlink("/proc/self/exe", fault);
  auto const beside = own.parent_path() / "blink-probe-gpus";
  if (!fault && std::filesystem::exists(beside, fault)) return beside.string();
  throw input_error(
      "--gpus: no program blink-probe-gpus beside blink, expected one (built with "
      "BLINK_ENABLE_CUDA) or its path in BLINK_PROBE_GPUS");
}

/// The output of a program. Its errors go where those of this one go.
[[nodiscard]] inline std::string output_of(std::vector<std::string> const& command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw resource_error("--gpus: no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<char*> arguments;
  for (auto const& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  pid_t child = -1;
  int const fault =
      ::posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  std::array<char, 1 << 14> buffer{};
  for (ssize_t count = 0; fault == 0;) {
    count = ::read(ends[0], buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  if (fault != 0) {
    throw input_error("--gpus: " + command[0] + " cannot be run: " + std::strerror(fault));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  throw input_error("--gpus: " + command[0] + " ended with " +
                    (WIFEXITED(status) ? "status " + std::to_string(WEXITSTATUS(status))
                                       : "signal " + std::to_string(WTERMSIG(status))) +
                    ", expected rates of GPUs");
}

}  // namespace gpu_probe_parts

gpu_probe read_gpu_probe(std::string const& text, std::string const& name) {
  detail::json_fields const fields(name);
  auto const all = fields.document(text, "rates of GPUs", "gpu_probe", 1);
  gpu_probe result;
  for (auto const& each : fields.array(fields.field(all, "", "bus_ids"), "bus_ids")) {
    result.bus_ids.push_back(fields.text(each, "bus_ids" + fields.at(result.bus_ids.size())));
  }
  if (result.bus_ids.empty()) fields.fail("bus_ids", "none, expected one GPU or more");
  result.bytes = fields.size(fields.field(all, "", "bytes"), "bytes");
  for (auto const& [key, pairs] :
       {std::pair("refused", &result.refused), std::pair("lost", &result.lost)}) {
    for (auto const& each : fields.array(fields.field(all, "", key), key)) {
      auto const place = key + fields.at(pairs->size());
      auto const ends = fields.integers(each, place);
      auto const is_gpu = [&](int k) { return k >= 0 && k < std::ssize(result.bus_ids); };
      if (ends.size() != 2 || !std::ranges::all_of(ends, is_gpu)) {
        fields.fail(place, "expected the numbers of two GPUs");
      }
      pairs->emplace_back(ends[0], ends[1]);
    }
  }
  gpu_probe_parts::rates_reader const reader(fields, result.bus_ids.size());
  result.peer = reader.read(fields.field(all, "", "peer"), "peer");
  result.host = reader.read(fields.field(all, "", "host"), "host");
  return result;
}

topology fit_gpus(measured_rates const& rates, std::vector<std::string> const& bus_ids) {
  auto result = fit_machine(rates);
  result.name = "probe";
  for (auto& each : result.nodes) {
    each.server = 0;
    auto const rename = [&](std::string const& from, std::string const& to) {
      if (each.label.starts_with(from)) each.label = to + each.label.substr(from.size());
    };
    rename("rank", "gpu");
    rename("nic", "port");
    rename("network", "switch");
    rename("cluster", "shared");
  }
  for (std::size_t k = 0; k < bus_ids.size(); ++k) result.nodes[k].bus_id = bus_ids[k];
  for (auto& each : result.links) each.kind = link_kind::unknown;
  return result;
}

measured_rates in_order_of(topology const& machine, measured_rates const& rates,
                           std::vector<std::string> const& bus_ids) {
  auto const positions = machine.rank_positions();
  if (positions.size() != bus_ids.size()) {
    throw input_error(machine.name + ": " + std::to_string(positions.size()) + " ranks, expected " +
                      std::to_string(bus_ids.size()) + ", the GPUs that are measured");
  }
  std::vector<std::size_t> order;  // by rank: GPU of the probe
  for (int const at : positions) {
    auto const& id = machine.nodes[static_cast<std::size_t>(at)].bus_id;
    if (id.empty()) return rates;
    auto const found = std::ranges::find_if(bus_ids, [&](std::string const& other) {
      return gpu_probe_parts::is_same_device(id, other);
    });
    if (found == bus_ids.end()) {
      throw input_error(machine.name + ": the GPU at " + detail::in_quotes(id) +
                        " was not measured, expected those that are visible (--ranks visible)");
    }
    order.push_back(static_cast<std::size_t>(found - bus_ids.begin()));
  }
  auto const of_list = [&](auto const& list) {
    auto result = list;
    for (std::size_t k = 0; k < order.size(); ++k) result[k] = list[order[k]];
    return result;
  };
  auto result = rates;
  for (auto* const table : {&result.alone, &result.start_up, &result.between, &result.loaded}) {
    *table = of_list(*table);
    for (auto& row : *table) row = of_list(row);
  }
  result.out = of_list(rates.out);
  result.in = of_list(rates.in);
  for (auto& level : result.levels) level.cluster_of = of_list(level.cluster_of);
  return result;
}

gpu_probe run_gpu_probe(std::size_t bytes, double seconds) {
  auto const program = gpu_probe_parts::program();
  auto const text =
      gpu_probe_parts::output_of({program, std::to_string(bytes), std::to_string(seconds)});
  return read_gpu_probe(text, program);
}

void print_gpu_rates(measured_rates const& rates, topology const& fitted, char const* title,
                     std::size_t bytes) {
  namespace show = probe_text;
  std::printf("# blink probe: %zu GPUs, %s, messages of %zu bytes, GB/s\n", rates.ranks(), title,
              bytes);
  show::print_matrix("a pair alone, from the row's GPU to the column's", rates.alone, 1e-9);
  show::print_matrix("microseconds from a small message to its answer", rates.start_up, 1e6);
  show::print_matrix("while all GPUs exchange data in pairs", rates.loaded, 1e-9);
  for (std::size_t k = 0; k < rates.ranks() && rates.ranks() > 1; ++k) {
    std::printf("%sGPU %zu: %s out, %s in\n", k == 0 ? "\n" : "", k,
                show::gigabytes(rates.out[k]).c_str(), show::gigabytes(rates.in[k]).c_str());
  }
  show::print_clusters(rates, "GPUs");
  if (rates.ranks() > 1) {
    show::print_ring(best_ring(fitted), rates, 16 * static_cast<double>(bytes),
                     common_start_up(rates) / 2);
  }
}

void print_gpu_access(gpu_probe const& probe) {
  auto const print = [](char const* what, std::vector<std::pair<int, int>> const& pairs) {
    for (auto const& [from, to] : pairs) std::printf("GPU %d to GPU %d: %s\n", from, to, what);
  };
  print("no access, so copies go through the host", probe.refused);
  print("data that is written does not arrive", probe.lost);
}

}  // namespace blink::tools
