// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only file that looks at the compiler.

#include <blink/core/version.hpp>

// On devices clang calls what it finds large, and hands it its arguments by way of local memory.
#if defined(__clang__) && defined(__CUDA_ARCH__)
#define BLINK_HOST_DEVICE __host__ __device__ __attribute__((always_inline))
#elif defined(__CUDACC__)
#define BLINK_HOST_DEVICE __host__ __device__
#else
#define BLINK_HOST_DEVICE
#endif

/// Before a template that devices and hosts instantiate, each with links and groups of their own: nvcc is not
/// to warn that those of hosts cannot be called on devices. Device code that does call them is an error still.
#if defined(__NVCC__)
#define BLINK_EITHER_SIDE _Pragma("nv_exec_check_disable")
#else
#define BLINK_EITHER_SIDE
#endif

/// Before an argument of a kernel that is only read: where its address is taken it is not copied.
#if defined(__NVCC__)
#define BLINK_KERNEL_CONSTANT __grid_constant__
#else
#define BLINK_KERNEL_CONSTANT
#endif

/// 1 while code for a GPU is generated, else 0.
#if defined(__CUDA_ARCH__)
#define BLINK_DEVICE_PASS 1
#else
#define BLINK_DEVICE_PASS 0
#endif

/// Unrolls the loop that follows, or keeps it from being unrolled, in device code; hosts decide for
/// themselves.
#if BLINK_DEVICE_PASS
#define BLINK_UNROLL _Pragma("unroll")
#define BLINK_ROLLED _Pragma("unroll 1")
#else
#define BLINK_UNROLL
#define BLINK_ROLLED
#endif

/// Of a function that runs once, or when something has failed: hosts' compilers make it small instead of
/// fast, which is less work for them, too.
#if defined(__GNUC__) && !defined(__CUDACC__)
#define BLINK_COLD [[gnu::cold]]
#else
#define BLINK_COLD
#endif

/// What hosts' compilers may take for granted, so that they do not warn of what cannot be. Those of
/// devices are not told: they would make other code of it.
#if defined(__GNUC__) && !BLINK_DEVICE_PASS
#define BLINK_HOST_ASSUME(condition) ((condition) ? void() : __builtin_unreachable())
#else
#define BLINK_HOST_ASSUME(condition) void()
#endif

/// The iterations of the loop that follows do not depend on each other, though it may seem so. clang looks where
/// that is when the loop runs; if it is told, it warns users of each loop with a reducer that has no vectors.
#if defined(__GNUC__) && !defined(__clang__) && !BLINK_DEVICE_PASS
#define BLINK_INDEPENDENT _Pragma("GCC ivdep")
#else
#define BLINK_INDEPENDENT
#endif

/// 1 where stores go past the caches: x86-64 has them in its base; ThreadSanitizer does not see them. Compilers' own words for
/// it, as their header of them is a twentieth of `blink/collectives.hpp`.
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__) && !BLINK_DEVICE_PASS
#define BLINK_HAS_STREAMING_STORES 1
#if defined(__clang__)
#if __has_feature(thread_sanitizer)
#undef BLINK_HAS_STREAMING_STORES
#define BLINK_HAS_STREAMING_STORES 0
#endif
#define BLINK_STREAMING_STORE(to, word) __builtin_nontemporal_store(word, to)
#else
#define BLINK_STREAMING_STORE(to, word) __builtin_ia32_movntdq(to, word)
#endif
#else
#define BLINK_HAS_STREAMING_STORES 0
#endif

/// Below a model of a concept whose check takes long: that it is one. Checked where BLINK_CHECK_MODELS is defined, as in
/// blink's own tests: the answer is the same for all who include the header, and each would wait for it.
#if defined(BLINK_CHECK_MODELS)
#define BLINK_MODELS(...) static_assert(__VA_ARGS__)
#else
#define BLINK_MODELS(...) static_assert(true)
#endif

namespace blink { inline namespace BLINK_ABI {

/// `template <class = when_used>` before a function that needs no parameter: it is compiled in units that call it, and
/// not, with all that its body makes of the standard library's templates, in each that includes it.
struct when_used;

}}  // namespace blink::BLINK_ABI
