#include "dist/cuda/grouped_communicator.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace laconic::dist {
namespace {

class GroupedCommunicator final : public Communicator {
 public:
  GroupedCommunicator(Nccl& nccl, Communicator& of) : nccl_(nccl), of_(of) {}
  ~GroupedCommunicator() override { cancel(); }

  int rank() const override { return nccl_.rank(); }
  int size() const override { return nccl_.size(); }
  Transfer send(int to, Slice<const std::byte> bytes) override {
    // A request describes both directions; the memory of a send is only read.
    return post(Request::Kind::send, to, {const_cast<std::byte*>(bytes.data()), bytes.size(), bytes.device()});
  }
  Transfer recv(int from, Slice<std::byte> bytes) override { return post(Request::Kind::recv, from, bytes); }
  std::unique_ptr<Communicator> subgroup(std::span<const int>) override {
    throw UsageError("NCCL joins all ranks, and no group of them (--allreduce nccl): take --allreduce ring");
  }
  std::unique_ptr<Communicator> channel(int) override {
    throw UsageError("messages by NCCL have one order, and no channels (--allreduce nccl): take --allreduce ring");
  }
  void count_buffer(std::ptrdiff_t bytes) override { of_.count_buffer(bytes); }

  void end(std::exception_ptr error) override {
    ended_ = error;
    for (Request* request : std::exchange(waiting_, {})) request->complete(0, error);
  }
  void cancel() override {
    waiting_.clear();
    while (!pool_.live().empty()) pool_.give_back(*pool_.live().back());
  }

  /// All that waits, in one exchange; false if nothing does.
  bool flush() {
    if (waiting_.empty()) return false;
    const std::vector<Request*> requests = std::exchange(waiting_, {});
    std::vector<Nccl::Outgoing> out;
    std::vector<Nccl::Incoming> in;
    for (const Request* r : requests) {
      const Slice<std::byte> memory(r->data, r->size, r->device);
      if (r->kind == Request::Kind::send)
        out.push_back({r->peer, memory});
      else
        in.push_back({r->peer, memory});
    }
    nccl_.exchange(out, in);
    auto came = in.begin();
    for (Request* r : requests) r->complete(r->kind == Request::Kind::send ? r->size : came++->came);
    return true;
  }

 private:
  Transfer post(Request::Kind kind, int peer, Slice<std::byte> memory) {
    require<CommError>(peer >= 0 && peer < size() && peer != rank(), "communicator: rank ", rank(), " of ", size(),
                       " was asked to talk to rank ", peer, " by NCCL.");
    require<Error>(memory.empty() || memory.device() == nccl_.device(), "communicator: memory on ", memory.device(),
                   " cannot travel by NCCL, which is on ", nccl_.device(), ".");
    Request& request = pool_.take(kind, peer, 0, memory);
    if (ended_)
      request.complete(0, ended_);
    else
      waiting_.push_back(&request);
    return Transfer(request);
  }

  Nccl& nccl_;
  Communicator& of_;
  RequestPool pool_;
  std::vector<Request*> waiting_;  // for the next exchange
  std::exception_ptr ended_;
};

}  // namespace

void run_grouped(Nccl& nccl, Communicator& of, const std::function<Task<>(Communicator&)>& collective) {
  try {
    Scheduler here;
    GroupedCommunicator comm(nccl, of);
    Task<> task = collective(comm);
    task.start(here);
    do here.run();
    while (comm.flush());
    require<Error>(task.done(), "communicator: a collective by NCCL waits for no message.");
    task.result();
  } catch (...) {
    nccl.stop();  // other ranks are in the middle of it
    throw;
  }
}

}  // namespace laconic::dist
