#pragma once
#include <string>
#include <vector>

// What `laconic NAME` does for most names: see their --help. Each returns the exit code, and throws Error.
namespace laconic {

int list_models(const std::vector<std::string>& arguments);         ///< laconic models
int codec(const std::vector<std::string>& arguments);               ///< laconic codec
int pack(const std::vector<std::string>& arguments);                ///< laconic pack
int inspect(const std::vector<std::string>& arguments);             ///< laconic inspect WHAT
int inspect_codec(const std::vector<std::string>& arguments);       ///< laconic inspect codec
int inspect_checkpoint(const std::vector<std::string>& arguments);  ///< laconic inspect checkpoint
int inspect_flight(const std::vector<std::string>& arguments);      ///< laconic inspect flight
int inspect_trace(const std::vector<std::string>& arguments);       ///< laconic inspect trace
int simulate(const std::vector<std::string>& arguments);            ///< laconic simulate
int calibrate(const std::vector<std::string>& arguments);           ///< laconic calibrate
int chaos(const std::vector<std::string>& arguments);               ///< laconic chaos
int doctor(const std::vector<std::string>& arguments);              ///< laconic doctor
int explain(const std::vector<std::string>& arguments);             ///< laconic explain
int reproduce(const std::vector<std::string>& arguments);           ///< laconic reproduce
int report(const std::vector<std::string>& arguments);              ///< laconic report
int plot(const std::vector<std::string>& arguments);                ///< laconic plot WHAT

}  // namespace laconic
