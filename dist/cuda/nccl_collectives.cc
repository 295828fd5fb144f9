#include "dist/cuda/nccl_collectives.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/stream.h"

namespace laconic::dist {
namespace {

class GroupedEndpoint final : public Endpoint {
 public:
  GroupedEndpoint(Nccl& nccl, Endpoint& of) : nccl_(nccl), of_(of) {}
  ~GroupedEndpoint() override { cancel(); }

  int rank() const override { return nccl_.rank(); }
  int size() const override { return nccl_.size(); }
  void count_buffer(std::ptrdiff_t bytes) override { of_.count_buffer(bytes); }

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
  Transfer post(Request::Kind kind, int peer, Slice<std::byte> memory) override {
    require<CommError>(peer >= 0 && peer < size() && peer != rank(), "communicator: rank ", rank(), " of ", size(),
                       " was asked to talk to rank ", peer, " by NCCL.");
    require<Error>(memory.empty() || memory.device() == nccl_.device(), "communicator: memory on ", memory.device(),
                   " cannot travel by NCCL, which is on ", nccl_.device(), ".");
    Request& request = pool_.take(kind, peer, 0, memory);
    waiting_.push_back(&request);
    return Transfer(request);
  }

  Nccl& nccl_;
  Endpoint& of_;
  RequestPool pool_;
  std::vector<Request*> waiting_;  // requests of the next exchange
};

}  // namespace

void run_grouped(Nccl& nccl, Endpoint& of, const std::function<Task<>(Endpoint&)>& collective) {
  try {
    Scheduler here;
    GroupedEndpoint comm(nccl, of);
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

void nccl_allgather(Nccl& nccl, Slice<const std::byte> mine, std::size_t most_bytes, Gathered& all) {
  constexpr std::size_t kAligned = 16;
  const int N = nccl.size(), r = nccl.rank();
  require<UsageError>(mine.size() <= most_bytes, "nccl_allgather: rank ", r, " gives ", mine.size(), " bytes where ",
                      most_bytes, " are the most. Raise most_bytes on all ranks.");
  require<Error>(all.device() == nccl.device(), "nccl_allgather: what comes is to lie on ", all.device(),
                 ", and NCCL is on ", nccl.device(), ".");
  const std::size_t stride = (most_bytes + kAligned - 1) / kAligned * kAligned;
  const Slice<std::byte> room = all.reset(N, stride);
  const auto place = [&](int rank) { return static_cast<std::size_t>(rank) * stride; };
  std::vector<Nccl::Outgoing> out;
  std::vector<Nccl::Incoming> in;
  for (int s = 1; s < N; ++s) {
    const int to = (r + s) % N, from = (r + N - s) % N;
    out.push_back({to, mine});
    in.push_back({from, room.sub(place(from), most_bytes)});
  }
  nccl.exchange(out, in);
  for (const Nccl::Incoming& part : in) all.note(part.from, place(part.from), part.came);
  copy_bytes(room.data() + place(r), all.device(), mine.data(), mine.device(), mine.size());
  all.note(r, place(r), mine.size());
}

}  // namespace laconic::dist
