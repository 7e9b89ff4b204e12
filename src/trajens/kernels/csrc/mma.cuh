// The instructions of a warp that have no C++ spelling. Two half-precision numbers travel in one 32-bit word, the first
// one in the low half.
//
// In a product of a 16x16 matrix A with a 16x8 matrix B, the thread of number 4 g + t holds
//   A: a[0], a[1] = rows g, g + 8, columns 2t and 2t + 1;  a[2], a[3] = the same rows, columns 2t + 8 and 2t + 9
//   B: b[0], b[1] = rows 2t, 2t + 1 and rows 2t + 8, 2t + 9 of column g
//   sums: d[0], d[1] = row g, columns 2t and 2t + 1;  d[2], d[3] = row g + 8, the same columns
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace trajens {

// d = A B + c
__device__ __forceinline__ void MultiplyAdd(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                                            const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// Four 8x8 matrices of halves; thread i names row i % 8 (16 bytes) of matrix i / 8 and gets two numbers of each.
__device__ __forceinline__ void LoadMatrices(std::uint32_t (&a)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

__device__ __forceinline__ std::uint32_t Halves(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

// What is left of a number after rounding to half precision.
__device__ __forceinline__ float HalfRemainder(float x) { return x - __half2float(__float2half_rn(x)); }

// max(0, x) of both.
__device__ __forceinline__ std::uint32_t HalvesRelu(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// max(0, x) of both less `rounded`, which is what HalvesRelu made of them.
__device__ __forceinline__ std::uint32_t HalvesReluRemainder(float low, float high, std::uint32_t rounded) {
  const float2 kept = __half22float2(*reinterpret_cast<const __half2*>(&rounded));
  return Halves(fmaxf(low, 0.0f) - kept.x, fmaxf(high, 0.0f) - kept.y);
}

// Bytes 0, 1 (or 2, 3) of a word over 256. 0x6400 + b is the number 1024 + b, so this is exact.
template <bool kUpper>
__device__ __forceinline__ std::uint32_t HalvesOfBytes(std::uint32_t bytes) {
  const std::uint32_t shifted = __byte_perm(bytes, 0x64646464u, kUpper ? 0x4342 : 0x4140);
  const __half2 both = __hfma2(*reinterpret_cast<const __half2*>(&shifted), __float2half2_rn(1.0f / 256.0f),
                               __float2half2_rn(-4.0f));
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

// The bits of the largest of four numbers if it is positive, else of some negative number or zero: floats of positive
// sign are ordered as their bits are as integers, and two such comparisons are one instruction on newer chips.
__device__ __forceinline__ int LargestBits(float a, float b, float c, float d) {
  return max(__vimax3_s32(__float_as_int(a), __float_as_int(b), __float_as_int(c)), __float_as_int(d));
}

}  // namespace trajens
