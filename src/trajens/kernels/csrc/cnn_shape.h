// Sizes of the paper's CNN and of its flat parameters, as in models/cnn.py.
//
// Only what reaches the output is computed: 24x24 pixels, 20x20 -> 10x10 outputs of the first convolution, 8x8 -> 2x2
// of the second.
#pragma once

namespace trajens {

constexpr int kParameters = 1906;
constexpr int kSide = 28, kCrop = 24, kPooled = 10, kOut = 8;
constexpr int kChannels1 = 16, kChannels2 = 8, kClasses = 10, kFeatures = 32;
constexpr int kW1 = 0, kB1 = 400, kW2 = 416, kB2 = 1568, kW3 = 1576, kB3 = 1896;

}  // namespace trajens
