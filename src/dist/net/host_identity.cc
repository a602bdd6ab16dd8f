#include "weft/dist/net/host_identity.h"

#include <filesystem>
#include <system_error>

#include "weft/core/host/host_name.h"
#include "weft/core/host/small_file.h"

namespace weft {
namespace {

// "0cea1633-fd85-4ebf-9de5-6f582434b794:net:[4026531833]"
std::string InNamespace(const char* kind) {
  std::string boot = SmallFileText("/proc/sys/kernel/random/boot_id");
  boot = boot.substr(0, boot.find_last_not_of(" \n") + 1);
  std::error_code error;
  std::string space = std::filesystem::read_symlink(std::string("/proc/self/ns/") + kind, error);
  return boot.empty() || error ? HostName() : boot + ":" + space;
}

}  // namespace

std::string HostIdentity() { return InNamespace("net"); }

std::string ProcessSpace() { return InNamespace("pid"); }

}  // namespace weft
