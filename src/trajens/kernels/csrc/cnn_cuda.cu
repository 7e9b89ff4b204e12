// losses_of_pairs for the paper's CNN on NVIDIA GPUs of compute capability 8.0 and up, as an XLA FFI target.

#include <cuda_runtime.h>

#include <string>

#include "cnn_ffi.h"
#include "cnn_launch.cuh"

namespace ffi = xla::ffi;

namespace trajens {

template <int kTerms>
ffi::Error LossesOfPairs(cudaStream_t stream, ffi::Buffer<ffi::F32> pairs, ffi::Buffer<ffi::U8> images,
                         ffi::Buffer<ffi::U8> labels, ffi::Buffer<ffi::S32> indices, ffi::Buffer<ffi::PRED> is_active,
                         ffi::ResultBuffer<ffi::F32> losses) {
  const auto shape = indices.dimensions();
  const auto image_shape = images.dimensions();
  if (ffi::Error error = CheckShapes(pairs, images, labels, indices, is_active); error.failure()) return error;
  const std::int64_t lanes = shape[0], m = shape[1];
  if (lanes == 0 || m == 0) return ffi::Error::Success();
  if (image_shape[0] == 0) return ffi::Error::InvalidArgument("there must be at least one image");

  Arguments args;
  args.pairs = pairs.typed_data();
  args.images = images.typed_data();
  args.labels = labels.typed_data();
  args.indices = indices.typed_data();
  args.is_active = is_active.typed_data();
  args.losses = losses->typed_data();
  args.m = m;
  args.size = image_shape[0];
  if (cudaError_t status = Launch<kTerms>(args, lanes, stream); status != cudaSuccess)
    return ffi::Error::Internal(std::string("the CUDA kernel failed: ") + cudaGetErrorString(status));
  return ffi::Error::Success();
}

}  // namespace trajens

#define TRAJENS_DEFINE_HANDLER(name, terms)                                    \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, trajens::LossesOfPairs<terms>,           \
                                ffi::Ffi::Bind()                               \
                                    .Ctx<ffi::PlatformStream<cudaStream_t>>()  \
                                    .Arg<ffi::Buffer<ffi::F32>>()              \
                                    .Arg<ffi::Buffer<ffi::U8>>()               \
                                    .Arg<ffi::Buffer<ffi::U8>>()               \
                                    .Arg<ffi::Buffer<ffi::S32>>()              \
                                    .Arg<ffi::Buffer<ffi::PRED>>()             \
                                    .Ret<ffi::Buffer<ffi::F32>>(),             \
                                {ffi::Traits::kCmdBufferCompatible})

TRAJENS_DEFINE_HANDLER(trajens_cnn_cuda, 2);
TRAJENS_DEFINE_HANDLER(trajens_cnn_cuda_half, 1);
