// The convolutions of the paper's CNN for a pair of models, by one warp, on tensor cores: half-precision inputs,
// single-precision sums.
//
// Weights and hidden activations are rounded to half precision (kTerms = 1) or written as a sum of two such numbers
// (kTerms = 2), of whose products all but the smallest is kept: close to single precision for twice the work. Pixels
// are exact either way. The weights stay in the registers of every warp as B matrices (notation of mma.cuh).
//
// First convolution. The rows of a product are 8 pooled outputs, g, times the two rows of their 2x2 pool, so a[0], a[1]
// (and a[2], a[3]) are pixels below one another: pixels are stored by columns. The two columns of the pool are two
// products with the same A: a word holds the pixels (2c, 2c + 1) of a row, and a window that starts at an odd pixel
// uses the same three words as the one before it, with weights shifted by one place and a zero in front instead of
// behind. Of the 16 words a window of 5x5 taps needs (K = 32), threads t = 0, 1, 2 hold column t of taps in rows 0..3;
// thread t = 3 holds row 4, and in the last place the constant (1, 1) whose weights are the bias and what rounding left
// of it. The largest of the four sums of a pool is found within a thread, rounded, and stored for the second
// convolution.
//
// Second convolution. K = 16 are the channels, one product for each of the nine taps. Rows g and g + 8 of a product are
// the outputs (y, g) and (y + 4, g), y = 0..3: a tap that is one row lower needs the A matrix of the next y, so six
// loads serve three taps, and the pool over y is within a thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "cnn_shape.h"
#include "mma.cuh"

namespace trajens {

constexpr int kMaxImagesPerWarp = 12;

// Warps of a block, and blocks a multiprocessor holds at once: as many as registers and shared memory have room for.
template <int kTerms>
constexpr int kWarps = kTerms == 1 ? 4 : 2;
template <int kTerms>
constexpr int kBlocks = kTerms == 1 ? 3 : 4;

// Words (pixel pairs) from one column to the next: no bank conflicts when 8 neighbouring columns are read at once.
constexpr int kPitch = 38;
constexpr int kPairs = kCrop / 2;

constexpr int kPositionBytes = 2 * kChannels1;
constexpr int kRowBytes = kPooled * kPositionBytes;
constexpr int kHiddenBytes = kPooled * kRowBytes;

template <int kTerms>
struct alignas(16) WarpMemory {
  unsigned char hidden[kTerms][2][kHiddenBytes];  // activations [term][model][y][x][channel]
  std::uint32_t pixels[(kPairs + 1) * kPitch];    // [column][row], and a column of ones
};

template <int kTerms>
struct alignas(16) BlockMemory {
  static constexpr int kImages = kWarps<kTerms> * kMaxImagesPerWarp;
  union {
    WarpMemory<kTerms> warps[kWarps<kTerms>];
    float pair[2 * kParameters];  // until the weights are in registers
  };
  float features[2][kImages][kFeatures];  // feature f of image i at f ^ (i % 32): no bank conflicts either way
  float dense[2][kFeatures + 1][12];      // weights and, in the last row, biases
  float bias2[2][4][4];                   // biases of channels 2t, 2t + 1, twice, as the sums of a product
};

// The 16 bytes that hold channels 8 half .. 8 half + 7 of a position. Halves change places every four x, so that eight
// neighbours in x never meet in a bank.
__device__ __forceinline__ int HiddenOffset(int y, int x, int half) {
  return y * kRowBytes + x * kPositionBytes + ((half ^ (x >> 2)) & 1) * 16;
}

template <int kTerms>
struct Weights {
  std::uint32_t first[kTerms][2][4][2][2];  // [term][column of the pool][8 columns of B][K / 16][b]
  std::uint32_t second[kTerms][2][9][2];    // [term][model][tap][b]
};

// Column g of the two B matrices of a model stands for the channels 4 (g / 2) + g % 2 and that + 2: a thread's four
// sums are then neighbouring channels.
template <int kTerms>
__device__ __forceinline__ Weights<kTerms> LoadWeights(const float* pair, int g, int t) {
  constexpr float kScale = 256.0f / 255.0f;  // pixels come as multiples of 1/256
  Weights<kTerms> w;
#pragma unroll
  for (int tile = 0; tile < 4; ++tile) {
    const float* theta = pair + (tile >> 1) * kParameters;
    const int channel = 4 * (g >> 1) + 2 * (tile & 1) + (g & 1);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = t < 3 ? 2 * half + step : 4;
        const int column = t < 3 ? t : 2 * step + half;
        // Taps 2 column - 1, 2 column, 2 column + 1 of the row, as far as they exist.
        float taps[3];
#pragma unroll
        for (int k = 0; k < 3; ++k) {
          const int tap = 2 * column - 1 + k;
          taps[k] = tap >= 0 && tap < 5 ? kScale * theta[kW1 + (5 * row + tap) * kChannels1 + channel] : 0.0f;
        }
#pragma unroll
        for (int dx = 0; dx < 2; ++dx) {
          const float low = taps[1 - dx], high = taps[2 - dx];
          w.first[0][dx][tile][step][half] = Halves(low, high);
          if (kTerms == 2) w.first[kTerms - 1][dx][tile][step][half] = Halves(HalfRemainder(low), HalfRemainder(high));
        }
      }
    }
    if (t == 3) {
      const float bias = theta[kB1 + channel];
#pragma unroll
      for (int dx = 0; dx < 2; ++dx) {
        if (kTerms == 2) w.first[kTerms - 1][dx][tile][1][1] = 0;
        w.first[0][dx][tile][1][1] = Halves(bias, HalfRemainder(bias));
      }
    }
  }
#pragma unroll
  for (int model = 0; model < 2; ++model) {
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* weight = pair + model * kParameters + kW2 + (16 * tap + 8 * half + 2 * t) * kChannels2 + g;
        const float low = weight[0], high = weight[kChannels2];
        w.second[0][model][tap][half] = Halves(low, high);
        if (kTerms == 2) w.second[kTerms - 1][model][tap][half] = Halves(HalfRemainder(low), HalfRemainder(high));
      }
    }
  }
  return w;
}

// Where a thread finds its words of the window of the pooled output (y = 0, x); that of y is 2 y words further.
struct Window {
  const std::uint32_t *even, *next, *odd, *last;

  __device__ __forceinline__ Window(const std::uint32_t* pixels, int x, int t) {
    if (t < 3) {
      even = pixels + (x + t) * kPitch;
      next = even + 2;
      odd = even + 1;
      last = even + 3;
    } else {
      even = pixels + x * kPitch + 4;
      next = even + kPitch;
      odd = next + kPitch;
      last = pixels + kPairs * kPitch;
    }
  }
};

// Eight pooled outputs, one for each g, for all channels of both models.
template <int kTerms>
__device__ __forceinline__ void FirstLayerTile(const Weights<kTerms>& w, const Window& window, int y,
                                               unsigned char* hidden, bool is_stored) {
  const int row = 2 * y;
  const uint2 top = *reinterpret_cast<const uint2*>(window.even + row);
  const uint2 middle = *reinterpret_cast<const uint2*>(window.next + row);
  const std::uint32_t a[2][4] = {{top.x, top.y, middle.x, middle.y},
                                 {window.odd[row], window.odd[row + 1], window.last[row], window.last[row + 1]}};
  float sums[2][4][4] = {};
#pragma unroll
  for (int term = kTerms - 1; term >= 0; --term)
#pragma unroll
    for (int step = 0; step < 2; ++step)
#pragma unroll
      for (int dx = 0; dx < 2; ++dx)
#pragma unroll
        for (int tile = 0; tile < 4; ++tile)
          MultiplyAdd(sums[dx][tile], a[step], w.first[term][dx][tile][step], sums[dx][tile]);
  std::uint32_t pooled[kTerms][4];
#pragma unroll
  for (int tile = 0; tile < 4; ++tile) {
    float largest[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      largest[i] = __int_as_float(
          LargestBits(sums[0][tile][i], sums[0][tile][i + 2], sums[1][tile][i], sums[1][tile][i + 2]));
    pooled[0][tile] = HalvesRelu(largest[0], largest[1]);
    if (kTerms == 2) pooled[kTerms - 1][tile] = HalvesReluRemainder(largest[0], largest[1], pooled[0][tile]);
  }
  if (is_stored) {
#pragma unroll
    for (int term = 0; term < kTerms; ++term)
#pragma unroll
      for (int model = 0; model < 2; ++model)
        *reinterpret_cast<uint2*>(hidden + (2 * term + model) * kHiddenBytes) =
            make_uint2(pooled[term][2 * model], pooled[term][2 * model + 1]);
  }
}

template <int kTerms>
__device__ __forceinline__ void FirstLayer(const Weights<kTerms>& w, WarpMemory<kTerms>& memory, int g, int t) {
  const int within = t % 2 * 8;
  const Window left(memory.pixels, g, t);
  unsigned char* out = memory.hidden[0][0] + HiddenOffset(0, g, t / 2) + within;
#pragma unroll kPooled
  for (int y = 0; y < kPooled; ++y) FirstLayerTile(w, left, y, out + y * kRowBytes, true);
  // The last two columns, four rows at a time. The third time only two rows are left, and what the threads of the other
  // two compute from words below the image is not stored.
  const int x = kOut + g % 2;
  const Window right(memory.pixels + 2 * (g / 2), x, t);
  out = memory.hidden[0][0] + HiddenOffset(g / 2, x, t / 2) + within;
#pragma unroll
  for (int y = 0; y < kPooled; y += 4) FirstLayerTile(w, right, y, out + y * kRowBytes, y + g / 2 < kPooled);
}

// Bits of the pooled outputs [model][y / 4][channel 2t + i] for the four x with the same x / 4, before the ReLU.
template <int kTerms>
__device__ __forceinline__ void SecondLayer(const Weights<kTerms>& w, const BlockMemory<kTerms>& block,
                                            const WarpMemory<kTerms>& memory, int thread, int (&pooled)[2][2][2]) {
  float sums[2][4][4];
#pragma unroll
  for (int model = 0; model < 2; ++model) {
    const float4 bias = *reinterpret_cast<const float4*>(block.bias2[model][thread % 4]);
#pragma unroll
    for (int y = 0; y < 4; ++y) {
      sums[model][y][0] = bias.x;
      sums[model][y][1] = bias.y;
      sums[model][y][2] = bias.z;
      sums[model][y][3] = bias.w;
    }
  }
#pragma unroll
  for (int dx = 0; dx < 3; ++dx) {
    // Matrices 0..3: rows y and y + 4 of the lower eight channels, then of the upper ones.
    const unsigned char* rows = memory.hidden[0][0] + HiddenOffset(thread / 8 % 2 * 4, thread % 8 + dx, thread / 16);
#pragma unroll
    for (int y = 0; y < 6; ++y) {
      std::uint32_t a[kTerms][2][4];
#pragma unroll
      for (int term = 0; term < kTerms; ++term)
#pragma unroll
        for (int model = 0; model < 2; ++model)
          LoadMatrices(a[term][model], rows + y * kRowBytes + (2 * term + model) * kHiddenBytes);
      // Small products first, and products that do not wait for one another next to each other.
#pragma unroll
      for (int product = kTerms == 1 ? 0 : 2; product >= 0; --product)
#pragma unroll
        for (int dy = 0; dy < 3; ++dy) {
          if (y - dy < 0 || y - dy > 3) continue;
#pragma unroll
          for (int model = 0; model < 2; ++model) {
            float(&sum)[4] = sums[model][y - dy];
            MultiplyAdd(sum, a[product & 1][model], w.second[product >> 1][model][3 * dy + dx], sum);
          }
        }
    }
  }
#pragma unroll
  for (int model = 0; model < 2; ++model)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int k = 2 * half + i;
        pooled[model][half][i] =
            LargestBits(sums[model][0][k], sums[model][1][k], sums[model][2][k], sums[model][3][k]);
      }
}

}  // namespace trajens
