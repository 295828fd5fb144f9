#include "apps/bench/allreduce.h"

#define OMPI_SKIP_MPICXX 1  // the old C++ interface does not pass -Wextra
#include <mpi.h>

#include <algorithm>
#include <iterator>

#include "core/base/error.h"

namespace laconic {
namespace {

constexpr const char* kAlgorithms[] = {"",     "basic_linear",   "nonoverlapping", "recursive_doubling",
                                       "ring", "segmented_ring", "rabenseifner"};  // by Open MPI's numbers

void check_mpi(int code, const char* call) { require<CommError>(code == MPI_SUCCESS, "mpi: ", call, " failed."); }

/// An integer parameter of Open MPI. A communicator keeps to the values that hold when it is made.
class OpenMpiParameter {
 public:
  explicit OpenMpiParameter(const char* name) {
    int provided = 0, index = 0, count = 0;
    if (MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) return;
    if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS) MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &count);
  }
  ~OpenMpiParameter() {
    if (handle_ != MPI_T_CVAR_HANDLE_NULL) MPI_T_cvar_handle_free(&handle_);
    MPI_T_finalize();
  }
  OpenMpiParameter(const OpenMpiParameter&) = delete;
  OpenMpiParameter& operator=(const OpenMpiParameter&) = delete;

  /// Returns 0 if there is no such parameter.
  int value() const {
    int value = 0;  // Open MPI writes one byte of it if the parameter is a boolean
    if (handle_ != MPI_T_CVAR_HANDLE_NULL) MPI_T_cvar_read(handle_, &value);
    return value;
  }
  bool set(int value) { return handle_ != MPI_T_CVAR_HANDLE_NULL && MPI_T_cvar_write(handle_, &value) == MPI_SUCCESS; }

 private:
  MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
};

class OpenMpiSums final : public MpiSums {
 public:
  explicit OpenMpiSums(const std::string& algorithm) : blocking_(algorithm != "nonblocking") {
    const std::string name = blocking_ ? algorithm : "";
    const auto found = std::find(std::begin(kAlgorithms), std::end(kAlgorithms), name);
    require<UsageError>(found != std::end(kAlgorithms), "MPI has no allreduce '", name,
                        "' (--algorithms): there are mpi, mpi:nonblocking, and mpi:A with A basic_linear, "
                        "nonoverlapping, recursive_doubling, ring, segmented_ring or rabenseifner");
    const auto number = static_cast<int>(found - std::begin(kAlgorithms));
    const OpenMpiParameter rules("coll_tuned_use_dynamic_rules");
    OpenMpiParameter choice("coll_tuned_allreduce_algorithm");
    const int before = choice.value();
    require<UsageError>(number == 0 || (rules.value() != 0 && choice.set(number)), "Open MPI lets its algorithm ", name,
                        " be chosen only if it was told so when it started (--algorithms): add --mca "
                        "coll_tuned_use_dynamic_rules 1 to laconic launch");
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    if (number != 0) choice.set(before);
  }

  void sum(Slice<float> x) override {
    const auto count = static_cast<int>(x.size());
    if (blocking_) {
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, x.data(), count, MPI_FLOAT, MPI_SUM, comm_), "MPI_Allreduce");
      return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, x.data(), count, MPI_FLOAT, MPI_SUM, comm_, &request), "MPI_Iallreduce");
    check_mpi(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
  }

 private:
  const bool blocking_;
  MPI_Comm comm_ = MPI_COMM_NULL;  // until the process ends
};

}  // namespace

std::unique_ptr<MpiSums> make_mpi_sums(const std::string& algorithm) { return std::make_unique<OpenMpiSums>(algorithm); }

}  // namespace laconic
