// If nccl.h is installed, nccl_api.h agrees with it in the sizes, offsets and constants of NCCL's binary interface.
#include <gtest/gtest.h>
#include <nccl.h>

#include "weft/dist/group/nccl/nccl_api.h"

namespace weft::nccl {
namespace {

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && sizeof(Result) == sizeof(ncclResult_t) &&
              sizeof(Type) == sizeof(ncclDataType_t) && sizeof(Reduction) == sizeof(ncclRedOp_t));
static_assert(int(Result::kSuccess) == ncclSuccess && int(Result::kInProgress) == ncclInProgress);
static_assert(int(Type::kI8) == ncclInt8 && int(Type::kU8) == ncclUint8 && int(Type::kI32) == ncclInt32 &&
              int(Type::kU32) == ncclUint32 && int(Type::kI64) == ncclInt64 && int(Type::kU64) == ncclUint64 &&
              int(Type::kF16) == ncclFloat16 && int(Type::kF32) == ncclFloat32 && int(Type::kF64) == ncclFloat64 &&
              int(Type::kBF16) == ncclBfloat16);
static_assert(int(Reduction::kSum) == ncclSum && int(Reduction::kProduct) == ncclProd &&
              int(Reduction::kMax) == ncclMax && int(Reduction::kMin) == ncclMin);
static_assert(kUnset == NCCL_CONFIG_UNDEF_INT && kNoColor == NCCL_SPLIT_NOCOLOR);
static_assert(kCtaPolicyZero == NCCL_CTA_POLICY_ZERO && kSymmetric == NCCL_WIN_COLL_SYMMETRIC &&
              kWindowAlign == NCCL_WIN_REQUIRED_ALIGNMENT);

// Later versions of NCCL append fields. They use `size` and `version` to see which fields the caller has.
#define WEFT_SAME_PLACE(ours, theirs)                                       \
  static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs) && \
                sizeof(Config::ours) == sizeof(ncclConfig_t::theirs))
WEFT_SAME_PLACE(size, size);
WEFT_SAME_PLACE(magic, magic);
WEFT_SAME_PLACE(version, version);
WEFT_SAME_PLACE(blocking, blocking);
WEFT_SAME_PLACE(cluster_size, cgaClusterSize);
WEFT_SAME_PLACE(min_ctas, minCTAs);
WEFT_SAME_PLACE(max_ctas, maxCTAs);
WEFT_SAME_PLACE(net_name, netName);
WEFT_SAME_PLACE(split_share, splitShare);
WEFT_SAME_PLACE(traffic_class, trafficClass);
WEFT_SAME_PLACE(name, commName);
WEFT_SAME_PLACE(collnet, collnetEnable);
WEFT_SAME_PLACE(cta_policy, CTAPolicy);
WEFT_SAME_PLACE(shrink_share, shrinkShare);
WEFT_SAME_PLACE(nvls_ctas, nvlsCTAs);
WEFT_SAME_PLACE(channels_per_net_peer, nChannelsPerNetPeer);
WEFT_SAME_PLACE(nvlink_centric, nvlinkCentricSched);
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));

TEST(NcclApi, TheConfigBeginsAsNcclsOwn) {
  ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  Config ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.blocking, theirs.blocking);
  EXPECT_EQ(ours.split_share, theirs.splitShare);
  EXPECT_LE(ours.size, theirs.size);
  EXPECT_LE(ours.version, theirs.version);
}

}  // namespace
}  // namespace weft::nccl
