// losses_of_pairs for the paper's CNN on NVIDIA GPUs of compute capability 8.0 and up, as an XLA FFI target.

#include <cuda_runtime.h>

#include <climits>

#include "cnn.cuh"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace trajens {

// Images a warp does one after another. A block costs about as much as one more image, to start and to end; all blocks
// that fit the chip at once make a wave, and the last wave takes as long as a full one.
int ImagesPerWarp(std::int64_t lanes, std::int64_t m, std::int64_t blocks_at_once) {
  std::int64_t least = INT64_MAX;
  int best = 1;
  for (int images = 1; images <= kMaxImagesPerWarp; ++images) {
    const std::int64_t blocks = lanes * ((m + kWarps * images - 1) / (kWarps * images));
    const std::int64_t cost = (blocks + blocks_at_once - 1) / blocks_at_once * (images + 1);
    if (cost <= least) {
      least = cost;
      best = images;
    }
  }
  return best;
}

ffi::Error Failed(cudaError_t status) {
  return ffi::Error::Internal(std::string("the CUDA kernel failed: ") + cudaGetErrorString(status));
}

ffi::Error LossesOfPairs(cudaStream_t stream, ffi::Buffer<ffi::F32> pairs, ffi::Buffer<ffi::U8> images,
                         ffi::Buffer<ffi::U8> labels, ffi::Buffer<ffi::S32> indices, ffi::Buffer<ffi::PRED> is_active,
                         ffi::ResultBuffer<ffi::F32> losses) {
  const auto shape = indices.dimensions();
  const auto image_shape = images.dimensions();
  const auto pair_shape = pairs.dimensions();
  if (shape.size() != 2 || pair_shape.size() != 3 || pair_shape[0] != shape[0] || pair_shape[1] != 2 ||
      pair_shape[2] != kParameters || image_shape.size() != 3 || image_shape[1] != kSide || image_shape[2] != kSide ||
      static_cast<std::int64_t>(labels.element_count()) != image_shape[0] ||
      static_cast<std::int64_t>(is_active.element_count()) != shape[0]) {
    return ffi::Error::InvalidArgument("shapes must be (lanes, 2, 1906), (N, 28, 28), (N,), (lanes, m), (lanes,)");
  }
  const std::int64_t lanes = shape[0], m = shape[1];
  if (lanes == 0 || m == 0) return ffi::Error::Success();
  if (image_shape[0] == 0) return ffi::Error::InvalidArgument("there must be at least one image");

  int device = 0, multiprocessors = 0;
  if (cudaError_t status = cudaGetDevice(&device); status != cudaSuccess) return Failed(status);
  if (cudaError_t status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
      status != cudaSuccess)
    return Failed(status);

  Arguments args;
  args.pairs = pairs.typed_data();
  args.images = images.typed_data();
  args.labels = labels.typed_data();
  args.indices = indices.typed_data();
  args.is_active = is_active.typed_data();
  args.losses = losses->typed_data();
  args.m = m;
  args.size = image_shape[0];
  args.images_per_block = kWarps * ImagesPerWarp(lanes, m, multiprocessors * kBlocksPerMultiprocessor);
  const std::int64_t blocks_per_lane = (m + args.images_per_block - 1) / args.images_per_block;
  if (blocks_per_lane * lanes > INT_MAX) return ffi::Error::InvalidArgument("too many images for one call");
  args.blocks_per_lane = static_cast<int>(blocks_per_lane);
  LossesOfPairsKernel<<<static_cast<unsigned>(blocks_per_lane * lanes), kThreads, 0, stream>>>(args);
  if (cudaError_t status = cudaGetLastError(); status != cudaSuccess) return Failed(status);
  return ffi::Error::Success();
}

}  // namespace trajens

XLA_FFI_DEFINE_HANDLER_SYMBOL(trajens_cnn_cuda, trajens::LossesOfPairs,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::U8>>()
                                  .Arg<ffi::Buffer<ffi::U8>>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<ffi::Buffer<ffi::PRED>>()
                                  .Ret<ffi::Buffer<ffi::F32>>(),
                              {ffi::Traits::kCmdBufferCompatible});
