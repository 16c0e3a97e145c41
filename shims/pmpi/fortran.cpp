// SPDX-License-Identifier: Apache-2.0
// Calls of Fortran programs. The Fortran library of Open MPI calls PMPI_X, and that of MPICH in
// part, so no library in front of them sees these calls. This file lets them call MPI_X of this
// library instead, by the tables through which they find functions of other libraries.

#include "fortran.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t call_entry = R_X86_64_JUMP_SLOT, address_entry = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr std::uint32_t call_entry = R_AARCH64_JUMP_SLOT, address_entry = R_AARCH64_GLOB_DAT;
#else
constexpr std::uint32_t call_entry = 0, address_entry = 0;  // not known
#endif

bool all_are_redirected = true;

/// Of Open MPI, of MPICH in Debian, of MPICH and Intel MPI.
constexpr std::array<std::string_view, 3> fortran_libraries{"/libmpi_mpifh.", "/libmpichfort.",
                                                            "/libmpifort."};

/// This library's MPI_X for the name PMPI_X; null if it has none.
void* own_function(char const* name) {
  if (!std::string_view(name).starts_with("PMPI_")) return nullptr;
  Dl_info own{}, found{};
  void* const result = dlsym(RTLD_DEFAULT, name + 1);
  static char const place = 0;
  bool const is_own = result != nullptr && dladdr(&place, &own) != 0 &&
                      dladdr(result, &found) != 0 && own.dli_fbase == found.dli_fbase;
  return is_own ? result : nullptr;
}

/// Writes an entry of the table, which is read-only in libraries that are bound at their start.
bool write_entry(std::uintptr_t entry, void* function) {
  auto const page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* const begin = reinterpret_cast<void*>(entry / page * page);
  if (mprotect(begin, page, PROT_READ | PROT_WRITE) != 0) return false;
  std::memcpy(reinterpret_cast<void*>(entry), &function, sizeof(function));
  return true;
}

/// The dynamic section of a loaded library.
class dynamic_section {
 public:
  explicit dynamic_section(dl_phdr_info const& library) : base_(library.dlpi_addr) {
    for (std::size_t k = 0; k < library.dlpi_phnum; ++k) {
      if (library.dlpi_phdr[k].p_type != PT_DYNAMIC) continue;
      first_ = reinterpret_cast<ElfW(Dyn) const*>(base_ + library.dlpi_phdr[k].p_vaddr);
    }
  }
  [[nodiscard]] std::uintptr_t value(decltype(ElfW(Dyn)::d_tag) tag) const {
    for (auto const* one = first_; one != nullptr && one->d_tag != DT_NULL; ++one) {
      if (one->d_tag == tag) return one->d_un.d_val;
    }
    return 0;
  }
  /// An address, which some systems keep relative to the library's begin.
  template <class T>
  [[nodiscard]] T const* at(decltype(ElfW(Dyn)::d_tag) tag) const {
    auto const address = value(tag);
    return reinterpret_cast<T const*>(address < base_ ? address + base_ : address);
  }

 private:
  std::uintptr_t base_;
  ElfW(Dyn) const* first_ = nullptr;
};

int redirect(dl_phdr_info* library, std::size_t, void*) {
  std::string_view const name(library->dlpi_name);
  if (std::none_of(fortran_libraries.begin(), fortran_libraries.end(),
                   [&](auto one) { return name.find(one) != std::string_view::npos; })) {
    return 0;
  }
  dynamic_section const section(*library);
  auto const* const symbols = section.at<ElfW(Sym)>(DT_SYMTAB);
  auto const* const names = section.at<char>(DT_STRTAB);
  std::size_t redirected = 0;
  auto const redirect_in = [&](ElfW(Rela) const* entries, std::size_t bytes) {
    for (auto const* one = entries; one < entries + bytes / sizeof(*entries); ++one) {
      auto const type = static_cast<std::uint32_t>(ELF64_R_TYPE(one->r_info));
      if (type != call_entry && type != address_entry) continue;
      void* const function = own_function(names + symbols[ELF64_R_SYM(one->r_info)].st_name);
      if (function == nullptr) continue;
      if (!write_entry(library->dlpi_addr + one->r_offset, function)) all_are_redirected = false;
      ++redirected;
    }
  };
  if (call_entry != 0) {
    redirect_in(section.at<ElfW(Rela)>(DT_JMPREL), section.value(DT_PLTRELSZ));
    redirect_in(section.at<ElfW(Rela)>(DT_RELA), section.value(DT_RELASZ));
  }
  if (redirected == 0) all_are_redirected = false;
  return 0;
}

[[gnu::constructor]] void begin() {
  dl_iterate_phdr(redirect, nullptr);
}

}  // namespace

namespace blink_pmpi {

bool sees_fortran() {
  return all_are_redirected;
}

}  // namespace blink_pmpi
