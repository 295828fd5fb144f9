#pragma once
#include <string>

namespace laconic {

/// Says what a file is that holds weights in a format which is not read here, and how it becomes a safetensors file:
/// "w.pth is a file of PyTorch, which only Python reads. Convert it: python3 -c …". It goes by the first bytes, never
/// by the name: .pth, .pt and .bin of PyTorch, .npz, .npy, .gguf, .h5, a pointer of Git LFS, a page of the web.
/// "" if it is none of these.   throws DataError: the file cannot be read
std::string about_foreign_file(const std::string& path);

}  // namespace laconic
