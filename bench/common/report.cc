#include "report.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace bench {

namespace {

std::string processor() {
  std::ifstream info{"/proc/cpuinfo"};
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0)
      return line.substr(line.find(':') + 2);
  return "unknown processor";
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += c;
  }
  return out + "\"";
}

std::optional<double> ratio_of(const row &measured) {
  if (!measured.rival_value || *measured.rival_value == 0)
    return std::nullopt;
  if (measured.ratio)
    return measured.ratio;
  return measured.value / *measured.rival_value;
}

std::optional<bool> met(const row &measured) {
  if (!measured.bar)
    return std::nullopt;
  std::optional<double> const held = measured.rival.empty() ? measured.value : ratio_of(measured);
  if (!held)
    return std::nullopt;
  return measured.direction == better::higher ? *held >= *measured.bar : *held <= *measured.bar;
}

std::string or_null(const std::optional<double> &value) {
  return value ? number(*value) : "null";
}

std::string today() {
  std::time_t const now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%F", std::gmtime(&now));
  return text;
}

// The command line as docs/measurements shows it: paths of this machine become FOLDER, --json FILE
// is left out.
std::string command_of(int argc, char **argv) {
  std::string const program{argv[0]};
  std::string out = program.substr(program.rfind('/') + 1);
  for (int i = 1; i < argc; i++) {
    std::string const word{argv[i]};
    if (word == "--json") {
      i++;
      continue;
    }
    out += ' ';
    out += word[0] == '/' ? "FOLDER" : word;
  }
  return out;
}

}  // namespace

report::report(std::string name, std::string device) : name_{std::move(name)} {
  utsname system{};
  (void)uname(&system);
  machine_ = device + "; " + processor() + ", " +
             std::to_string(std::thread::hardware_concurrency()) + " processors; Linux " +
             system.release;
}

void report::add(row measured) {
  std::fprintf(stderr,
               "  %-72s %10s %s\n",
               measured.what.c_str(),
               number(measured.value).c_str(),
               measured.unit.c_str());
  rows_.push_back(std::move(measured));
}

std::string report::json(const std::string &command) const {
  std::string out = "{\"bench\": " + quoted(name_) + ", \"date\": " + quoted(today()) +
                    ", \"machine\": " + quoted(machine_) + ", \"command\": " + quoted(command) +
                    ", \"rows\": [";
  for (size_t i = 0; i < rows_.size(); i++) {
    const row &each = rows_[i];
    std::optional<bool> const reached = met(each);
    out += (i == 0 ? "\n  {" : ",\n  {");
    out += "\"what\": " + quoted(each.what) + ", \"value\": " + number(each.value) +
           ", \"unit\": " + quoted(each.unit) +
           ", \"rival\": " + (each.rival.empty() ? "null" : quoted(each.rival)) +
           ", \"rival_value\": " + or_null(each.rival_value) +
           ", \"ratio\": " + or_null(ratio_of(each)) + ", \"bar\": " + or_null(each.bar) +
           ", \"better\": " + (each.direction == better::higher ? "\"higher\"" : "\"lower\"") +
           ", \"met\": " + (reached ? (*reached ? "true" : "false") : "null") + "}";
  }
  return out + "\n]}\n";
}

std::string report::table() const {
  std::string out = name_ + " on " + machine_ + ", " + today() + "\n";
  char line[400];
  std::snprintf(line,
                sizeof line,
                "%-66s %10s %-8s %10s %8s %7s %s\n",
                "what",
                "value",
                "unit",
                "rival",
                "ratio",
                "bar",
                "met");
  out += line;
  for (const row &each : rows_) {
    std::optional<bool> const reached = met(each);
    std::string const ratio = ratio_of(each) ? number(*ratio_of(each)) : "";
    std::snprintf(
        line,
        sizeof line,
        "%-66s %10s %-8s %10s %8s %7s %s\n",
        each.what.c_str(),
        number(each.value).c_str(),
        each.unit.c_str(),
        each.rival_value ? number(*each.rival_value).c_str() : "",
        ratio.c_str(),
        each.bar ? ((each.direction == better::higher ? ">=" : "<=") + number(*each.bar)).c_str()
                 : "",
        reached ? (*reached ? "yes" : "NO") : "");
    out += line;
    if (!each.rival.empty())
      out += "    against: " + each.rival + "\n";
  }
  return out;
}

int report::finish(int argc, char **argv) const {
  const char *path = nullptr;
  for (int i = 1; i + 1 < argc; i++)
    if (std::strcmp(argv[i], "--json") == 0)
      path = argv[i + 1];
  std::fputs(table().c_str(), stdout);
  if (path == nullptr) {
    std::fputs(json(command_of(argc, argv)).c_str(), stdout);
    return 0;
  }
  std::ofstream out{path};
  out << json(command_of(argc, argv));
  out.close();
  if (out)
    return 0;
  std::fprintf(stderr, "cannot write %s\n", path);
  return 1;
}

int guarded(const char *program, const std::function<int()> &run) {
  try {
    return run();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
}

void read_options(int argc, char **argv, const char *source, const option_taker &take) {
  for (int i = 1; i < argc; i++) {
    std::string const word = argv[i];
    bool const is_option = word.rfind("--", 0) == 0;
    if (is_option && i + 1 == argc)
      throw std::runtime_error(word + " needs a value");
    char const *const value = is_option ? argv[++i] : nullptr;
    if (word != "--json" && !take(word, value))
      throw std::runtime_error(word + "? See the head of " + source + " for the options");
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace bench
