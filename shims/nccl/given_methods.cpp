// SPDX-License-Identifier: Apache-2.0

#include "given_methods.hpp"

#include <blink/core/error.hpp>

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#if __has_include(<nlohmann/json.hpp>)

#include <blink/core/detail/fingerprint.hpp>
#include <blink/schedule/method_file.hpp>

namespace {

void add_file(std::string const& file, std::vector<blink::method_table>& to) {
  for (auto& table : blink::read_methods_file(file)) {
    for (auto const& method : table.methods) {
      if (method.plan.shares.empty()) continue;
      throw blink::input_error(file + ": methods of " + std::string(to_text(table.collective)) +
                               ", '" + method.name +
                               "': shares, expected none: all ranks' blocks are of one size");
    }
    to.push_back(std::move(table));
  }
}

std::uint64_t fingerprint_of(std::vector<blink::method_table> const& tables) {
  blink::detail::fingerprint all;
  all.add(blink::write_methods(tables));
  return all.value();
}

}  // namespace

#else

namespace {

[[noreturn]] void add_file(std::string const&, std::vector<blink::method_table>&) {
  throw blink::input_error("this library was built without nlohmann-json, which reads it");
}
std::uint64_t fingerprint_of(std::vector<blink::method_table> const&) {
  return 0;
}

}  // namespace

#endif

namespace blink_nccl {

given_methods read_given_methods() {
  given_methods result;
  char const* const list = std::getenv("BLINK_NCCL_METHODS");
  if (list == nullptr || *list == '\0') return result;
  try {
    std::istringstream files(list);
    for (std::string file; std::getline(files, file, ':');) add_file(file, result.tables);
  } catch (blink::error const& problem) {
    throw blink::input_error("BLINK_NCCL_METHODS: " + std::string(problem.what()));
  }
  result.fingerprint = fingerprint_of(result.tables);
  return result;
}

}  // namespace blink_nccl
