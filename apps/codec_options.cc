#include "apps/option_family.h"
#include "compress/codec_traits.h"

namespace laconic {
namespace {

/// What INCEPTIONN's network card knows packets to be compressed by (its section VI-B).
constexpr int kCodecTypeOfService = 0x28;

/// 0 to 255, also as 0x28; none is -1.
int type_of_service(const std::string& text, const std::string& option) {
  if (text == "none") return -1;
  const bool hex = text.rfind("0x", 0) == 0;
  int value = -1;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + (hex ? 2 : 0), end, value, hex ? 16 : 10);
  if (result.ec != std::errc() || result.ptr != end || value < 0 || value > 255)
    refuse("'" + text + "' is no type of service", option, "give a byte, as 0x28, or none");
  return value;
}

void add_codec_options(OptionAdder& add, TrainOptions& o) {
  add.group("Codecs (--sync allreduce, ps, layerdrop, slimdp)");
  add.value("--codec", "NAME",
            "what sums pass through on every hop, or what goes up to\nservers and comes down: none, fp16, bf16,\n"
            "trunc:BITS (that are cut off), inceptionn:2^E (the error\n"
            "bound), inceptionn-published:2^E, qsgd:BITS:BUCKET,\n"
            "terngrad, onebit (1-bit SGD, with feedback), snappy, lz4,\nidentity [none]",
            [&o](const std::string& text, const std::string&) { dist::set_codec(o.plan, text); });
  add.flag("--codec-feedback", o.codec_feedback, "what encoding loses is added when it encodes again");
  add.whole_number<int>("--truncate-weights", "BITS", o.server.truncate_weights, 0,
                        "low bits that parameters lose between servers and\nworkers, 1 to 31; 0: none");
  add.value(
      "--tos", "none|BYTE", "IP type of service of the packets between MPI processes\n[none; with --codec 0x28]",
      [&o](const std::string& text, const std::string& option) { o.type_of_service = type_of_service(text, option); });
}

void settle_codec_options(const CLI::App&, TrainOptions& o) {
  const bool codec = o.plan.codec != "none";
  const dist::ServerMethod* server = dist::server_method(o.sync);
  if (codec && o.sync != "allreduce" && server == nullptr)
    refuse("--sync " + o.sync + " adds up nothing that could pass through it", "--codec",
           "leave it out, or take --sync allreduce");
  if (o.server.truncate_weights > 0 && server == nullptr)
    refuse("--sync " + o.sync + " sends no weights", "--truncate-weights", "leave it out, or take --sync ps");
  if (o.server.truncate_weights > 31)
    refuse(concat("a float cannot lose ", o.server.truncate_weights, " of its 32 bits"), "--truncate-weights",
           "cut off 1 to 31, or 0 for none");
  const bool remembers = compress::traits_of(o.plan.codec).remembers;
  if (remembers && server == nullptr && dist::allreduce_text(o.plan) == "doubling")
    refuse("with doubling several ranks must come to the same bytes, and " + o.plan.codec +
               " adds what each has lost by itself",
           "--codec", "take --allreduce ring");
  o.codec_feedback |= remembers;
  if (codec && server == nullptr && dist::allreduce_text(o.plan) == "mpi")
    refuse("MPI's own allreduce adds floats, and knows no codec", "--codec", "leave it out, or take --allreduce ring");
  if (o.codec_feedback && !codec && o.plan_file.empty() && !o.resume)
    refuse("without a codec nothing is lost", "--codec-feedback", "add --codec, or leave it out");
  if (server != nullptr) dist::make_legs(*server, o.server, o.plan.codec, o.codec_feedback, o.seed);  // checks them
  if (!o.type_of_service && codec) o.type_of_service = kCodecTypeOfService;
  if (o.type_of_service == -1) o.type_of_service.reset();
}

}  // namespace

OptionFamily codec_options() { return {{}, add_codec_options, settle_codec_options}; }

}  // namespace laconic
