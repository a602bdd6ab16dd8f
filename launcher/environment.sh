# shellcheck shell=bash
# Sourced by the scripts: what a run under mpirun wants, on one host also in a container and as root.
# The word ranks=N of weft sets the same (src/dist/start/open_mpi.cc); ranks_word_test compares the two. Open MPI 4 reads
# OMPI_MCA, and so does 5, but for what its mpirun does: that is PRTE_MCA.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# More ranks than cores.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# The default binding gives each rank one core, its helpers too.
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_pml=ob1                           # btl is chosen by each rank: without tcp on one host
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl_base_warn_component_unused=0
# mpirun notices within 30 s that a host is lost; its own 300, 20 and 9 are 8 minutes.
export OMPI_MCA_oob_tcp_keepalive_time=${OMPI_MCA_oob_tcp_keepalive_time:-10}
export OMPI_MCA_oob_tcp_keepalive_intvl=${OMPI_MCA_oob_tcp_keepalive_intvl:-5}
export OMPI_MCA_oob_tcp_keepalive_probes=${OMPI_MCA_oob_tcp_keepalive_probes:-4}
export PRTE_MCA_oob_tcp_keepalive_time=${PRTE_MCA_oob_tcp_keepalive_time:-$OMPI_MCA_oob_tcp_keepalive_time}
export PRTE_MCA_oob_tcp_keepalive_intvl=${PRTE_MCA_oob_tcp_keepalive_intvl:-$OMPI_MCA_oob_tcp_keepalive_intvl}
export PRTE_MCA_oob_tcp_keepalive_probes=${PRTE_MCA_oob_tcp_keepalive_probes:-$OMPI_MCA_oob_tcp_keepalive_probes}
export PMIX_MCA_pcompress_base_silence_warning=1
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
