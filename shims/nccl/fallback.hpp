// SPDX-License-Identifier: Apache-2.0
#pragma once

// Another libnccl, named by BLINK_NCCL_FALLBACK. It gets the calls that this library does not
// support.

#include <blink/core/error.hpp>

#include "abi.hpp"
#include "function_list.hpp"
#include "functions.hpp"
#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace blink_nccl {

/// The text of an outcome of that library.
inline constexpr char const* in_other_library = "in the other library";

/// The functions of the other library; null if it has no function of that name.
struct other_library {
#define BLINK_NCCL_MEMBER_AS(type, name, parameters) type(*name) parameters = nullptr;
#define BLINK_NCCL_MEMBER(name, parameters) BLINK_NCCL_MEMBER_AS(result, name, parameters)
  BLINK_NCCL_FUNCTIONS(BLINK_NCCL_MEMBER)
  BLINK_NCCL_TEAM_FUNCTIONS(BLINK_NCCL_MEMBER_AS)
  BLINK_NCCL_OTHER_FUNCTIONS(BLINK_NCCL_MEMBER_AS)
#undef BLINK_NCCL_MEMBER
#undef BLINK_NCCL_MEMBER_AS
  std::string path{};
};

/// The other library; null unless BLINK_NCCL_FALLBACK is set. It stays loaded.
///
/// Throws: input_error, on each call, if there is no such library, or if it is this one.
inline other_library const* fallback() {
  static auto const load = [](char const* path) {
    auto all = std::make_unique<other_library>();
    all->path = path;
    int how = RTLD_NOW | RTLD_LOCAL;
#ifdef BLINK_NCCL_DEEPBIND  // the other library's internal calls must not reach this one
    how |= RTLD_DEEPBIND;
#endif
    void* const library = dlopen(path, how);
    if (library == nullptr) {
      throw blink::input_error("BLINK_NCCL_FALLBACK: " + std::string(dlerror()));
    }
#define BLINK_NCCL_FIND_AS(type, name, parameters) \
  all->name = reinterpret_cast<type(*) parameters>(dlsym(library, "nccl" #name));
#define BLINK_NCCL_FIND(name, parameters) BLINK_NCCL_FIND_AS(result, name, parameters)
    BLINK_NCCL_FUNCTIONS(BLINK_NCCL_FIND)
    BLINK_NCCL_TEAM_FUNCTIONS(BLINK_NCCL_FIND_AS)
    BLINK_NCCL_OTHER_FUNCTIONS(BLINK_NCCL_FIND_AS)
#undef BLINK_NCCL_FIND
#undef BLINK_NCCL_FIND_AS
    if (all->GetVersion == nullptr || all->GetVersion == &ncclGetVersion) {
      throw blink::input_error("BLINK_NCCL_FALLBACK: " + all->path +
                               " is this library, expected another libnccl");
    }
    return all;
  };
  static char const* const path = std::getenv("BLINK_NCCL_FALLBACK");
  if (path == nullptr || *path == '\0') return nullptr;
  static std::unique_ptr<other_library> const all = load(path);
  return all.get();
}

}  // namespace blink_nccl
