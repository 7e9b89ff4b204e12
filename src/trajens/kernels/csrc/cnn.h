// The paper's CNN on one image, for a pair of models, at the vector width of one level of instructions.
//
// A vector holds kWidth output channels of one position. The order of the sums within a channel does not depend on the
// width, so all levels that fuse multiply-adds give the same bits. Bias and ReLU come after pooling, with which they
// commute. Everything here is local to the file that includes it: two levels never share compiled code.
#pragma once

#include <math.h>

#include <cstdint>
#include <cstring>

#include "cnn_level.h"
#include "cnn_shape.h"

namespace trajens {
namespace {

constexpr Tiling kTiling = tilings::TRAJENS_LEVEL;
constexpr int kWidth = kTiling.width, kVectors1 = kTiling.vectors1, kCells1 = kTiling.cells1;
constexpr int kPositions2 = kTiling.positions2;
typedef float Vector __attribute__((vector_size(4 * kWidth)));
// The second convolution has eight channels: no wider vector than that is of use.
constexpr int kWidth2 = kWidth < kChannels2 ? kWidth : kChannels2;
typedef float Vector2 __attribute__((vector_size(4 * kWidth2)));

#define TRAJENS_INLINE inline __attribute__((always_inline))

// Parameters start at any multiple of four bytes: copying assumes no alignment and compiles to one instruction.
template <typename V>
TRAJENS_INLINE V Load(const float* p) {
  V v;
  std::memcpy(&v, p, sizeof(V));
  return v;
}

template <typename V>
TRAJENS_INLINE void Store(float* p, V v) {
  std::memcpy(p, &v, sizeof(V));
}

template <typename V>
TRAJENS_INLINE V Larger(V a, V b) {
  return a > b ? a : b;
}

// kVectors1 vectors of channels at 2 x 2 kCells1 positions, that is kCells1 pooled outputs, at a time: the accumulators
// share each weight and each pixel.
TRAJENS_INLINE void FirstLayer(const float* theta, const float* pixels, float* hidden) {
  const Vector zero = {};
  for (int channel = 0; channel < kChannels1; channel += kVectors1 * kWidth) {
    for (int y = 0; y < kPooled; ++y) {
      for (int x = 0; x < kPooled; x += kCells1) {
        Vector sum[kVectors1][2][2 * kCells1] = {};
        for (int i = 0; i < 5; ++i) {
          for (int j = 0; j < 5; ++j) {
            const float* weights = theta + kW1 + (5 * i + j) * kChannels1 + channel;
            const float* corner = pixels + (2 * y + i) * kCrop + 2 * x + j;
            Vector weight[kVectors1];
            for (int v = 0; v < kVectors1; ++v) weight[v] = Load<Vector>(weights + v * kWidth);
            for (int r = 0; r < 2; ++r)
              for (int c = 0; c < 2 * kCells1; ++c)
                for (int v = 0; v < kVectors1; ++v) sum[v][r][c] += weight[v] * corner[r * kCrop + c];
          }
        }
        for (int v = 0; v < kVectors1; ++v) {
          const Vector bias = Load<Vector>(theta + kB1 + channel + v * kWidth);
          for (int k = 0; k < kCells1; ++k) {
            const Vector top = Larger(sum[v][0][2 * k], sum[v][0][2 * k + 1]);
            const Vector bottom = Larger(sum[v][1][2 * k], sum[v][1][2 * k + 1]);
            float* out = hidden + (y * kPooled + x + k) * kChannels1 + channel + v * kWidth;
            Store(out, Larger(Larger(top, bottom) + bias, zero));
          }
        }
      }
    }
  }
}

// All eight channels at kPositions2 positions of a row at a time, one or two pooled outputs wide.
TRAJENS_INLINE void SecondLayer(const float* theta, const float* hidden, float* features) {
  constexpr int vectors = kChannels2 / kWidth2, cells = kPositions2 / 4;
  const Vector2 zero = {};
  for (int top = 0; top < kOut; top += 4) {
    for (int left = 0; left < kOut; left += kPositions2) {
      Vector2 pooled[vectors][cells] = {};
      for (int row = 0; row < 4; ++row) {
        Vector2 sum[vectors][kPositions2] = {};
        for (int i = 0; i < 3; ++i) {
          for (int j = 0; j < 3; ++j) {
            const float* weights = theta + kW2 + (3 * i + j) * kChannels1 * kChannels2;
            const float* corner = hidden + ((top + row + i) * kPooled + left + j) * kChannels1;
            for (int c = 0; c < kChannels1; ++c) {
              Vector2 weight[vectors];
              for (int v = 0; v < vectors; ++v) weight[v] = Load<Vector2>(weights + c * kChannels2 + v * kWidth2);
              for (int x = 0; x < kPositions2; ++x)
                for (int v = 0; v < vectors; ++v) sum[v][x] += weight[v] * corner[x * kChannels1 + c];
            }
          }
        }
        for (int v = 0; v < vectors; ++v) {
          for (int k = 0; k < cells; ++k) {
            const Vector2* cell = sum[v] + 4 * k;
            const Vector2 best = Larger(Larger(cell[0], cell[1]), Larger(cell[2], cell[3]));
            pooled[v][k] = row == 0 ? best : Larger(pooled[v][k], best);
          }
        }
      }
      for (int v = 0; v < vectors; ++v) {
        const Vector2 bias = Load<Vector2>(theta + kB2 + v * kWidth2);
        for (int k = 0; k < cells; ++k) {
          const int cell = top / 4 * 2 + left / 4 + k;
          Store(features + cell * kChannels2 + v * kWidth2, Larger(pooled[v][k] + bias, zero));
        }
      }
    }
  }
}

TRAJENS_INLINE float CrossEntropy(const float* theta, const float* features, int label) {
  float logits[kClasses];
  for (int k = 0; k < kClasses; ++k) logits[k] = theta[kB3 + k];
  for (int f = 0; f < kFeatures; ++f)
    for (int k = 0; k < kClasses; ++k) logits[k] += features[f] * theta[kW3 + f * kClasses + k];
  float largest = logits[0];
  for (int k = 1; k < kClasses; ++k) largest = logits[k] > largest ? logits[k] : largest;
  float sum = 0.0f;
  for (int k = 0; k < kClasses; ++k) sum += expf(logits[k] - largest);
  return logf(sum) - (logits[label] - largest);
}

// Losses of both models of a pair on `count` images; the pair shares each image while it is in the cache.
TRAJENS_INLINE void PairOnImages(const float* pair, const std::uint8_t* images, const std::uint8_t* labels,
                                 const std::int32_t* indices, int count, std::int64_t stride, float* losses) {
  alignas(64) float pixels[kCrop * kCrop];
  alignas(64) float hidden[kPooled * kPooled * kChannels1];
  alignas(64) float features[kFeatures];
  for (int n = 0; n < count; ++n) {
    const std::uint8_t* image = images + static_cast<std::int64_t>(indices[n]) * kSide * kSide;
    for (int y = 0; y < kCrop; ++y)
      for (int x = 0; x < kCrop; ++x) pixels[y * kCrop + x] = static_cast<float>(image[y * kSide + x]) * (1.0f / 255.0f);
    for (int model = 0; model < 2; ++model) {
      const float* theta = pair + model * kParameters;
      FirstLayer(theta, pixels, hidden);
      SecondLayer(theta, hidden, features);
      losses[model * stride + n] = CrossEntropy(theta, features, labels[indices[n]]);
    }
  }
}

}  // namespace
}  // namespace trajens
