#include "core/foreign_file.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "core/base/atomic_file.h"
#include "core/base/error.h"

namespace laconic {
namespace {

using namespace std::string_view_literals;

/// The lines of docs/models.md, "Weights from other programs". Each is run with the file and the new file behind it.
constexpr std::string_view kFromTorch =
    "import sys, torch; from safetensors.torch import save_file; d = torch.load(sys.argv[1], map_location='cpu'); "
    "d = d.get('model', d.get('state_dict', d)); "
    "save_file({k: v.clone().contiguous() for k, v in d.items() if torch.is_tensor(v)}, sys.argv[2])";
constexpr std::string_view kFromNumpy =
    "import sys, numpy; from safetensors.numpy import save_file; "
    "save_file({k: numpy.array(v, order='C') for k, v in numpy.load(sys.argv[1]).items()}, sys.argv[2])";
constexpr std::string_view kFromHdf5 =
    "import sys, h5py; from safetensors.numpy import save_file; d = {}; h5py.File(sys.argv[1]).visititems("
    "lambda k, v: d.update({k: v[()]}) if isinstance(v, h5py.Dataset) else None); save_file(d, sys.argv[2])";
constexpr std::string_view kFromGguf =
    "import sys, os; from transformers import AutoModelForCausalLM as M; p = os.path.abspath(sys.argv[1]); "
    "M.from_pretrained(os.path.dirname(p), gguf_file=os.path.basename(p)).save_pretrained(sys.argv[2])";

std::string converted_by(std::string_view line, const std::string& path, const char* ending) {
  std::string to = std::filesystem::path(path).replace_extension(ending).string();
  if (to == path) to += "-converted";
  return concat("Convert it: python3 -c \"", line, "\" ", shell_word(path), " ", shell_word(to));
}

/// The name of the first file in a zip archive.
std::string first_name(std::string_view zip) {
  if (zip.size() < 30) return "";
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(zip[i])); };
  return std::string(zip.substr(30, byte(26) + 256 * byte(27)));
}

std::string about_zip(std::string_view zip, const std::string& path) {
  if (first_name(zip).ends_with(".npy"))
    return concat(path, " is an .npz file of NumPy. ", converted_by(kFromNumpy, path, ".safetensors"));
  if (first_name(zip).find(".pkl") != std::string::npos)
    return concat(path, " is a file of PyTorch, which only Python reads. ",
                  converted_by(kFromTorch, path, ".safetensors"));
  return path + " is a zip archive. Unpack it, and name the safetensors file or folder that is in it.";
}

}  // namespace

std::string about_foreign_file(const std::string& path) {
  std::string head(300, '\0');
  {
    const RandomAccessFile file(path);
    head.resize(std::min<std::uint64_t>(head.size(), file.size()));
    file.read(0, head.size(), head.data());
  }
  const std::size_t text = head.find_first_not_of(" \t\r\n");
  const auto begins = [&](std::string_view with) { return std::string_view(head).starts_with(with); };
  // The length of a header, of which the upper half is zero, and its JSON: whatever its first bytes spell besides.
  if (head.size() > 8 && head.compare(4, 5, "\0\0\0\0{"sv) == 0) return "";
  if (begins("PK\3\4")) return about_zip(head, path);
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return concat(path, " is a pickle, as PyTorch once wrote, and only Python reads it. ",
                  converted_by(kFromTorch, path, ".safetensors"));
  if (begins("GGUF"))
    return concat(path, " is a GGUF file, whose names and types are llama.cpp's. ", converted_by(kFromGguf, path, ""));
  if (begins("\x89HDF\r\n\x1a\n"))
    return concat(path,
                  " is an HDF5 file, as Keras writes, with names and orders of its own, which are to be changed. ",
                  converted_by(kFromHdf5, path, ".safetensors"));
  if (begins("\x93NUMPY")) return path + " is one array of NumPy without a name. Weights are a safetensors file.";
  if (begins("version https://git-lfs"))
    return path + " is a pointer of Git LFS to the file, not the file. Fetch it: git lfs pull";
  if (text != std::string::npos && head[text] == '<')
    return path + " is a page of the web that was saved instead of the file. Fetch the file itself.";
  return "";
}

}  // namespace laconic
