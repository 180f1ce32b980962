/* SPDX-License-Identifier: Apache-2.0 */
/* How the inner loops ask the compiler for vector code. Private to the tensor room. */
#pragma once

#include <glib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define WEFT_IS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEFT_IS_SANITIZED 1
#endif

/* GCC leaves most loops alone below -O3, and, unless told that nobody looks at floating exceptions, all loops with a
 * choice between two results; Clang vectorises both. Holds for all that follows in a file that includes this. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-trapping-math")
#endif

/* WEFT_VECTORISED marks a function with a simple loop: it is compiled for AVX2 as well as for the baseline, and the
 * dynamic linker picks one. The sanitizers' runtimes are not up when it does, so they get the baseline alone. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(WEFT_IS_SANITIZED)
#define WEFT_VECTORISED __attribute__ ((target_clones ("avx2", "default")))
#else
#define WEFT_VECTORISED
#endif

#define WEFT_ALWAYS_INLINE inline __attribute__ ((always_inline))

/* Elements in a file lie where they lie: types that may be read and written at any address. */
typedef gint8 WeftAnyI8;
typedef guint8 WeftAnyU8;
typedef gint16 WeftAnyI16 __attribute__ ((aligned (1)));
typedef guint16 WeftAnyU16 __attribute__ ((aligned (1)));
typedef gint32 WeftAnyI32 __attribute__ ((aligned (1)));
typedef guint32 WeftAnyU32 __attribute__ ((aligned (1)));
typedef gint64 WeftAnyI64 __attribute__ ((aligned (1)));
typedef guint64 WeftAnyU64 __attribute__ ((aligned (1)));
typedef gfloat WeftAnyF32 __attribute__ ((aligned (1)));
typedef gdouble WeftAnyF64 __attribute__ ((aligned (1)));
