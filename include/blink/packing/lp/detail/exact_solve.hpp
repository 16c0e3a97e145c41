// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Fractions with one denominator. Value i is `numerators[i] / denominator`.
struct common_fractions {
  std::vector<std::int64_t> numerators;
  std::int64_t denominator = 1;
};

/// A square matrix of integers, row by row.
struct integer_matrix {
  std::size_t size = 0;
  std::vector<std::int64_t> entries;

  [[nodiscard]] std::int64_t operator()(std::size_t row, std::size_t column) const {
    return entries[row * size + column];
  }
  [[nodiscard]] integer_matrix transposed() const {
    integer_matrix result{size, std::vector<std::int64_t>(entries.size())};
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) result.entries[j * size + i] = (*this)(i, j);
    }
    return result;
  }
};

__extension__ typedef __int128 wide_integer;

/// Arithmetic modulo a prime of 31 bits.
struct prime_field {
  static constexpr std::int64_t prime = 2'147'483'647;  // 2^31 - 1

  static std::int64_t reduce(wide_integer value) {
    auto const rest = static_cast<std::int64_t>(value % prime);
    return rest < 0 ? rest + prime : rest;
  }
  static std::int64_t inverse(std::int64_t value) {
    std::int64_t a = prime, b = value, x = 0, y = 1;
    while (b != 0) {
      auto const q = a / b;
      a = std::exchange(b, a - q * b);
      x = std::exchange(y, x - q * y);
    }
    return x < 0 ? x + prime : x;
  }
};

/// The inverse modulo the prime by Gauss-Jordan elimination. Returns nothing if the matrix is
/// singular there.
[[nodiscard]] inline std::optional<std::vector<std::int64_t>> inverse_modulo_prime(
    integer_matrix const& matrix) {
  auto const n = matrix.size;
  auto const width = 2 * n;
  std::vector<std::int64_t> work(n * width, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) work[i * width + j] = prime_field::reduce(matrix(i, j));
    work[i * width + n + i] = 1;
  }
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    while (pivot < n && work[pivot * width + k] == 0) ++pivot;
    if (pivot == n) return std::nullopt;
    for (std::size_t j = 0; j < width; ++j) std::swap(work[pivot * width + j], work[k * width + j]);
    auto const scale = prime_field::inverse(work[k * width + k]);
    for (std::size_t j = k; j < width; ++j) {
      work[k * width + j] = work[k * width + j] * scale % prime_field::prime;
    }
    for (std::size_t i = 0; i < n; ++i) {
      auto const factor = work[i * width + k];
      if (i == k || factor == 0) continue;
      auto const minus = prime_field::prime - factor;
      for (std::size_t j = k; j < width; ++j) {
        auto const pivoted = work[k * width + j];
        if (pivoted == 0) continue;
        work[i * width + j] = (work[i * width + j] + minus * pivoted) % prime_field::prime;
      }
    }
  }
  std::vector<std::int64_t> result(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) result[i * n + j] = work[i * width + n + j];
  }
  return result;
}

/// A fraction a/b with a = residue * b modulo `modulus`. Both are below the root of half of it, so
/// there is at most one.
[[nodiscard]] inline std::optional<std::pair<std::int64_t, std::int64_t>> fraction_of_residue(
    wide_integer residue, wide_integer modulus) {
  constexpr wide_integer limit = wide_integer{1} << 61;
  wide_integer a = modulus, b = residue, x = 0, y = 1;
  while (b >= limit) {
    auto const q = a / b;
    a = std::exchange(b, a - q * b);
    x = std::exchange(y, x - q * y);
  }
  if (y < 0) {
    b = -b;
    y = -y;
  }
  if (y == 0 || y >= limit) return std::nullopt;
  return std::pair(static_cast<std::int64_t>(b), static_cast<std::int64_t>(y));
}

/// True if matrix * (numerators / denominator) = right holds in integers.
[[nodiscard]] inline bool solves(integer_matrix const& matrix, common_fractions const& solution,
                                 std::vector<std::int64_t> const& right) {
  for (std::size_t i = 0; i < matrix.size; ++i) {
    wide_integer sum = 0;
    for (std::size_t j = 0; j < matrix.size; ++j) {
      sum += wide_integer{matrix(i, j)} * solution.numerators[j];
    }
    if (sum != wide_integer{right[i]} * solution.denominator) return false;
  }
  return true;
}

/// Solves matrix * x = right in fractions whose common denominator has at most 61 bits.
///
/// Source: J. Dixon, "Exact solution of linear equations using p-adic expansions", Numerische
///         Mathematik 40, 1982.
/// Time:   O(n^3).
/// Post:   the solution has been checked in integers; nothing if the matrix is singular, at least
///         modulo the prime, or the numbers are too large.
[[nodiscard]] inline std::optional<common_fractions> exact_solve(
    integer_matrix const& matrix, std::vector<std::int64_t> const& right) {
  constexpr int digits = 4;  // of 31 bits each, for numerators and denominators up to 61 bits
  auto const n = matrix.size;
  auto const inverse = inverse_modulo_prime(matrix);
  if (!inverse) return std::nullopt;

  std::vector<wide_integer> rest(right.begin(), right.end());
  std::vector<wide_integer> residue(n, 0);
  std::vector<std::int64_t> reduced(n), digit(n);
  wide_integer power = 1;
  for (int d = 0; d < digits; ++d) {
    for (std::size_t i = 0; i < n; ++i) reduced[i] = prime_field::reduce(rest[i]);
    for (std::size_t i = 0; i < n; ++i) {
      wide_integer sum = 0;
      for (std::size_t j = 0; j < n; ++j) sum += wide_integer{(*inverse)[i * n + j]} * reduced[j];
      digit[i] = prime_field::reduce(sum);
      residue[i] += power * digit[i];
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) rest[i] -= wide_integer{matrix(i, j)} * digit[j];
      rest[i] /= prime_field::prime;
    }
    power *= prime_field::prime;
  }

  common_fractions result{std::vector<std::int64_t>(n), 1};
  std::vector<std::pair<std::int64_t, std::int64_t>> fractions(n);
  for (std::size_t i = 0; i < n; ++i) {
    auto const found = fraction_of_residue(residue[i], power);
    if (!found) return std::nullopt;
    fractions[i] = *found;
    auto const common = std::gcd(result.denominator, found->second);
    auto const product = wide_integer{result.denominator / common} * found->second;
    if (product >= wide_integer{1} << 61) return std::nullopt;
    result.denominator = static_cast<std::int64_t>(product);
  }
  for (std::size_t i = 0; i < n; ++i) {
    auto const [top, bottom] = fractions[i];
    auto const value = wide_integer{top} * (result.denominator / bottom);
    if (value >= wide_integer{1} << 61 || -value >= wide_integer{1} << 61) return std::nullopt;
    result.numerators[i] = static_cast<std::int64_t>(value);
  }
  if (!solves(matrix, result, right)) return std::nullopt;
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
