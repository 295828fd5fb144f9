#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/doctor/findings.h"
#include "core/base/error.h"
#include "tests/program.h"

namespace laconic {
namespace {

using Verdict = Finding::Verdict;

/// Hosts that reach each other at 1 Gbit/s in 10.0.0.0/24, 10.0.0.1 the first, by eth0.
NetworkFacts one_network(const std::vector<std::string>& hosts) {
  NetworkFacts facts;
  for (const std::string& host : hosts)
    facts.hosts.push_back({host, {{"eth0", concat("10.0.0.", facts.hosts.size() + 1), 24, 1500}}});
  for (std::size_t i = 0; i < hosts.size(); ++i)
    for (std::size_t j = 0; j < hosts.size(); ++j)
      if (i != j) facts.passages.push_back({i, j, facts.hosts[j].interfaces[0].address, true, false, 1e9});
  return facts;
}

/// A machine that is a folder, with nothing wrong. Tests damage it.
class Patient {
 public:
  Patient() {
    tell("proc/cpuinfo",
         "processor\t: 0\nmodel name\t: Zen 5\nflags\t\t: fpu avx2 fma bmi1 bmi2 avx512f avx512bw avx512cd avx512dq "
         "avx512vl\n");
    tell("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3\n");
    tell("proc/loadavg", "0.10 0.20 0.30 1/100 5\n");
    tell("proc/meminfo", "MemAvailable: 8000000 kB\n");
    tell("sys/devices/system/cpu/online", "0-3\n");
    tell("sys/class/net/eth0/operstate", "up\n");
    tell("sys/class/net/eth0/speed", "10000\n");
    here.root = root.path();
    here.environment = [this](const char* name) { return variables.contains(name) ? variables.at(name) : ""; };
    here.run = [this](const std::vector<std::string>& command) {
      commands.push_back(command);
      return answers.contains(command[0]) ? answers.at(command[0]) : CommandResult{CommandResult::kNotStarted};
    };
    here.free_bytes = [this](const std::string&) { return shared; };
    here.network = [this](const std::vector<std::string>& hosts) { return between ? *between : one_network(hosts); };
    here.laconic = "/opt/laconic";
    here.version = "laconic 1 (commit 2)\nbuilt by g++\n";
    here.onednn = "3.1.1";
    here.mpi = "4.1.4";
    here.mpiruns = {"mpirun"};
    answers["mpirun"] = {0, "mpirun (Open MPI) 4.1.4\n"};
    answers["/opt/laconic"] = {0, "{\"workers\":2}\n"};
    answers["ssh"] = {0, here.version};
  }
  void tell(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  std::vector<Finding> examined(const std::vector<std::string>& hosts = {}, bool under_mpirun = false) {
    commands.clear();
    return findings(here, hosts, under_mpirun);
  }

  const TempFolder root;
  Surroundings here;
  std::map<std::string, std::string> variables;
  std::map<std::string, CommandResult> answers;
  std::vector<std::vector<std::string>> commands;
  std::uint64_t shared = 1 << 30;
  std::optional<NetworkFacts> between{};  // one_network if there is nothing
};

/// All that is not good, one "VERDICT TOPIC: FOUND" a line.
std::string complaints(const std::vector<Finding>& all) {
  std::string text;
  for (const Finding& f : all) {
    EXPECT_EQ(f.mend.empty(), f.verdict == Verdict::good) << f.found << ": what is wrong has a mend";
    EXPECT_EQ((f.found + f.mend).find('\n'), std::string::npos) << "one line each";
    if (f.verdict != Verdict::good) text += std::string(name_of(f.verdict)) + " " + f.topic + ": " + f.found + "\n";
  }
  return text;
}

std::string good_of(const std::vector<Finding>& all, const std::string& topic) {
  const auto f = std::ranges::find_if(all, [&](const Finding& x) { return x.topic == topic && x.mend.empty(); });
  return f == all.end() ? "nothing" : f->found;
}

TEST(Doctor, HasNothingToSayOfAHealthyMachine) {
  Patient patient;
  const auto all = patient.examined();
  EXPECT_EQ(complaints(all), "");
  EXPECT_EQ(good_of(all, "build"), "laconic 1 (commit 2)");
  EXPECT_EQ(good_of(all, "processor"), "Zen 5, AVX-512");
  EXPECT_EQ(good_of(all, "cores"), "4, all may be used");
  EXPECT_EQ(good_of(all, "network"), "eth0 10 Gbit/s");
  EXPECT_EQ(good_of(all, "Open MPI"), "Open MPI 4.1.4");
  EXPECT_EQ(good_of(all, "mpirun"), "2 ranks train together");
  EXPECT_EQ(good_of(all, "GPUs"), "none of NVIDIA's");
}

/// One change to a healthy machine, and the one complaint that follows.
struct Illness {
  const char* complaint;
  std::function<void(Patient&)> fall_ill;
};

TEST(Doctor, TellsEachIllnessAndNoOther) {
  const std::string cpu0 = "sys/devices/system/cpu/cpu0/cpufreq/";
  const auto variable = [](const char* name, const char* value) {
    return [=](Patient& p) { p.variables[name] = value; };
  };
  const auto file = [](const std::string& path, const std::string& text) {
    return [=](Patient& p) { p.tell(path, text); };
  };
  const std::vector<Illness> all = {
      {"slow build: not built as a release", [](Patient& p) { p.here.optimised = false; }},
      {"slow build: a sanitizer checks every access", [](Patient& p) { p.here.sanitized = true; }},
      {"slow oneDNN: 3.1.1 does not compute", [](Patient& p) { p.here.onednn_openmp = false; }},
      {"slow libraries: no libjpeg-turbo", [](Patient& p) { p.here.without = {"libjpeg-turbo"}; }},
      {"missing Open MPI: not in this build", [](Patient& p) { p.here.without = {"Open MPI"}; }},
      {"slow cores: 2 of 4 may be used", file("proc/self/status", "Cpus_allowed_list:\t1,3\n")},
      {"slow cores: a control group leaves the time of 1.5 of 4 cores: workers share 1 thread",
       [](Patient& p) {
         p.tell("proc/self/cgroup", "0::/box\n");
         p.tell("sys/fs/cgroup/box/cpu.max", "150000 100000\n");
       }},
      {"slow cores: other programs take them: 3.5 threads wanted 4 cores", file("proc/loadavg", "3.50 1 1 1/9 5\n")},
      {"slow cores: the governor is powersave", file(cpu0 + "scaling_governor", "powersave\n")},
      {"slow cores: the processor prefers to save power",
       [=](Patient& p) {
         p.tell(cpu0 + "scaling_governor", "powersave\n");
         p.tell(cpu0 + "scaling_driver", "intel_pstate\n");
         p.tell(cpu0 + "energy_performance_preference", "power\n");
       }},
      {"slow threads: OMP_WAIT_POLICY=active is set", variable("OMP_WAIT_POLICY", "ACTIVE")},
      {"slow threads: OMP_PLACES=cores is set", variable("OMP_PLACES", "cores")},
      {"slow threads: OMP_PROC_BIND=true is set", variable("OMP_PROC_BIND", "true")},
      {"slow threads: 4 cores and OMP_THREAD_LIMIT=2 is set", variable("OMP_THREAD_LIMIT", "2")},
      {"broken /dev/shm: not there", [](Patient& p) { p.shared = 0; }},
      {"missing /dev/shm: 67.1 MB free", [](Patient& p) { p.shared = 64 << 20; }},
      {"missing GPUs: 1 GPU of NVIDIA without its driver",
       [](Patient& p) {
         p.tell("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
         p.tell("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
         p.tell("sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n");
         p.tell("sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");  // its sound
       }},
      {"missing Open MPI: there is no mpirun", [](Patient& p) { p.answers.erase("mpirun"); }},
      {"broken Open MPI: mpirun in PATH is MPICH's Hydra 4.0.2, and this build speaks Open MPI 4.1.4",
       [](Patient& p) {
         p.answers["mpirun"] = {0, "HYDRA build details:\n    Version:      4.0.2\n"};
       }},
      {"slow Open MPI: the kernel refuses process_vm_readv", [](Patient& p) { p.here.single_copy = false; }},
      {"broken mpirun: of 2 ranks that were started 1 trained together",
       [](Patient& p) {
         p.answers["/opt/laconic"] = {0, "{\"workers\":1}\n{\"workers\":1}\n"};
       }},
      {"missing mpirun: not tried: there is no program 'mnist'",
       [](Patient& p) {
         p.answers["/opt/laconic"] = {2, "", "there is no program 'mnist'"};
       }},
      {"broken mpirun: 2 ranks cannot train together: rank 1 was lost",
       [](Patient& p) {
         p.answers["/opt/laconic"] = {3, "", "rank 1 was lost"};
       }},
      {"broken mpirun: 2 ranks cannot train together: they do not end",
       [](Patient& p) { p.answers["/opt/laconic"] = {CommandResult::kEndless}; }},
  };
  for (const Illness& illness : all) {
    Patient patient;
    illness.fall_ill(patient);
    const std::string found = complaints(patient.examined());
    EXPECT_TRUE(found.starts_with(illness.complaint)) << illness.complaint << " is not told, but: " << found;
    EXPECT_EQ(std::ranges::count(found, '\n'), 1) << found;
  }
}

TEST(Doctor, WhatIsMeantIsNoIllness) {
  Patient patient;
  const std::string cpu0 = "sys/devices/system/cpu/cpu0/cpufreq/";
  patient.tell(cpu0 + "scaling_governor", "powersave\n");
  patient.tell(cpu0 + "scaling_driver", "intel_pstate\n");  // where it means: as needed
  patient.tell("sys/class/net/eth1/operstate", "down\n");
  patient.tell("sys/class/net/eth1/speed", "10\n");
  patient.tell("sys/class/net/wifi/speed", "-1\n");
  patient.tell("proc/cpuinfo", "processor : 0\nFeatures : fp asimd\n");  // not an x86
  patient.variables = {
      {"OMP_NUM_THREADS", "1"}, {"OMP_WAIT_POLICY", "passive"}, {"OMP_PROC_BIND", "FALSE"}, {"OMP_PLACES", "cores"}};
  EXPECT_EQ(complaints(patient.examined()), "");
}

TEST(Doctor, SaysWhatRootMustKnow) {
  Patient patient;
  patient.here.root_user = true;
  EXPECT_TRUE(has(good_of(patient.examined(), "Open MPI"), "it refuses root, whom laconic launch lets in"));
  patient.variables["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
  EXPECT_FALSE(has(good_of(patient.examined(), "Open MPI"), "root"));
}

TEST(Doctor, GpusNeedADriverAndABuild) {
  Patient patient;
  patient.tell("proc/driver/nvidia/version",
               "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue\nGCC 12\n");
  EXPECT_EQ(complaints(patient.examined()), "missing GPUs: 0 GPUs with driver 535.54.03, and this build has no CUDA\n");
  patient.here.cuda_built = true, patient.here.why_no_gpu = "it is too old";
  EXPECT_EQ(complaints(patient.examined()),
            "broken GPUs: 0 GPUs with driver 535.54.03, which cannot be used: it is too old\n");
  patient.here.gpus = {"NVIDIA H200", "NVIDIA H200"};
  const auto all = patient.examined();
  EXPECT_EQ(complaints(all), "missing NCCL: not found: there is no --allreduce nccl\n");
  EXPECT_EQ(good_of(all, "GPUs"), "NVIDIA H200, NVIDIA H200; driver 535.54.03");
  patient.here.nccl = "2.18.3";
  EXPECT_EQ(complaints(patient.examined()), "");
}

TEST(Doctor, LooksAtTheWayToOtherMachines) {
  Patient patient;
  patient.answers["/opt/laconic"] = {0, "{\"workers\":3}\n"};
  EXPECT_EQ(good_of(patient.examined({"east", "west", "north"}), "mpirun"),
            "3 ranks train together on east, west, north");
  EXPECT_EQ(patient.commands.size(), 5u);
  const auto complaint = [&](const CommandResult& ssh) {
    patient.answers["ssh"] = ssh;
    const std::string found = complaints(patient.examined({"east"}));
    for (const auto& command : patient.commands) EXPECT_NE(command[0], "/opt/laconic") << "ranks cannot be started";
    return found;
  };
  EXPECT_EQ(complaint({255, "", "east: Permission denied (publickey)."}),
            "broken east: ssh cannot reach it (east: Permission denied (publickey).)\n");
  EXPECT_EQ(complaint({127, "", "not found"}), "broken east: answers, and has no /opt/laconic\n");
  EXPECT_EQ(complaint({0, "laconic 0\n"}), "broken east: has another build of laconic\n");
  EXPECT_TRUE(has(complaint({CommandResult::kNotStarted}), "there is no ssh here"));
}

/// Every finding that is not good, and its mend.
std::string complaints_and_mends(const NetworkFacts& facts) {
  std::string text;
  for (const Finding& f : judged(facts).all)
    if (f.verdict != Verdict::good) text += concat(name_of(f.verdict), " ", f.found, ". Mend: ", f.mend, "\n");
  return text;
}

TEST(DoctorNetwork, TellsRateAndInterfaceOfEachPair) {
  NetworkFacts facts = one_network({"east", "west", "north"});
  facts.passages[2].bits_per_second = 9.4e8;  // west to east
  std::string text;
  for (const Finding& f : judged(facts).all) text += f.found + "\n";
  EXPECT_EQ(text,
            "east to west 1 Gbit/s, back 940 Mbit/s, by eth0\neast to north 1 Gbit/s, back 1 Gbit/s, by eth0\n"
            "west to north 1 Gbit/s, back 1 Gbit/s, by eth0\n");
  EXPECT_EQ(complaints_and_mends(facts), "");
  EXPECT_TRUE(judged(facts).mca.empty());
  std::vector<std::string> many(9);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = concat("h", i);
  EXPECT_EQ(judged(one_network(many)).all.at(0).found, "9 hosts: 1 Gbit/s to 1 Gbit/s a pair by eth0");
}

TEST(DoctorNetwork, DockersBridgeIsNoNetworkOfTheHosts) {
  Patient patient;
  NetworkFacts facts = one_network({"east", "west"});
  for (auto& host : facts.hosts) host.interfaces.push_back({"docker0", "172.17.0.1", 16, 1500});
  facts.passages.push_back({0, 1, "172.17.0.1"});
  facts.passages.push_back({1, 0, "172.17.0.1"});
  patient.between = facts;
  const auto all = patient.examined({"east", "west"});
  EXPECT_EQ(
      complaints(all),
      "broken network: docker0 is 172.17.0.0/16 on east and west, who do not reach each other there: Open MPI may "
      "take it\n");
  EXPECT_EQ(good_of(all, "mpirun"),
            "2 ranks train together on east, west, with --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0");
  EXPECT_TRUE(has(complaints_and_mends(facts),
                  "Mend: laconic launch --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0\n"));
  facts.hosts[1].interfaces[0].name = "ens3";  // no name is right on both
  EXPECT_TRUE(has(complaints_and_mends(facts), "btl_tcp_if_include 10.0.0.0/24 "));
  facts.hosts[1].interfaces[0].address = "10.1.0.2";  // a router joins them: there is no right network to name
  for (Passage& p : facts.passages)
    if (p.to == 1 && p.address != "172.17.0.1") p.address = "10.1.0.2";
  EXPECT_EQ(judged(facts).mca, (std::vector<std::string>{"--mca", "btl_tcp_if_exclude", "127.0.0.0/8,172.17.0.0/16",
                                                         "--mca", "oob_tcp_if_exclude", "127.0.0.0/8,172.17.0.0/16"}));
}

TEST(DoctorNetwork, LongMessagesThatDoNotPassAreTheMtu) {
  NetworkFacts facts = one_network({"east", "west", "north"});
  for (auto& host : facts.hosts) host.interfaces[0].mtu = 9000;
  for (Passage& p : facts.passages)
    if (p.to == 1 || p.from == 1) p.stalled = true, p.bits_per_second = 0;
  EXPECT_EQ(
      complaints_and_mends(facts),
      "broken small messages pass by eth0 and long ones do not (east to west, west to east, west to north, north to "
      "west): the MTU, 9000, is more than the way takes. Mend: ip link set dev eth0 mtu 1500 on all of them, or let "
      "every switch between take 9000\n");
}

TEST(DoctorNetwork, NoRanksAreStartedWhereTheyCouldNotMeet) {
  Patient patient;
  patient.between = one_network({"east", "west"});
  patient.between->passages[0].stalled = true;
  EXPECT_EQ(std::ranges::count(complaints(patient.examined({"east", "west"})), '\n'), 1) << "the network alone";
  for (const auto& command : patient.commands) EXPECT_NE(command[0], "/opt/laconic");
}

TEST(DoctorNetwork, OfTwoNetworksTheFasterIsNamed) {
  NetworkFacts facts = one_network({"east", "west"});
  for (std::size_t i = 0; i < 2; ++i) {
    facts.hosts[i].interfaces.push_back({"ib0", concat("10.1.0.", i + 1), 24, 2044});
    facts.passages.push_back({1 - i, i, concat("10.1.0.", i + 1), true, false, 2e10});
  }
  EXPECT_EQ(complaints_and_mends(facts),
            "slow the hosts meet by eth0 and by ib0, which is faster: Open MPI takes both. Mend: laconic launch --mca "
            "btl_tcp_if_include ib0 --mca oob_tcp_if_include ib0\n");
}

TEST(DoctorNetwork, HostsThatDoNotReachEachOther) {
  NetworkFacts facts = one_network({"east", "west"});
  facts.passages[0].reached = false, facts.passages[0].bits_per_second = 0;
  EXPECT_TRUE(complaints_and_mends(facts).starts_with("broken east opens no connection to west (10.0.0.2). "));
  facts.hosts[1].interfaces.clear(), facts.passages.clear();
  EXPECT_TRUE(complaints_and_mends(facts).starts_with("broken west has no IPv4 address. "))
      << complaints_and_mends(facts);
  facts = {};
  facts.trouble = "a process there has ended";
  EXPECT_TRUE(
      complaints_and_mends(facts).starts_with("missing not measured between the hosts: a process there has ended"));
}

TEST(Doctor, StartsNoRanksFromARank) {
  Patient patient;
  EXPECT_EQ(complaints(patient.examined({}, true)), "");
  EXPECT_EQ(patient.commands.size(), 1u) << "mpirun --version alone";
}

TEST(Doctor, KnowsNothingOfAnEmptyMachine) {
  Patient patient;
  const TempFolder empty;
  patient.here.root = empty.path();
  EXPECT_EQ(complaints(patient.examined()), "");
}

TEST(Doctor, PrintsAnObject) {
  const Result json = run("laconic doctor --json");
  const auto object = nlohmann::json::parse(json.out, nullptr, false);
  ASSERT_TRUE(object.is_object()) << json.out << json.err;
  int broken = 0;
  for (const auto& f : object["findings"]) broken += f["verdict"] == "broken";
  EXPECT_EQ(object["broken"], broken);
  EXPECT_EQ(json.exit_code, broken > 0 ? 1 : 0) << json.out;
  EXPECT_EQ(std::ranges::count(json.out, '\n'), 1);
  EXPECT_EQ(run("laconic doctor --hosts a,,b").exit_code, 2);
}

TEST(Doctor, OneRankOfAMachineSpeaks) {
  const Result first = run("laconic doctor", "OMPI_COMM_WORLD_LOCAL_RANK=0"),
               second = run("laconic doctor", "OMPI_COMM_WORLD_LOCAL_RANK=1");
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_TRUE(has(first.out, "\nok       build      laconic ")) << first.out << first.err;
  EXPECT_FALSE(has(first.out, "\nok       mpirun ")) << "no ranks are started from a rank";
  EXPECT_EQ(second.exit_code, 0);
  EXPECT_EQ(second.out, "");
}

}  // namespace
}  // namespace laconic
