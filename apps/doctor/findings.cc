#include "apps/doctor/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "apps/common/machine.h"
#include "apps/common/text.h"
#include "apps/launch/mpirun.h"
#include "core/base/cores.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace laconic {
namespace {

using Verdict = Finding::Verdict;
namespace fs = std::filesystem;

std::string line_of(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code not_there;
  for (const auto& entry : fs::directory_iterator(folder, not_there)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

/// Each function makes the findings of one topic.
class Examination {
 public:
  explicit Examination(const Surroundings& here) : here_(here) {}
  std::vector<Finding> take() { return std::move(all_); }

  void build() {
    good("build", here_.version.substr(0, here_.version.find('\n')));
    if (here_.sanitized) slow("build", "a sanitizer checks every access", "meson configure BUILD -Db_sanitize=none");
    if (!here_.optimised) slow("build", "not built as a release", "meson configure BUILD --buildtype=release");
    if (here_.onednn_openmp)
      good("oneDNN", here_.onednn + ", on OpenMP's threads");
    else
      slow("oneDNN", here_.onednn + " does not compute on OpenMP's threads, so --threads is nothing to it",
           "take Debian's libdnnl-dev, or build oneDNN with DNNL_CPU_RUNTIME=OMP");
  }

  void libraries() {
    std::vector<std::string> there;
    for (const char* name : {"libjpeg-turbo", "libarchive", "Snappy", "LZ4", "zfp"})
      if (!lacks(name)) there.push_back(name);
    if (!there.empty()) good("libraries", join(there, ", "));
    if (lacks("libjpeg-turbo"))
      slow("libraries", "no libjpeg-turbo: stb_image decodes photographs, which is slower",
           "apt-get install libjpeg62-turbo-dev, and build again");
  }

  void processor() {
    const std::string cpuinfo = here_.root + "/proc/cpuinfo", model = field_of(cpuinfo, "model name");
    const std::vector<std::string> words = split(field_of(cpuinfo, "flags"), ' ');
    const std::set<std::string> flags(words.begin(), words.end());
    const auto has = [&](std::initializer_list<const char*> all) {
      return std::ranges::all_of(all, [&](const char* flag) { return flags.contains(flag); });
    };
    const bool avx2 = has({"avx2", "fma", "bmi1", "bmi2"});
    const bool avx512 = avx2 && has({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
    good("processor", (model.empty() ? "unknown" : model) + (avx512 ? ", AVX-512" : avx2 ? ", AVX2" : ""));
  }

  void cores() {
    const Cores mine = cores_of_process(here_.root);
    const int cores = static_cast<int>(mine.allowed.size());
    if (cores < mine.online)
      slow("cores", fmt::format("{} of {} may be used", cores, mine.online),
           "whoever started this chose them: taskset, mpirun's binding, docker --cpuset-cpus, Slurm --cpus-per-task");
    else
      good("cores", fmt::format("{}, all may be used", cores));
    if (mine.quota > 0 && mine.quota < cores)
      slow("cores",
           fmt::format("a control group leaves the time of {:.3g} of {} cores: workers share {}", mine.quota, cores,
                       plural(mine.usable(), "thread")),
           "give it more (docker --cpus)");
    double load = 0;
    std::ifstream(here_.root + "/proc/loadavg") >> load;
    if (load > 0.5 * cores)
      slow("cores",
           fmt::format("other programs take them: {:.3g} threads wanted {} in the last minute", load,
                       plural(cores, "core")),
           "let them end first; `top` shows them");
    governor();
    threads(cores);
  }

  void memory() {
    if (const std::uint64_t bytes = memory_available(here_.root); bytes > 0)
      good("memory", human_bytes(static_cast<double>(bytes)) + " can be had");
  }

  void shared_memory() {
    const std::uint64_t bytes = here_.free_bytes(here_.root + "/dev/shm");
    const char* const mend = "mount -o remount,size=1g /dev/shm, or docker run --shm-size=1g";
    const std::string size = human_bytes(static_cast<double>(bytes)) + " free";
    if (bytes == 0)
      broken("/dev/shm", "not there, or full: processes cannot talk through shared memory", mend);
    else if (bytes < 100'000'000)
      missing("/dev/shm", size + ": many processes will not find room in it", mend);
    else
      good("/dev/shm", size);
  }

  void network() {
    const std::string all = here_.root + "/sys/class/net/";
    std::vector<std::string> up;
    for (const std::string& name : names_in(all)) {
      const std::string state = line_of(all + name + "/operstate");
      if (name == "lo" || state == "down") continue;
      const int mbit = std::atoi(line_of(all + name + "/speed").c_str());  // -1, or no number: it does not say
      up.push_back(mbit > 0 ? fmt::format("{} {:g} Gbit/s", name, mbit / 1000.0) : name + " (it tells no speed)");
    }
    if (!up.empty()) good("network", join(up, ", "));
  }

  void gpus() {
    const auto names = names_in(here_.root + "/sys/bus/pci/devices");
    const auto is_gpu = [&](const std::string& device) {
      const std::string folder = here_.root + "/sys/bus/pci/devices/" + device;
      return line_of(folder + "/vendor") == "0x10de" && line_of(folder + "/class").starts_with("0x03");
    };
    const auto count = std::ranges::count_if(names, is_gpu);
    std::smatch number;
    const std::string kernel_module = line_of(here_.root + "/proc/driver/nvidia/version");
    const std::string driver =
        std::regex_search(kernel_module, number, std::regex("\\b[0-9]+(\\.[0-9]+)+\\b")) ? number.str() : "";
    const std::string said = plural(std::max<std::int64_t>(count, static_cast<std::int64_t>(here_.gpus.size())), "GPU");
    if (!here_.gpus.empty()) {
      good("GPUs", join(here_.gpus, ", ") + (driver.empty() ? "" : "; driver " + driver));
      if (!here_.nccl.empty())
        good("NCCL", here_.nccl);
      else
        missing("NCCL", "not found: there is no --allreduce nccl", "apt-get install libnccl2");
    } else if (count == 0 && driver.empty()) {
      good("GPUs", "none of NVIDIA's");
    } else if (driver.empty()) {
      missing("GPUs", said + " of NVIDIA without its driver", "apt-get install nvidia-driver");
    } else if (!here_.cuda_built) {
      missing("GPUs", said + " with driver " + driver + ", and this build has no CUDA",
              "install nvcc, cuDNN and NCCL, and build again (docs/cuda.md)");
    } else {
      broken("GPUs", said + " with driver " + driver + ", which cannot be used: " + here_.why_no_gpu,
             "see whether nvidia-smi runs, and docs/cuda.md");
    }
  }

  void processes(const std::vector<std::string>& hosts, bool under_mpirun) {
    if (lacks("Open MPI")) {
      missing("Open MPI", "not in this build: it trains with threads of one process alone",
              "apt-get install libopenmpi-dev openmpi-bin, and build again");
      return;
    }
    const Mpirun mpirun = choose_mpirun(here_.mpiruns, here_.mpi, here_.run);
    if (mpirun.path.empty()) {
      missing("Open MPI", "there is no mpirun, so no laconic launch", "apt-get install openmpi-bin");
      return;
    }
    if (!mpirun.why.empty()) {
      broken("Open MPI", mpirun.why, "put the mpirun of that first in PATH, or apt-get install openmpi-bin");
      return;
    }
    const bool refuses_root = here_.root_user && here_.environment("OMPI_ALLOW_RUN_AS_ROOT").empty();
    good("Open MPI", mpirun.name + (mpirun.path == "mpirun" ? "" : ", " + mpirun.path) +
                         (refuses_root ? "; it refuses root, whom laconic launch lets in" : ""));
    if (!here_.single_copy)
      slow("Open MPI", "the kernel refuses process_vm_readv: ranks on this machine copy each message twice",
           "in a container: docker run --cap-add SYS_PTRACE; elsewhere see kernel.yama.ptrace_scope");
    if (under_mpirun) return;
    bool all_answer = true;
    for (const std::string& host : hosts) all_answer &= reaches(host);
    if (!all_answer) return;
    std::vector<std::string> mca;
    if (hosts.size() > 1 && !here_.laconic.empty()) {
      NetworkFindings between = judged(here_.network(hosts));
      all_.insert(all_.end(), between.all.begin(), between.all.end());
      mca = std::move(between.mca);
      // They would not meet, or not end: what is said of the network is why.
      if (mca.empty() && std::ranges::count(between.all, Verdict::broken, &Finding::verdict) > 0) return;
    }
    two_ranks(hosts, mca);
  }

 private:
  void add(Verdict verdict, const std::string& topic, const std::string& found, const std::string& mend = "") {
    all_.push_back({verdict, topic, found, mend});
  }
  void good(const std::string& topic, const std::string& found) { add(Verdict::good, topic, found); }
  void slow(const std::string& topic, const std::string& found, const std::string& mend) {
    add(Verdict::slow, topic, found, mend);
  }
  void missing(const std::string& topic, const std::string& found, const std::string& mend) {
    add(Verdict::missing, topic, found, mend);
  }
  void broken(const std::string& topic, const std::string& found, const std::string& mend) {
    add(Verdict::broken, topic, found, mend);
  }
  bool lacks(const std::string& name) const { return std::ranges::find(here_.without, name) != here_.without.end(); }

  void governor() {
    const std::string folder = here_.root + "/sys/devices/system/cpu/cpu0/cpufreq/";
    const std::string is = line_of(folder + "scaling_governor"), driver = line_of(folder + "scaling_driver");
    if (is.empty()) return;
    // To these drivers the word means: as much as is needed. Another file tells what they prefer.
    const bool chooses = driver == "intel_pstate" || driver == "amd-pstate-epp";
    if (chooses && line_of(folder + "energy_performance_preference") == "power")
      slow("cores", "the processor prefers to save power",
           "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference");
    else if (is == "powersave" && !chooses)
      slow("cores", "the governor is powersave: the clock stays at its lowest",
           "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor");
    else
      good("cores", "governor " + is);
  }

  /// What OpenMP reads of the environment, as far as it is more than --threads.
  void threads(int cores) {
    std::string wait = here_.environment("OMP_WAIT_POLICY");
    for (char& c : wait) c = static_cast<char>(std::tolower(c));
    if (wait == "active")
      slow("threads", "OMP_WAIT_POLICY=active is set: threads that wait take cores from those that compute",
           "unset OMP_WAIT_POLICY");
    std::string bound = here_.environment("OMP_PROC_BIND");
    for (char& c : bound) c = static_cast<char>(std::tolower(c));
    for (const char* name : {"OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "OMP_PLACES", "KMP_AFFINITY"})
      if (const std::string value = here_.environment(name); !value.empty() && bound != "false")
        slow("threads", fmt::format("{}={} is set: workers that are threads may all be bound to one core", name, value),
             fmt::format("unset {}", name));
    if (const int most = std::atoi(here_.environment("OMP_THREAD_LIMIT").c_str()); most > 0 && most < cores)
      slow("threads", fmt::format("{} and OMP_THREAD_LIMIT={} is set", plural(cores, "core"), most),
           "unset OMP_THREAD_LIMIT");
  }

  /// Whether mpirun could start ranks there that fit ours.
  bool reaches(const std::string& host) {
    const CommandResult ssh = here_.run(over_ssh(host, shell_word(here_.laconic) + " --version"));
    if (ssh.code == CommandResult::kNotStarted)
      broken(host, "there is no ssh here, by which mpirun starts ranks on other machines",
             "apt-get install openssh-client");
    else if (ssh.code == 126 || ssh.code == 127)
      broken(host, "answers, and has no " + here_.laconic,
             "let the programs lie at the same path there (docs/clusters.md)");
    else if (ssh.code != 0)
      broken(host, "ssh cannot reach it" + (ssh.why.empty() ? "" : " (" + ssh.why + ")"),
             "ssh-copy-id " + host + ", until `ssh " + host + " true` asks nothing (docs/clusters.md)");
    else if (ssh.out != here_.version)
      broken(host, "has another build of laconic", "copy this one: rsync -a (docs/clusters.md)");
    else
      good(host, "answers, and has the same laconic");
    return all_.back().verdict == Verdict::good;
  }

  /// A training of two steps, with these settings of Open MPI.
  void two_ranks(const std::vector<std::string>& hosts, const std::vector<std::string>& mca) {
    if (here_.laconic.empty()) return;
    const std::size_t ranks = std::max<std::size_t>(2, hosts.size());
    std::vector<std::string> command{here_.laconic, "launch", "-n", std::to_string(ranks)};
    if (!hosts.empty()) command.insert(command.end(), {"--hosts", join(hosts, ",")});
    command.insert(command.end(), mca.begin(), mca.end());
    command.insert(command.end(), {"mnist", "--data", "synthetic:80,20", "--batch", "4", "--steps", "2", "--threads",
                                   "1", "--timeout", "20", "--quiet", "--json"});
    const CommandResult training = here_.run(command);
    const std::string who = fmt::format("{} ranks", ranks);
    const nlohmann::json result = json_or_discarded(training.out);  // of two that train alone: two objects, so none
    const std::size_t met = result.is_object() ? result.value("workers", std::size_t{0}) : 1;
    if (training.code == 0 && met != ranks)
      broken("mpirun", fmt::format("of {} that were started {} trained together", who, met),
             "see what this says: " + shell_line(command));
    else if (training.code == 0)
      good("mpirun", who + " train together" + (hosts.empty() ? "" : " on " + join(hosts, ", ")) +
                         (mca.empty() ? "" : ", with " + join(mca, " ")));
    else if (training.code == 2)  // nothing was started
      missing("mpirun", "not tried: " + training.why, "build apps/mnist");
    else
      broken("mpirun",
             who + " cannot train together: " +
                 (training.code == CommandResult::kEndless ? "they do not end" : training.why),
             "see what this says: " + shell_line(command));
  }

  const Surroundings& here_;
  std::vector<Finding> all_;
};

}  // namespace

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::good:
      return "ok";
    case Verdict::missing:
      return "missing";
    case Verdict::slow:
      return "slow";
    default:
      return "broken";
  }
}

std::vector<Finding> findings(const Surroundings& here, const std::vector<std::string>& hosts, bool under_mpirun) {
  Examination examination(here);
  examination.build();
  examination.libraries();
  examination.processor();
  examination.cores();
  examination.memory();
  examination.shared_memory();
  examination.gpus();
  examination.network();
  examination.processes(hosts, under_mpirun);
  return examination.take();
}

}  // namespace laconic
