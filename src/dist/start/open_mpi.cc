#include "weft/dist/start/open_mpi.h"

#include <cstdlib>
#include <string>
#include <string_view>

namespace weft {

std::span<const std::pair<const char*, const char*>> MpirunVariables() {
  static constexpr std::pair<const char*, const char*> kVariables[] = {
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
      {"PRTE_MCA_hwloc_default_binding_policy", "none"},
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
      {"OMPI_MCA_pml", "ob1"},
      {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
      {"OMPI_MCA_btl_base_warn_component_unused", "0"},
      {"OMPI_MCA_oob_tcp_keepalive_time", "10"},
      {"OMPI_MCA_oob_tcp_keepalive_intvl", "5"},
      {"OMPI_MCA_oob_tcp_keepalive_probes", "4"},
      {"PRTE_MCA_oob_tcp_keepalive_time", "10"},
      {"PRTE_MCA_oob_tcp_keepalive_intvl", "5"},
      {"PRTE_MCA_oob_tcp_keepalive_probes", "4"},
      {"PMIX_MCA_pcompress_base_silence_warning", "1"},
      {"OMP_NUM_THREADS", "1"},
  };
  return kVariables;
}

// Version 5 calls the shared memory transport sm, and also accepts the name vader.
void ChooseTransports() {
  const char *all = std::getenv("OMPI_COMM_WORLD_SIZE"), *here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  bool one_host = all && here && std::string_view(all) == here;
  setenv("OMPI_MCA_btl", one_host ? "self,vader" : "self,vader,tcp", /*overwrite=*/0);
}

std::chrono::milliseconds LossNotice() {
  auto number = [](const std::string& name, int usual) {
    const char* text = std::getenv(("OMPI_MCA_oob_tcp_keepalive_" + name).c_str());
    if (!text) text = std::getenv(("PRTE_MCA_oob_tcp_keepalive_" + name).c_str());
    return text ? std::atoi(text) : usual;
  };
  int idle = number("time", 300);
  if (idle <= 0) return std::chrono::milliseconds::max();  // keepalives are off
  return std::chrono::seconds(idle + number("intvl", 20) * number("probes", 9));
}

}  // namespace weft
