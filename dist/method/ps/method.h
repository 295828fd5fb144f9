#pragma once
#include "dist/method/method.h"
#include "dist/method/ps/ps_sync.h"

namespace laconic::dist {

/// The base of all methods with parameter servers: codecs on both ways, groups, servers that are workers too. Unless a
/// derived class makes other halves all gradients go up, and all parameters down.
class ServedMethod : public Method {
 public:
  Traits traits() const override {
    return {.servers = true, .workers_update = false, .codec = true, .limits_norm = true};
  }
  void settings(Settings& settings) override;
  void check(const TrainingFacts& facts) const override;
  std::optional<Refusal> refuses(const std::string& setting) const override;
  std::unique_ptr<Strategy> worker(WorkerSide side) const final;
  std::unique_ptr<ParameterServer> server(ServerSide side) const final;
  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                       const TrainingFacts& facts) const override;
  LedgerForm ledger() const override;
  std::string describe(const TrainingFacts& facts) const override;

  /// How both ways travel with this codec: what weights bear both ways (Quant-DP), else gradients alone (INCEPTIONN's
  /// worker-aggregator with compression); with feedback both ways, since what goes down then are differences. Nothing
  /// is fed back of a codec that loses nothing, or of weights that are truncated.
  /// throws UsageError if the codec or feedback makes no sense here
  virtual Legs legs(const std::string& codec, bool feedback, std::uint64_t seed) const;

  /// Make the two halves. `options` hold the part that all these methods have in common.
  virtual std::unique_ptr<PsSync> make_worker(WorkerSide side, PsSync::Options options) const;
  virtual std::unique_ptr<ParameterServer> make_server(ServerSide side, ParameterServer::Options options) const;

  int local_aggregate = 1;  ///< workers of a group, of which one talks to servers
  int truncate_weights = 0;  ///< low bits that parameters lose on their way down; 0: none

 protected:
  static void begin_group(Settings& settings) {
    settings.group("Parameter servers (`sync` ps, layerdrop, slimdp)", Scope::exchange);
  }
  void add_truncation(Settings& settings);
  /// Columns of the ledgers of these methods. Bytes are those between rank 0 and servers.
  static constexpr LedgerColumn kSent{"sent", nullptr, LedgerColumn::Unit::number,
                                      [](const LedgerRow& r) { return r.sent; }};
  static constexpr LedgerColumn kUp{"bytes", "up", LedgerColumn::Unit::bytes,
                                    [](const LedgerRow& r) { return r.bytes; }};
  static constexpr LedgerColumn kDown{"bytes_down", "down", LedgerColumn::Unit::bytes,
                                      [](const LedgerRow& r) { return r.bytes_down; }};
  static constexpr LedgerColumn exchanges_as(const char* head) {
    return {"exchanges", head, LedgerColumn::Unit::count,
            [](const LedgerRow& r) { return static_cast<double>(r.exchanges); }};
  }
  /// Bytes that a round of one bucket costs one worker and its server, up and down.
  virtual std::optional<double> bytes_of_round(const Bucket& bucket, const Legs& legs) const;
};

}  // namespace laconic::dist
