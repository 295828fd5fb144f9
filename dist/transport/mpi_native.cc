#include "dist/transport/mpi_native.h"

#include <limits>
#include <vector>

#include "core/error.h"

namespace laconic::dist {
namespace {

const std::vector<std::string> kAlgorithms = {"",     "basic_linear",   "nonoverlapping", "recursive_doubling",
                                              "ring", "segmented_ring", "rabenseifner"};  // by Open MPI's numbers

/// An integer parameter of Open MPI. Communicators that are made keep to the values that hold then.
class Setting {
 public:
  explicit Setting(const char* name) {
    int provided = 0, index = 0, count = 0;
    if (MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) return;
    if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS) MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &count);
  }
  ~Setting() {
    if (handle_ != MPI_T_CVAR_HANDLE_NULL) MPI_T_cvar_handle_free(&handle_);
    MPI_T_finalize();
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

  /// 0 if there is no such parameter.
  int value() const {
    int value = 0;  // Open MPI writes one byte of it if the parameter is a boolean
    if (handle_ != MPI_T_CVAR_HANDLE_NULL) MPI_T_cvar_read(handle_, &value);
    return value;
  }
  bool set(int value) { return handle_ != MPI_T_CVAR_HANDLE_NULL && MPI_T_cvar_write(handle_, &value) == MPI_SUCCESS; }

 private:
  MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
};

}  // namespace

MpiNative::~MpiNative() {
  for (auto& [number, slot] : slots_) MPI_Comm_free(&slot.comm);
}

void MpiNative::prepare(int first, int count, const std::string& algorithm) {
  const std::string kBlocking = "blocking:";
  const bool blocking = algorithm == "blocking" || algorithm.rfind(kBlocking, 0) == 0;
  const std::string name = algorithm.rfind(kBlocking, 0) == 0 ? algorithm.substr(kBlocking.size()) : "";
  std::size_t number = 0;
  while (number < kAlgorithms.size() && kAlgorithms[number] != name) ++number;
  require<UsageError>((blocking || algorithm.empty()) && number < kAlgorithms.size(), "allreduce mpi: there is no ",
                      algorithm,
                      ". Open MPI has blocking, and blocking:A with A basic_linear, nonoverlapping, "
                      "recursive_doubling, ring, segmented_ring or rabenseifner.");
  const auto duplicate = [&] {
    for (int i = first; i < first + count; ++i) {
      Slot& slot = slots_[i];
      if (slot.comm != MPI_COMM_NULL) MPI_Comm_free(&slot.comm);
      check_mpi(MPI_Comm_dup(base_, &slot.comm), "MPI_Comm_dup");
      slot.blocking = blocking;
    }
  };
  if (number == 0) return duplicate();
  const Setting rules("coll_tuned_use_dynamic_rules");
  Setting choice("coll_tuned_allreduce_algorithm");
  const int before = choice.value();
  require<UsageError>(rules.value() != 0 && choice.set(static_cast<int>(number)),
                      "allreduce mpi: Open MPI lets its algorithm be chosen (", algorithm,
                      ") only if it was told so when it started: laconic launch --mca coll_tuned_use_dynamic_rules 1.");
  duplicate();
  choice.set(before);
}

MPI_Request MpiNative::start(Request& request) {
  if (request.slot == 0 && !slots_.contains(0)) prepare(0, 1, "");  // operations of slot 0 come in one order
  const auto found = slots_.find(request.slot);
  require<UsageError>(found != slots_.end(), "allreduce mpi: slot ", request.slot,
                      " was not prepared. Call prepare_native on all ranks first.");
  const std::size_t count = request.size / sizeof(float);
  require<CommError>(count <= static_cast<std::size_t>(std::numeric_limits<int>::max()), "mpi: an allreduce of ", count,
                     " elements is above MPI's 2^31. Use --allreduce ring.");
  require<CommError>(request.device == kCpu, "mpi: memory on ", request.device, " does not travel. Use --device cpu.");
  MPI_Request handle = MPI_REQUEST_NULL;
  const Slot& slot = found->second;
  const int elements = static_cast<int>(count);
  if (slot.blocking) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, request.data, elements, MPI_FLOAT, MPI_SUM, slot.comm), "MPI_Allreduce");
    request.complete(request.size);
  } else {
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, request.data, elements, MPI_FLOAT, MPI_SUM, slot.comm, &handle),
              "MPI_Iallreduce");
  }
  return handle;
}

}  // namespace laconic::dist
