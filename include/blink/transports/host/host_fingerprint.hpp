// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/fingerprint.hpp>

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// Equal in processes of one start of one host that see each other under the same process numbers:
/// those may share memory. Different in containers with process numbers of their own (Linux).
[[nodiscard]] inline std::uint64_t host_fingerprint() {
  detail::fingerprint all;
  std::array<char, 64> text{};
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const file(
      std::fopen("/proc/sys/kernel/random/boot_id", "r"), std::fclose);
  if (file && std::fgets(text.data(), text.size(), file.get()))
    all.add(std::string_view(text.data()));
  auto const bytes = readlink("/proc/self/ns/pid", text.data(), text.size());
  all.add(std::string_view(text.data(), bytes < 0 ? 0 : static_cast<std::size_t>(bytes)));
  return all.value();
}

}}  // namespace blink::BLINK_ABI
