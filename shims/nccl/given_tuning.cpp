// SPDX-License-Identifier: Apache-2.0

#include "given_tuning.hpp"

#include <blink/core/error.hpp>
#include <blink/schedule/given_tuning.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#if __has_include(<nlohmann/json.hpp>)

#include <blink/core/detail/hash.hpp>
#include <blink/schedule/tuning_file.hpp>

namespace {

void add_file(std::string const& file, std::vector<blink::tuning_table>& to) {
  for (auto& table : blink::read_tuning_file(file)) {
    for (auto const& algorithm : table.algorithms) {
      if (algorithm.source.shares.empty()) continue;
      throw blink::input_error(
          file + ": algorithms of " + std::string(to_text(table.collective)) + ", '" +
          algorithm.name + "' has shares, expected none, because all ranks' blocks have one size");
    }
    to.push_back(std::move(table));
  }
}

std::uint64_t hash_of(std::vector<blink::tuning_table> const& tables) {
  blink::detail::hash all;
  all.add(blink::write_tuning(tables));
  return all.value();
}

}  // namespace

#else

namespace {

[[noreturn]] void add_file(std::string const&, std::vector<blink::tuning_table>&) {
  throw blink::input_error("this library was built without nlohmann-json, which reads it");
}
std::uint64_t hash_of(std::vector<blink::tuning_table> const&) {
  return 0;
}

}  // namespace

#endif

namespace blink_nccl {

given_tuning read_given_tuning() {
  given_tuning result;
  blink::detail::for_each_tuning_file(
      [&](std::string const& file) { add_file(file, result.tables); });
  if (!result.tables.empty()) result.hash = hash_of(result.tables);
  return result;
}

}  // namespace blink_nccl
