// How the work on all lanes is cut into blocks.
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

#include "cnn.cuh"

namespace trajens {

// Images a warp does one after another. A block costs about as much as one more image, to start and to end; all blocks
// that fit the chip at once make a wave, and the last wave takes as long as a full one.
inline int ImagesPerWarp(std::int64_t lanes, std::int64_t m, int warps, std::int64_t blocks_at_once) {
  std::int64_t least = INT64_MAX;
  int best = 1;
  for (int images = 1; images <= kMaxImagesPerWarp; ++images) {
    const std::int64_t blocks = lanes * ((m + warps * images - 1) / (warps * images));
    const std::int64_t cost = (blocks + blocks_at_once - 1) / blocks_at_once * (images + 1);
    if (cost <= least) {
      least = cost;
      best = images;
    }
  }
  return best;
}

// `args` but for its last two fields. Nothing here depends on the data, so a launch can be recorded and repeated.
template <int kTerms>
cudaError_t Launch(Arguments args, std::int64_t lanes, cudaStream_t stream) {
  int device = 0, multiprocessors = 0;
  if (cudaError_t status = cudaGetDevice(&device); status != cudaSuccess) return status;
  if (cudaError_t status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
      status != cudaSuccess)
    return status;
  args.images_per_block =
      kWarps<kTerms> * ImagesPerWarp(lanes, args.m, kWarps<kTerms>, multiprocessors * kBlocks<kTerms>);
  const std::int64_t blocks_per_lane = (args.m + args.images_per_block - 1) / args.images_per_block;
  if (blocks_per_lane * lanes > INT_MAX) return cudaErrorInvalidConfiguration;
  args.blocks_per_lane = static_cast<int>(blocks_per_lane);
  LossesOfPairsKernel<kTerms>
      <<<static_cast<unsigned>(blocks_per_lane * lanes), 32 * kWarps<kTerms>, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace trajens
