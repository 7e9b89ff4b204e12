// The paper's CNN on one image, for a pair of models. Bias and ReLU come after pooling, with which they commute.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cnn_shape.h"

namespace trajens {

// Vector types of the compiler: one vector holds all output channels of one position.
typedef float Vector16 __attribute__((vector_size(64)));
typedef float Vector8 __attribute__((vector_size(32)));

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

// Two pooled outputs, that is 2x4 positions, at a time: 8 accumulators share each of the 25 weight vectors.
TRAJENS_INLINE void FirstLayer(const float* theta, const float* pixels, float* hidden) {
  const Vector16 bias = Load<Vector16>(theta + kB1);
  const Vector16 zero = {};
  for (int y = 0; y < kPooled; ++y) {
    for (int x = 0; x < kPooled; x += 2) {
      Vector16 sum[2][4] = {};
      for (int i = 0; i < 5; ++i) {
        for (int j = 0; j < 5; ++j) {
          const Vector16 weight = Load<Vector16>(theta + kW1 + (5 * i + j) * kChannels1);
          const float* corner = pixels + (2 * y + i) * kCrop + 2 * x + j;
          for (int r = 0; r < 2; ++r)
            for (int c = 0; c < 4; ++c) sum[r][c] += weight * corner[r * kCrop + c];
        }
      }
      for (int k = 0; k < 2; ++k) {
        const Vector16 top = Larger(sum[0][2 * k], sum[0][2 * k + 1]);
        const Vector16 bottom = Larger(sum[1][2 * k], sum[1][2 * k + 1]);
        Store(hidden + (y * kPooled + x + k) * kChannels1, Larger(Larger(top, bottom) + bias, zero));
      }
    }
  }
}

// One row of eight positions at a time.
TRAJENS_INLINE void SecondLayer(const float* theta, const float* hidden, float* features) {
  const Vector8 bias = Load<Vector8>(theta + kB2);
  const Vector8 zero = {};
  for (int half = 0; half < 2; ++half) {
    Vector8 pooled[2] = {};
    for (int row = 0; row < 4; ++row) {
      Vector8 sum[kOut] = {};
      for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 3; ++j) {
          const float* weights = theta + kW2 + (3 * i + j) * kChannels1 * kChannels2;
          const float* corner = hidden + ((4 * half + row + i) * kPooled + j) * kChannels1;
          for (int c = 0; c < kChannels1; ++c) {
            const Vector8 weight = Load<Vector8>(weights + c * kChannels2);
            for (int x = 0; x < kOut; ++x) sum[x] += weight * corner[x * kChannels1 + c];
          }
        }
      }
      for (int k = 0; k < 2; ++k) {
        const Vector8 best =
            Larger(Larger(sum[4 * k], sum[4 * k + 1]), Larger(sum[4 * k + 2], sum[4 * k + 3]));
        pooled[k] = row == 0 ? best : Larger(pooled[k], best);
      }
    }
    for (int k = 0; k < 2; ++k) Store(features + (2 * half + k) * kChannels2, Larger(pooled[k] + bias, zero));
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
  for (int k = 0; k < kClasses; ++k) sum += std::exp(logits[k] - largest);
  return std::log(sum) - (logits[label] - largest);
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

}  // namespace trajens
