// SPDX-License-Identifier: Apache-2.0
#pragma once

// Another libnccl, named by BLINK_NCCL_FALLBACK. It gets the calls that this library does not
// support.

#include <blink/core/error.hpp>

#include "abi.hpp"
#include "errors.hpp"
#include "function_list.hpp"
#include "functions.hpp"
#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>

namespace blink_nccl {

/// The functions of another library; null if it has no function of that name.
struct other_library {
#define BLINK_NCCL_MEMBER(type, name, parameters) type(*name) parameters = nullptr;
  BLINK_NCCL_FUNCTIONS(BLINK_NCCL_MEMBER)
#undef BLINK_NCCL_MEMBER

  /// loaded: what `dlopen` has returned
  explicit other_library(void* loaded) {
#define BLINK_NCCL_FIND(type, name, parameters) \
  name = reinterpret_cast<type(*) parameters>(dlsym(loaded, "nccl" #name));
    BLINK_NCCL_FUNCTIONS(BLINK_NCCL_FIND)
#undef BLINK_NCCL_FIND
  }
};

/// The other library; null unless BLINK_NCCL_FALLBACK is set. It stays loaded.
///
/// Throws: input_error, on each call, if there is no such library, or if it is this one.
inline other_library const* fallback() {
  static auto const load = [](char const* path) {
    int how = RTLD_NOW | RTLD_LOCAL;
#ifdef BLINK_NCCL_DEEPBIND  // the other library's internal calls must not reach this one
    how |= RTLD_DEEPBIND;
#endif
    void* const library = dlopen(path, how);
    if (library == nullptr) {
      throw blink::input_error("BLINK_NCCL_FALLBACK: " + std::string(dlerror()));
    }
    auto all = std::make_unique<other_library>(library);
    if (all->GetVersion == nullptr || all->GetVersion == &ncclGetVersion) {
      throw blink::input_error("BLINK_NCCL_FALLBACK: " + std::string(path) +
                               " is this library, expected another libnccl");
    }
    return all;
  };
  static char const* const path = std::getenv("BLINK_NCCL_FALLBACK");
  if (path == nullptr || *path == '\0') return nullptr;
  static std::unique_ptr<other_library> const all = load(path);
  return all.get();
}

/// The text of an outcome of that library.
inline constexpr char const* in_other_library = "in the other library";

/// Throws: refusal if the other library has no function of this name.
template <class Function>
void expect_there(Function* function) {
  if (function == nullptr) refuse_usage("the other library lacks the function");
}
/// Calls a function of the other library.
///
/// Throws: refusal if that library has no function of this name.
template <class... Parameters, class... Arguments>
outcome call_there(result (*function)(Parameters...), Arguments... arguments) {
  expect_there(function);
  return {function(arguments...), in_other_library};
}

/// Returns a call of a function of the other library with these arguments. Its communicator takes
/// the place of the one among them.
template <class... Parameters, class... Arguments>
auto passed_on(result (*other_library::*function)(Parameters...), Arguments... arguments) {
  return [=](other_library const& there, [[maybe_unused]] communicator* theirs) {
    auto const of_them = [&](auto argument) {
      if constexpr (std::is_same_v<decltype(argument), communicator*>) {
        return theirs;
      } else {
        return argument;
      }
    };
    return call_there(there.*function, of_them(arguments)...);
  };
}

}  // namespace blink_nccl
