// What the kernels of all platforms ask of the arrays they are handed.
#pragma once

#include <cstdint>

#include "cnn_shape.h"
#include "xla/ffi/api/ffi.h"

namespace trajens {

namespace ffi = xla::ffi;

inline ffi::Error CheckShapes(const ffi::Buffer<ffi::F32>& pairs, const ffi::Buffer<ffi::U8>& images,
                              const ffi::Buffer<ffi::U8>& labels, const ffi::Buffer<ffi::S32>& indices,
                              const ffi::Buffer<ffi::PRED>& is_active) {
  const auto shape = indices.dimensions();
  const auto image_shape = images.dimensions();
  const auto pair_shape = pairs.dimensions();
  if (shape.size() != 2 || pair_shape.size() != 3 || pair_shape[0] != shape[0] || pair_shape[1] != 2 ||
      pair_shape[2] != kParameters || image_shape.size() != 3 || image_shape[1] != kSide || image_shape[2] != kSide ||
      static_cast<std::int64_t>(labels.element_count()) != image_shape[0] ||
      static_cast<std::int64_t>(is_active.element_count()) != shape[0]) {
    return ffi::Error::InvalidArgument("shapes must be (lanes, 2, 1906), (N, 28, 28), (N,), (lanes, m), (lanes,)");
  }
  return ffi::Error::Success();
}

}  // namespace trajens
