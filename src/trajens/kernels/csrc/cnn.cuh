// losses_of_pairs for the paper's CNN as a CUDA kernel.
//
// A block works on one lane and up to 12 images of its chunk a warp; a warp owns an image at a time, runs both models
// on it and leaves their 32 features each. When all its images are done, every thread of the block takes an image and
// a model through the dense layer and the loss, in single precision.
#pragma once

#include <cmath>
#include <cstdint>

#include "cnn_layers.cuh"

namespace trajens {

// Five words of four pixels a thread, thread 6a + w takes word w of the rows a, a + 5, ..., a + 20 of an image.
constexpr int kWordsPerRow = kCrop / 4, kLoads = 5, kLoaders = 6 * kLoads;

// The pool over x: four threads with neighbouring g hold eight numbers each to be compared among them. In two exchanges
// every thread gives away half of its numbers and keeps those of model g % 2, then of cell row g / 2 % 2.
template <int kTerms>
__device__ __forceinline__ void StoreFeatures(const int (&pooled)[2][2][2], int g, int t, int image,
                                              BlockMemory<kTerms>& block) {
  const bool model = g & 1, below = g & 2;
  int kept[2][2];
#pragma unroll
  for (int y = 0; y < 2; ++y)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int other = __shfl_xor_sync(0xffffffffu, model ? pooled[0][y][i] : pooled[1][y][i], 4);
      kept[y][i] = max(model ? pooled[1][y][i] : pooled[0][y][i], other);
    }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int other = __shfl_xor_sync(0xffffffffu, below ? kept[0][i] : kept[1][i], 8);
    const int largest = max(max(below ? kept[1][i] : kept[0][i], other), 0);
    const int feature = ((below ? 2 : 0) + g / 4) * kChannels2 + 2 * t + i;
    block.features[model][image][feature ^ (image % 32)] = __int_as_float(largest);
  }
}

__device__ __forceinline__ float CrossEntropy(const float (&dense)[kFeatures + 1][12],
                                              const float (&features)[kFeatures], int image, int label) {
  float logits[12];
#pragma unroll
  for (int k = 0; k < 12; ++k) logits[k] = dense[kFeatures][k];
#pragma unroll 4
  for (int f = 0; f < kFeatures; ++f) {
    const float x = features[f ^ (image % 32)];
#pragma unroll
    for (int k = 0; k < 12; k += 4) {
      const float4 weight = *reinterpret_cast<const float4*>(&dense[f][k]);
      logits[k] = fmaf(x, weight.x, logits[k]);
      logits[k + 1] = fmaf(x, weight.y, logits[k + 1]);
      logits[k + 2] = fmaf(x, weight.z, logits[k + 2]);
      logits[k + 3] = fmaf(x, weight.w, logits[k + 3]);
    }
  }
  float largest = logits[0], chosen = logits[0];
#pragma unroll
  for (int k = 1; k < kClasses; ++k) {
    largest = fmaxf(largest, logits[k]);
    if (k == label) chosen = logits[k];
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kClasses; ++k) sum += expf(logits[k] - largest);
  return logf(sum) - (chosen - largest);
}

__device__ __forceinline__ void LoadImage(std::uint32_t (&words)[kLoads], const std::uint8_t* images,
                                          std::int64_t index, int thread) {
  if (thread >= kLoaders) return;
  const std::uint8_t* corner =
      images + index * (kSide * kSide) + thread / kWordsPerRow * kSide + thread % kWordsPerRow * 4;
#pragma unroll
  for (int i = 0; i < kLoads; ++i)
    words[i] = __ldg(reinterpret_cast<const std::uint32_t*>(corner + i * kLoads * kSide));
}

__device__ __forceinline__ void StoreImage(const std::uint32_t (&words)[kLoads], std::uint32_t* pixels, int thread) {
  if (thread >= kLoaders) return;
  std::uint32_t* column = pixels + thread % kWordsPerRow * 2 * kPitch + thread / kWordsPerRow;
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    column[i * kLoads] = HalvesOfBytes<false>(words[i]);
    column[i * kLoads + kPitch] = HalvesOfBytes<true>(words[i]);
  }
}

struct Arguments {
  const float* pairs;           // [lanes][2][1906]
  const std::uint8_t* images;   // [size][28][28]
  const std::uint8_t* labels;   // [size]
  const std::int32_t* indices;  // [lanes][m]
  const bool* is_active;        // [lanes]
  float* losses;                // [lanes][2][m]
  std::int64_t m;
  std::int64_t size;
  int images_per_block;
  int blocks_per_lane;
};

// Losses of inactive lanes are 0; those of an index or a label out of range are NaN, and nothing is read for them.
template <int kTerms>
__global__ void __launch_bounds__(32 * kWarps<kTerms>, kBlocks<kTerms>) LossesOfPairsKernel(const Arguments args) {
  constexpr int kThreads = 32 * kWarps<kTerms>;
  __shared__ BlockMemory<kTerms> block;
  const std::int64_t lane = blockIdx.x / args.blocks_per_lane;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x % args.blocks_per_lane) * args.images_per_block;
  const int count = static_cast<int>(args.m - first < args.images_per_block ? args.m - first : args.images_per_block);
  const std::int32_t* indices = args.indices + lane * args.m + first;
  float* losses = args.losses + 2 * lane * args.m + first;
  const int number = threadIdx.x;

  // In the dense layer: the image and the model of this thread.
  const int image = number % (kThreads / 2), model = number / (kThreads / 2);
  if (!args.is_active[lane]) {
    if (image < count) losses[model * args.m + image] = 0.0f;
    return;
  }

  const int thread = number % 32, warp = number / 32, g = thread / 4, t = thread % 4;
  WarpMemory<kTerms>& memory = block.warps[warp];
  const int mine = (count - warp + kWarps<kTerms> - 1) / kWarps<kTerms>;
  // Thread i holds the index of the warp's image number i.
  int index = thread < mine ? indices[warp + thread * kWarps<kTerms>] : 0;
  if (index < 0 || index >= args.size) index = 0;
  std::uint32_t words[kLoads] = {};
  LoadImage(words, args.images, __shfl_sync(0xffffffffu, index, 0), thread);

  const float4* pair = reinterpret_cast<const float4*>(args.pairs + 2 * lane * kParameters);
#pragma unroll
  for (int i = number; i < 2 * kParameters / 4; i += kThreads)
    reinterpret_cast<float4*>(block.pair)[i] = __ldg(pair + i);
  __syncthreads();
  for (int i = number; i < 2 * (kFeatures + 1) * 12; i += kThreads) {
    const int k = i % 12, f = i / 12 % (kFeatures + 1), which = i / (12 * (kFeatures + 1));
    block.dense[which][f][k] = k < kClasses ? block.pair[which * kParameters + kW3 + f * kClasses + k] : 0.0f;
  }
  if (number < 32)
    block.bias2[number / 16][number / 4 % 4][number % 4] =
        block.pair[number / 16 * kParameters + kB2 + 2 * (number / 4 % 4) + number % 2];
  const Weights<kTerms> w = LoadWeights<kTerms>(block.pair, g, t);
  __syncthreads();
  if (thread < kCrop) memory.pixels[kPairs * kPitch + thread] = Halves(1.0f, 1.0f);

  for (int i = 0; i < mine; ++i) {
    StoreImage(words, memory.pixels, thread);
    __syncwarp();
    FirstLayer(w, memory, g, t);
    // The next image is on its way during the second layer, when registers are free to receive it.
    // After the last one it is some image that nobody looks at.
    LoadImage(words, args.images, __shfl_sync(0xffffffffu, index, i + 1), thread);
    __syncwarp();
    int pooled[2][2][2];
    SecondLayer(w, block, memory, thread, pooled);
    StoreFeatures(pooled, g, t, warp + i * kWarps<kTerms>, block);
  }
  __syncthreads();

  if (image >= count) return;
  const int chosen = indices[image];
  const bool is_known = chosen >= 0 && chosen < args.size;
  const int label = is_known ? args.labels[chosen] : kClasses;
  const float loss = CrossEntropy(block.dense[model], block.features[model][image], image, label);
  losses[model * args.m + image] = label < kClasses ? loss : __int_as_float(0x7fc00000);
}

}  // namespace trajens
